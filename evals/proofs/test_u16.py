"""U16: a wait for one line of a log outlives its run; the entry's own wait ends with the run, whatever became of it."""

import os
import re
import subprocess
import time

import pytest
from check_code import span
from remote_gpu_trainer.catalogue import bundle

OLD = "timeout 0.5 bash -c 'until ssh gpu grep -q DONE run.log; do sleep 0.1; done'; echo rc=$?"


@pytest.fixture
def box(tmp_path):
    """box(script): run it where `ssh HOST COMMAND` runs the command in the box's folder, or can't connect."""
    run = tmp_path / "box/runs/r7"
    run.mkdir(parents=True)
    program = tmp_path / "ssh"
    program.write_text(
        f'#!/bin/bash\ntest -e {tmp_path}/down && exit 255\ncd {tmp_path}/box && eval "${{@: -1}}"\n'
    )
    program.chmod(0o755)

    def ask(script):
        done = subprocess.run(
            ["bash", "-c", f"PATH={tmp_path}:$PATH; {script}"],
            capture_output=True,
            text=True,
            timeout=20,
        )
        return done.stdout.split()

    ask.run, ask.down = run, tmp_path / "down"
    return ask


@pytest.fixture
def training(box):
    process = subprocess.Popen(["sleep", "20"])
    (box.run / "pid").write_text(str(process.pid))
    yield process
    process.kill()
    process.wait()


def wait() -> str:
    [script] = re.findall(r"```bash\n(.*?)^```", bundle.load().get("U16").fix, re.S | re.M)
    return script.replace("timeout 8h", "timeout 0.5").replace("sleep 60", "sleep 0.1")


@pytest.mark.parametrize("started", ["bash -c", "bash wait.sh"])
def test_the_check_lists_a_loop_that_waits_and_not_one_that_has_ended(tmp_path, started):
    (tmp_path / "wait.sh").write_text("until test -e never; do sleep 30; done\n")
    line = (
        (tmp_path / "wait.sh").read_text() if started.endswith("-c") else str(tmp_path / "wait.sh")
    )
    loop = subprocess.Popen(
        ["bash", *["-c"] * started.endswith("-c"), line], cwd=tmp_path, start_new_session=True
    )

    def listed() -> bool:
        said = subprocess.run(["bash", "-c", span("U16", "pgrep")], capture_output=True, text=True)
        return any(row.split()[0] == str(loop.pid) for row in said.stdout.splitlines())

    until = time.monotonic() + 10
    while not listed() and time.monotonic() < until:
        time.sleep(0.05)
    try:
        assert listed()
    finally:
        os.killpg(loop.pid, 9)
        loop.wait()
    assert not listed()


def test_the_old_loop_waits_on_although_its_run_is_gone(box):
    assert box(OLD) == ["rc=124"]


@pytest.mark.parametrize(
    "mark, said",
    [(".done", ["finished", "rc=0"]), (".failed", ["failed", "or", "vanished", "rc=3"])],
)
def test_the_wait_ends_at_a_mark_of_its_own_run(box, training, mark, said):
    (box.run / mark).touch()
    assert box(wait()) == said


def test_a_run_that_vanished_ends_it_too(box, training):
    training.kill()
    training.wait()
    assert box(wait())[-1] == "rc=3"


def test_a_living_run_and_a_broken_connection_are_waited_for(box, training):
    assert box(wait()) == ["rc=124"]
    box.down.touch()
    training.kill()
    training.wait()
    assert box(wait()) == ["rc=124"]
