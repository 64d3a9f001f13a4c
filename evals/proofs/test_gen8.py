"""GEN8: the line over ssh shows a run that goes on, and no process where it has ended, though tmux still names it."""

import subprocess

TMUX = "exec -a 'tmux new -d -s train python -u train.py' sleep 60"  # as the server's line stays
SSH = '#!/bin/bash\nshift\nexec bash -c "$*"\n'


def test_a_living_run_shows_its_process_and_an_ended_one_does_not(provider, shell_of):
    provider.program("ssh", SSH)
    (provider.place / "run.log").write_text("step 7\n")
    (provider.place / "ckpt").mkdir()
    (provider.place / "ckpt/step_7.pt").touch()
    who = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    line = shell_of("GEN8", "pgrep")
    run = subprocess.Popen(["bash", "-c", "exec -a 'python -u train.py' sleep 60"])
    server = subprocess.Popen(["bash", "-c", TMUX])
    try:
        for started in (run, server):
            path = f"/proc/{started.pid}/cmdline"
            while b"train.py" not in open(path, "rb").read().split(b"\0")[0]:
                pass
        shown = provider.run(line, USER=who)
        assert f"{run.pid} python -u train.py" in shown and "step_7.pt" in shown
        run.kill()
        run.wait()
        shown = provider.run(line, USER=who)
        assert f"{run.pid} " not in shown and f"{server.pid} " not in shown
        assert "pgrep" not in shown and "run.log" in shown
    finally:
        for started in (run, server):
            started.kill()
            started.wait()
