"""The run script with what may stand on a box: py-spy, rclone, a login over ssh, and no network at all."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import engine
from tests.runner.box import PROGRAM, Box, assert_nothing_repeated, undisturbed

pytest_plugins = ["tests.runner.box", "tests.engines.sshd"]


def test_py_spy_reads_the_stacks_of_what_takes_no_fault_handler(box: Box):
    real = engine("py-spy", "pip install py-spy")
    box.tool("py-spy", f'[[ -d /proc/$5 ]] && echo "$5" >> {box.folder}/living; exec {real} "$@"')
    words = [sys.executable, "-I", str(PROGRAM), "--hang-at", "12", "--fail-times", "1"]
    box.make(command=words, stall={"log_minutes": 0.05})
    box.start()
    assert box.wait(timeout=90)["phase"] == "done"
    taken = box.run_dir / box.events("snapshot")[0]["folder"]
    text = (taken / "stacks.log").read_text()
    assert "stack by py-spy" in (taken / "page.md").read_text(), text
    assert "knobs" in text and "MainThread" in text
    assert f"Process {(box.folder / 'living').read_text().split()[0]}:" in text
    assert b"Aborted" not in box.output() and b"Fatal Python error" not in box.output()
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)


def test_a_run_on_a_new_box_goes_on_from_what_rclone_copied(box: Box):
    """How its copies are compared and mended: test_clouds.py."""
    engine("rclone", "apt-get install -y --no-install-recommends rclone")
    there, config = box.folder / "there", box.folder / "rclone.conf"
    config.write_text(f"[keep]\ntype = alias\nremote = {there}\n")
    box.env["RCLONE_CONFIG"] = str(config)
    name = "it's [1] {a,b} *.bin"
    what = {"to": "rclone:keep:runs/a b", "what": [str(box.checkpoints), name]}
    results = [str(box.run_dir / name)]
    box.make("--final", name, durable={**what, "every_minutes": 0.02}, results=results)
    box.run_dir.mkdir()
    (box.run_dir / "it's [1] {a,b} other.bin").write_text("not asked for")
    assert box.verb("run").returncode == 0, box.log()
    kept = there / "runs/a b"
    assert box.status()["last_sync"]["verified"] is True
    assert (kept / name).read_bytes() == undisturbed()
    assert not (kept / "it's [1] {a,b} other.bin").exists()
    assert list((kept / "runner/log").iterdir())
    shutil.rmtree(box.run_dir)
    shutil.rmtree(box.checkpoints)
    assert box.verb("run").returncode == 0, box.log()
    assert box.events("restored") and not box.steps(), "the last checkpoint came back whole"
    assert (box.run_dir / name).read_bytes() == undisturbed()
    config.write_text(config.read_text().replace("alias", "nothing"))
    assert box.verb("sync").returncode == 1


@pytest.mark.parametrize("end", ["answers", "hangs"])
def test_the_deadline_holds_on_a_box_whose_network_is_gone(box: Box, end):
    if os.getuid() or subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("unshare -n needs root")
    engine("rsync", "apt-get install -y rsync")
    network = engine("ip", "apt-get install -y iproute2", "/usr/sbin")
    line = {
        "answers": f"date +%s >> {box.folder}/stopped",
        "hangs": f"trap '' TERM; echo asked >> {box.folder}/tried; sleep 1000 & wait; sleep 1000",
    }[end]
    box.make(
        "--steps", 4000, durable={"to": "gpu@10.99.99.2:kept", "what": [str(box.checkpoints)], "every_minutes": 0.02}, checkpoint={"save_seconds": 3},
        deadline=f"at:{int(time.time()) + 25}", target="ssh", platform="generic-ssh", resume="none",
        at_end={"do": "run", "command": line, "when": ["deadline", "unsaved"]}, timings={"end_retry": 600},
        notify=["bash", "-c", f"cat >> {box.folder}/alarms; date +%s >> {box.folder}/alarmed"],
    )  # fmt: skip
    # Packets go out and nobody answers, as behind a cable that was pulled.
    inside = (
        f"{network} link set lo up; {network} link add d type dummy && "
        f"{network} addr add 10.99.99.1/24 dev d && {network} link set d up; "
        f"exec bash {box.script} start"
    )
    done = subprocess.run(
        ["unshare", "-n", "bash", "-c", inside], env=box.env, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the box runs `" in done.stdout
    deadline = box.deadline()
    told = box.folder / ("stopped" if end == "answers" else "tried")
    box.until(lambda: told.exists() and told.read_text(), timeout=120)
    assert deadline <= int(told.stat().st_mtime + 0.1) <= deadline + 60
    assert box.marker("preempted")["class"] == "deadline" and b"leaving" in box.output()
    if end == "hangs":
        says = box.folder / "alarms"
        box.until(lambda: says.exists() and "took longer than" in says.read_text(), timeout=120)
        box.until(lambda: not commands(box, "tried"), timeout=10, what="the hung command is left")


def commands(box: Box, word: str) -> list[bytes]:
    """The run's processes with this word in their command, but its own, whose job holds it too."""
    found = []
    for pid in box.processes():
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if word.encode() in words:
                found.append(words)
    return found


@pytest.mark.parametrize("verb", ["start", "run"])
def test_a_client_killed_under_a_terminal_takes_nothing_with_it(box: Box, sshd, verb):
    box.make("--sleep", 0.1, "--every", 2)
    client = sshd.popen(
        f"bash {box.script} {verb}",
        tty=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    box.at_step(5)
    os.kill(client.pid, signal.SIGKILL)
    client.wait(90)
    sshd.cut()
    assert box.wait(timeout=60)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert_nothing_repeated(box)
    assert not box.events("save-now") and len(box.events("attempt")) == 1


def test_a_notice_after_a_start_over_ssh_saves_and_the_next_start_goes_on(box: Box, sshd):
    box.make("--sleep", 0.4)  # the signal waits up to three seconds for a gap between its saves
    start = f"bash {box.script} start"
    client = sshd.popen(start, tty=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    box.at_step(7)
    client.kill()
    client.wait(90)
    # What a provider's notice does, five seconds before the KILL.
    os.kill(box.pid("runner"), signal.SIGTERM)
    box.until(lambda: (box.run_dir / ".preempted").exists())
    box.kill_everything()
    sshd.start()
    again = sshd.run(start, timeout=60)
    assert again.returncode == 0 and "started toy in " in again.stdout, again.stdout + again.stderr
    assert box.wait(timeout=60)["phase"] == "done"
    assert (box.run_dir / "final.bin").read_bytes() == undisturbed()
    assert [step for _, step, _ in box.steps()] == list(range(1, 41))
