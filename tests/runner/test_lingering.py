"""A command that has ended is done only when what it left behind has stopped training."""

import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.runner.box import Box

pytest_plugins = ["tests.runner.box"]

# Saves ten times in five seconds, needs nothing of its environment and prints nothing.
SAVES = """
import sys, time, zipfile
for step in range(1, 11):
    time.sleep(0.5)
    with zipfile.ZipFile(f"{sys.argv[1]}/step-{step}.pt", "w") as archive:
        archive.writestr("data", bytes([step]) * 100)
open(sys.argv[2], "w").write("ready")
"""
PRINTS = """
import sys, time
for step in range(1, 11):
    time.sleep(0.5)
    print("step", step, flush=True)
open(sys.argv[2], "w").write("ready")
"""
IDLES = "import time; time.sleep(600)"


def leave(box: Box, line: str, program: str, **fields) -> None:
    """Make a job whose shell starts a program by `line` and ends; PROGRAM stands for its words."""
    (box.folder / "left.py").write_text(program)
    words = f"{sys.executable} {box.folder}/left.py {box.checkpoints} {box.folder}/ready"
    box.checkpoints.mkdir()
    box.make(command=["bash", "-c", line.replace("PROGRAM", words)], results=[], **fields)


def left(box: Box) -> list[Path]:
    """The processes of what the command started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if f"{box.folder}/left.py".encode() in path.read_bytes():
                found.append(path)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "nohup PROGRAM >/dev/null 2>&1 &",
        "env -i setsid -f PROGRAM >/dev/null 2>&1",
        "env -i setsid -f bash -c '(PROGRAM >/dev/null 2>&1 &)'",
    ],
)
def test_a_program_in_the_background_that_saves_is_waited_for(box: Box, line):
    leave(box, line, SAVES)
    assert box.verb("run").returncode == 0
    assert (box.folder / "ready").read_text() == "ready"
    assert box.events("background") and not box.events("killed-leftovers")
    assert (box.checkpoints / "step-10.pt").exists() and not left(box)


@pytest.mark.parametrize("line", ["PROGRAM &", "setsid -f PROGRAM"])
def test_a_program_in_the_background_that_tells_steps_is_waited_for(box: Box, line):
    """Each step counts when it is told, and not at the next heartbeat."""
    leave(box, line, PRINTS, timings={"heartbeat": 60})
    assert box.verb("run").returncode == 0
    assert (box.folder / "ready").exists() and box.status()["step"] == 10


def test_no_second_trainer_starts_while_the_first_trains_on_without_its_environment(box: Box):
    """The command fails and could be tried again: what it left is ended before that."""
    line = "env -i setsid -f PROGRAM >/dev/null 2>&1; echo Connection reset by peer; exit 1"
    leave(box, line, SAVES, timings={"retry_wait": 0.1})
    assert box.verb("run").returncode != 0
    assert not left(box)
    told = [line for line in box.log().splitlines() if "attempt" in line]
    assert told and (box.folder / "ready").exists(), box.log()


@pytest.mark.parametrize("line", ["PROGRAM &", "env -i setsid -f PROGRAM"])
def test_what_only_idles_is_ended_and_told(box: Box, line):
    leave(box, line, IDLES)
    assert box.verb("run").returncode == 0
    assert box.events("killed-leftovers") and not left(box)
