"""start, run, status and markers: the plain life of a run."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import engine
from tests.runner.box import Box, undisturbed

pytest_plugins = ["tests.runner.box"]


def alter_state(box: Box, **fields: object) -> None:
    """Let the state say something else."""
    path = box.run_dir / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}) + "\n")


def test_a_started_run_ends_done_with_the_weights_of_an_undisturbed_one(box: Box):
    box.make()
    box.start()
    assert box.wait()["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert box.marker("done") | {"t": 0, "told": True} == {
        "t": 0,
        "exit": 0,
        "class": "",
        "entry": "",
        "reason": "",
        "again": "",
        "step": 40,
        "attempt": 1,
        "checkpoint": f"{box.checkpoints}/step-40.pt",
        "is_nan": False,
        "before_nan": "",
        "refused": False,
        "told": True,
    }
    assert [s for _, s, _ in box.steps()] == list(range(1, 41))
    assert b"step 40/40" in box.output() and box.output().endswith(b"finished\n")


def test_run_in_the_foreground_ends_with_the_code_of_the_training(box: Box):
    box.make("--fail-at", 3, "--fail-code", 41, "--sleep", 0)
    assert box.verb("run").returncode == 41
    assert box.marker("failed")["exit"] == 41
    assert not (box.run_dir / ".done").exists()


def test_starting_a_finished_run_again_does_nothing(box: Box):
    box.make("--sleep", 0)
    assert box.verb("run").returncode == 0
    before = box.output()
    again = box.verb("start")
    assert again.returncode == 0 and "already done" in again.stdout
    assert box.verb("run").returncode == 0
    assert box.output() == before and len(box.events("attempt")) == 1


def test_of_two_starts_at_once_exactly_one_runs_and_the_other_exits_75(box: Box):
    box.make()
    both = [box.popen("start"), box.popen("start")]
    codes = sorted(child.wait(60) for child in both)
    assert codes == [0, 75]
    assert box.verb("run").returncode == 75
    assert box.wait()["phase"] == "done"
    assert len(box.events("start")) == 1
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()


def test_a_detached_run_belongs_to_no_terminal_and_hears_no_hang_up(box: Box):
    box.make()
    box.start()
    box.at_step(7)
    fields = Path(f"/proc/{box.pid('runner')}/stat").read_text().rpartition(")")[2].split()
    assert (int(fields[3]), int(fields[4])) == (box.pid("supervisor"), 0), "a session of its own"
    for name in ("runner", "supervisor"):
        os.kill(box.pid(name), signal.SIGHUP)
    assert box.wait()["phase"] == "done"
    assert len(box.events("attempt")) == 1 and not box.events("save-now")


@pytest.mark.parametrize("verb", ["start", "run"])
def test_a_terminal_closed_during_the_start_ends_neither_it_nor_the_default_of_a_signal(
    box: Box, verb
):
    python, began, go = (box.folder / name for name in ("python", "began", "go"))
    python.write_text(
        f"#!/bin/bash\ntouch {began}\nuntil [[ -e {go} ]]; do sleep 0.05; done\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    box.make(python=str(python), command=["cat", "/proc/self/status"], results=[])
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", str(box.script), verb], box.env)
    box.until(began.exists)
    os.close(terminal)
    go.touch()
    os.waitpid(pid, 0)
    assert box.wait()["phase"] == "done"
    assert b"\nSigIgn:\t0000000000000000\n" in box.output()


def test_a_run_in_a_tmux_whose_server_is_killed_goes_on(box: Box):
    tmux = [engine("tmux", "apt-get install -y tmux"), "-S", str(box.folder / "socket")]
    box.make()
    line = ["new-session", "-d", "bash", str(box.script), "run"]
    subprocess.run([*tmux, *line], env=box.env, check=True)
    box.at_step(7)
    asked = [*tmux, "display-message", "-p", "#{pid}"]
    server = int(subprocess.run(asked, capture_output=True, check=True).stdout)
    os.kill(server, signal.SIGKILL)
    assert box.wait()["phase"] == "done"
    assert len(box.events("attempt")) == 1
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()


def test_a_missing_result_is_a_failure_although_the_program_said_zero(box: Box):
    box.make("--sleep", 0, results=["nowhere.bin", "final.bin"])
    assert box.verb("run").returncode == 1
    assert box.marker("failed")["class"] == "bug"
    assert box.status()["expect_missing"] == ["nowhere.bin"]


def test_the_log_is_cut_into_files_and_loses_nothing(box: Box):
    line = "x" * 97
    lines = (
        f"import sys\nfor n in range(3000): print(n, {line!r})\nprint('to stderr', file=sys.stderr)"
    )
    box.make(command=["python3", "-c", lines], results=[], timings={"log_bytes": 10000})
    assert box.verb("run").returncode == 0
    files = sorted((box.run_dir / "log").glob("train.log.*"))
    assert len(files) > 20 and all(path.stat().st_size == 10000 for path in files[:-1])
    assert box.output() == "".join(f"{n} {line}\n" for n in range(3000)).encode() + b"to stderr\n"


def test_a_line_is_in_the_log_while_the_program_still_runs(box: Box):
    box.make(command=["bash", "-c", "echo first; sleep 30"], results=[])
    box.start()
    box.until(lambda: box.output() == b"first\n", timeout=5)


def test_status_before_the_first_start_says_new(box: Box):
    now = box.make().status()
    assert now["phase"] == "new" and now["alive"] is False and now["step"] is None


@pytest.mark.alone
def test_status_is_quick_and_valid_whatever_the_log_holds(box: Box):
    evil = 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 40 + b"\\"\\\\{}\\n\\x1b[31m" + "火\\u2028".encode() + b"\\xe7\\x81"); sys.stdout.flush(); import time; time.sleep(30)'
    box.make(
        command=["python3", "-c", evil],
        results=[],
        spec={"name": 'quote " back\\slash\nnewline 火'},
    )
    box.start()
    box.until(lambda: box.output())
    took = []
    for _ in range(5):
        begin = time.monotonic()
        text = box.verb("status", "--json").stdout
        took.append(time.monotonic() - begin)
        now = json.loads(text)
    assert min(took) < 0.3
    assert text.count("\n") == 1 and now["name"] == 'quote " back\\slash\nnewline 火'
    assert '"\\{}' in now["tail"] and "火" in now["tail"] and len(now["tail"].encode()) <= 4096


def test_the_end_of_the_last_run_is_not_taken_for_this_one_s(box: Box):
    box.make("--sleep", 0)
    box.start()
    box.wait()
    for _ in range(3):
        box.start("resume")
        assert box.status()["phase"] in ("preflight", "staging", "running", "syncing") or len(
            box.events("done")
        ) == len(box.events("start"))
        box.until(
            lambda: (
                len(box.events("done")) == len(box.events("start")) and not box.status()["alive"]
            )
        )


def test_a_login_without_home_or_util_linux_runs_all_the_same(box: Box):
    lacks = ("flock", "setsid", "ionice", "prlimit", "getopt", "logger")
    tools = box.folder / "bin"
    tools.mkdir()
    for place in ("/bin", "/usr/bin"):
        for program in Path(place).iterdir():
            if program.name not in lacks and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
    box.env["PATH"] = str(tools)
    box.env.pop("HOME")
    box.make("--sleep", 0, durable={"to": "~/durable-of-no-run", "what": ["final.bin"]})
    now = box.status()
    assert now["phase"] == "new"
    box.make("--sleep", 0)
    box.start()
    assert box.wait()["phase"] == "done"


def test_the_marker_tells_what_an_older_state_does_not(box: Box):
    box.make("--sleep", 0, "--fail-at", 3, "--fail-code", 9)
    box.verb("run")
    alter_state(box, **{"class": "", "phase": "running"})
    (box.run_dir / ".failed").write_text(
        '{"t":1,"exit":28,"class":"disk","entry":"U6","reason":"no room left in \\"/x\\"","step":7,"attempt":2}\n'
    )
    now = box.status()
    assert [
        now[key] for key in ("phase", "exit", "class", "entry", "reason", "step", "attempt")
    ] == ["failed", 28, "disk", "U6", 'no room left in "/x"', 7, 2]
    (box.run_dir / ".failed").write_text("")
    assert box.status()["phase"] == "failed"


@pytest.fixture
def login_node(box: Box):
    """`verb` on another machine that sees the folder: a host name and processes of its own."""
    enter = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*enter, "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare is not allowed here")

    def verb(*words: str) -> subprocess.CompletedProcess:
        line = 'hostname login-node; exec bash "$@"'
        return subprocess.run(
            [*enter, "bash", "-c", line, "x", str(box.script), *words],
            env=box.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return verb


def test_a_run_on_another_machine_is_judged_by_its_heartbeat(box: Box, login_node):
    box.make("--steps", 4000, target="slurm")
    box.start()
    box.at_step(3)
    now = json.loads(login_node("status", "--json").stdout)
    assert (
        now["alive"],
        now["runner_alive"],
        now["elsewhere"],
        now["supervisor_alive"],
        now["host"],
    ) == (True, True, True, None, os.uname().nodename)
    for word in ("stop", "save"):
        done = login_node(word)
        assert done.returncode in (1, 2) and (
            word == "save"
            or f"toy runs on {os.uname().nodename}; do it there, or with its scheduler (scancel)"
            in done.stderr
        )
    assert box.status()["phase"] == "running"
    # Killed there, and no word for long.
    box.kill_everything()
    old = int(time.time()) - 1000
    alter_state(box, updated=old)
    (box.run_dir / "lock").write_text(f"1 1 {old}\n")
    now = json.loads(login_node("status", "--json").stdout)
    assert (now["alive"], now["elsewhere"]) == (False, True) and now["heartbeat_age"] >= 1000
    done = login_node("stop")
    assert done.returncode == 1 and "this box can't tell whether it still runs" in done.stderr
    assert box.verb("stop").stdout == "toy is not running\n"


def test_a_box_that_was_started_again_is_not_another_machine(box: Box):
    box.make("--steps", 4000, target="slurm")
    box.start()
    box.at_step(3)
    box.kill_everything()
    up = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    alter_state(box, boot_id="another", updated=int(up) - 5)
    (box.run_dir / "lock").write_text(f"1 1 {int(up) - 5}\n")
    now = box.status()
    assert (now["alive"], now["elsewhere"]) == (False, False)
    # The same name and a beat since our own boot: two machines are called alike.
    alter_state(box, updated=int(time.time()))
    assert box.status()["elsewhere"] is True
