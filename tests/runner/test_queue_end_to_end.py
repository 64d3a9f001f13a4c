"""A queue of cells on real processes: every cell runs through a runner of its own, and what is good is done once, whatever is killed."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from remote_gpu_trainer.runner import procs
from remote_gpu_trainer.runner.folder import Folder

from tests.runner.box import kill_all
from tests.runner.jobs import text_of

PROGRAM = """\
mkdir -p "$EFFECTS"
printf '%s\\0' "$@" >"$EFFECTS/$RGT_CELL.arguments"
[[ ${1-} == wait ]] && while [[ ! -e $EFFECTS/go.now ]]; do sleep 0.1; done
[[ ${1-} == bad ]] && exit 3
[[ ${1-} == full ]] && { echo 'No space left on device'; exit 1; }
sleep "${WORK:-0}" || exit 143
echo "$RGT_ATTEMPT $RGT_RUN_DIR $RGT_CHECKPOINT_DIR" >>"$EFFECTS/$RGT_CELL"
"""
TIMINGS = {
    "heartbeat": 1.0,
    "retry_wait": 0.0,
    "sync_wait": 1.0,
    "leftover": 1.0,
    "raise_after": 1.0,
    "deadman": 1.0,
}


class Box:
    """A home folder with a program and a script for these cells."""

    def __init__(self, place: Path, roster: list[list[str]], **fields: object):
        self.home, self.run_dir, self.effects = place, place / "run", place / "effects"
        (place / "program.sh").write_text(PROGRAM)
        usual = {
            "name": "sweep", "rendered": {"run_dir": "~/run"}, "command": ["bash", str(place / "program.sh")],
            "deadline": "hours:1", "timings": TIMINGS,
            "retries": {"unknown": 0, "killed": 0}, "checkpoint": {"folder": "~/ckpt", "pattern": "", "save_seconds": 2.0},
            "queue": {"slots": 2, "cells": [{"name": name, "arguments": words} for name, *words in roster]},
        }  # fmt: skip
        self.script = place / "run.sh"
        self.script.write_text(text_of(usual, fields))
        own = {name: value for name, value in os.environ.items() if not name.startswith("RGT_")}
        self.env = {**own, "HOME": str(place), "EFFECTS": str(self.effects)}

    def run(self, *verb: str, **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.script), *verb],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=90,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def popen(self, *verb: str, **env: str) -> subprocess.Popen:
        with (self.home / "out").open("ab") as out:
            return subprocess.Popen(
                ["bash", str(self.script), *verb],
                env={**self.env, **env},
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def processes(self, word: str = "") -> list[int]:
        """What runs on this box: processes with its home, as after a login there."""
        mark, found = f"HOME={self.home}".encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (
                    mark in (entry / "environ").read_bytes().split(b"\0")
                    and word.encode() in (entry / "cmdline").read_bytes()
                ):
                    found.append(int(entry.name))
        return found

    def kill_everything(self) -> None:
        kill_all(self.processes)

    def pid(self, name: str, cell: str = "") -> int:
        return procs.noted(Folder(str(self.run_dir / cell)), name)[0]

    def reconcile(self, *options: str) -> dict:
        return json.loads(self.run("reconcile", "--json", *options).stdout)

    def states(self) -> dict[str, str]:
        return {cell["name"]: cell["state"] for cell in self.reconcile()["cells"]}

    def counted(self) -> dict[str, int]:
        """How often each cell ran to its end."""
        found = [path for path in self.effects.glob("*") if "." not in path.name]
        return {path.name: len(path.read_text().splitlines()) for path in found}

    def status(self, *options: str) -> dict:
        return json.loads(self.run("status", "--json", *options).stdout)

    def marker(self, name: str) -> dict:
        return json.loads((self.run_dir / f".{name}").read_text())

    def waits(self, *names: str) -> bool:
        return all((self.effects / f"{name}.arguments").exists() for name in names)


@pytest.fixture
def box(tmp_path):
    made: list[Box] = []

    def make(roster: list[list[str]], home: str = ".", **fields: object) -> Box:
        (tmp_path / home).mkdir(exist_ok=True)
        made.append(Box(tmp_path / home, roster, **fields))
        return made[-1]

    yield make
    for one in made:
        one.kill_everything()


def until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_a_failing_cell_does_not_stop_the_queue(box):
    one = box([["a"], ["b", "bad"], ["c"]])
    assert one.run("queue").returncode == 1
    assert one.states() == {"a": "done", "b": "failed", "c": "done"}
    failed = json.loads((one.run_dir / "cells" / "b" / ".failed").read_text())
    assert (failed["exit"], failed["class"]) == (3, "unknown")
    assert (one.run_dir / "queue.rest").read_text() == "b bad\n"
    for name in "ac":
        _, run_dir, checkpoints = (one.effects / name).read_text().split()
        assert run_dir == str(one.run_dir / "cells" / name)
        assert checkpoints == str(one.home / "ckpt" / name)
    assert one.run("queue").returncode == 1 and one.counted() == {"a": 1, "c": 1}
    program = one.home / "program.sh"
    program.write_text(program.read_text().replace("== bad", "== no-longer-bad"))
    assert one.run("resume", "--queue").returncode == 0
    until(lambda: (one.run_dir / ".done").exists())
    assert one.counted() == {"a": 1, "b": 1, "c": 1}
    until(lambda: not one.processes(), 20)


HOSTILE = [
    "", " ", "it's", 'say "x"', "$(touch pwned)", "`touch pwned`", "a\nb", "*", "-n", "--",
    "; exit 1", "\\", "Grüße 你好", "\t", "$HOME", "{cell}", "&", "!x", "a\r",
]  # fmt: skip


def test_hostile_arguments_arrive_exactly(box):
    one = box([["all", *HOSTILE], ["none"], ["empty", ""]])
    assert one.run("queue").returncode == 0
    arrived = {
        path.stem: path.read_bytes().decode().split("\0")[:-1]
        for path in one.effects.glob("*.arguments")
    }
    assert arrived == {"all": HOSTILE, "none": [""], "empty": [""]}
    assert not list(one.home.rglob("pwned"))


def test_a_detached_queue_is_seen_and_refuses_a_second(box):
    one = box([["a", "wait"], ["b"], ["c"]])
    assert one.run("start", "--queue").returncode == 0
    until(lambda: one.waits("a") and "b" in one.counted())
    seen = one.status()
    assert seen["alive"] and seen["phase"] == "running" and seen["supervisor_alive"]
    assert seen["cells"]["total"] == 3 and seen["cells"]["now"]["a"]["state"] == "running"
    assert one.run("start", "--queue").returncode == 75 and one.run("queue").returncode == 75
    (one.effects / "go.now").touch()
    until(lambda: (one.run_dir / ".done").exists())
    assert one.status()["cells"]["done"] == 3
    assert one.counted() == dict.fromkeys("abc", 1)


def test_parts_share_roster_and_run_folder_as_the_tasks_of_an_array_do(box):
    one = box([[name, "wait"] for name in "abcd"])
    both = [one.popen("queue", "--part", part) for part in ("1/2", "2/2")]
    until(lambda: one.waits("a", "b"))
    assert one.status()["alive"] and one.status("--part", "2/2")["cells"]["total"] == 2
    (one.effects / "go.now").touch()
    assert [each.wait(90) for each in both] == [0, 0]
    assert one.counted() == dict.fromkeys("abcd", 1)
    assert [cell["name"] for cell in one.reconcile("--part", "1/2")["cells"]] == ["a", "c"]
    assert one.run("reconcile").returncode == 0 and one.status()["phase"] == "done"


def test_every_cell_is_copied_to_a_place_of_its_own(box):
    one = box(
        [["a"], ["b"]],
        durable={"to": "~/durable", "on_this_box": True, "what": ["~/ckpt", "out-{cell}.txt"]},
        results=["out-{cell}.txt"],
    )
    (one.home / "program.sh").write_text(
        'mkdir -p "$RGT_CHECKPOINT_DIR"; echo $RGT_CELL >"$RGT_CHECKPOINT_DIR/step_1.txt"; echo $RGT_CELL >out-$RGT_CELL.txt\n'
    )
    assert one.run("queue").returncode == 0
    for name in "ab":
        place = one.home / "durable" / name
        copies = (next(place.rglob("step_1.txt")), place / f"out-{name}.txt")
        assert [path.read_text() for path in copies] == [f"{name}\n"] * 2
        assert not list(place.rglob(f"out-{'ab'.replace(name, '')}.txt"))


def test_a_cell_goes_on_from_the_copy_of_another_box(box, tmp_path):
    shared = {
        "durable": {"to": str(tmp_path / "durable"), "on_this_box": True, "what": ["~/ckpt"]},
        "checkpoint": {"pattern": "*.txt"},
    }
    one, two = (box([["a"]], home=name, **shared) for name in ("one", "two"))
    (one.home / "program.sh").write_text(
        'mkdir -p "$RGT_CHECKPOINT_DIR" $EFFECTS; echo half >"$RGT_CHECKPOINT_DIR/step_1.txt"\n'
        "touch $EFFECTS/saved.now; sleep 60\n"
    )
    (two.home / "program.sh").write_text(
        'mkdir -p $EFFECTS; echo "${RGT_RESUME_FROM##*/}: $(cat "$RGT_RESUME_FROM")" >$EFFECTS/a\n'
    )
    queue = one.popen("queue")
    until(lambda: (one.effects / "saved.now").exists())
    assert one.run("stop").returncode == 0 and queue.wait(90) == 77
    assert two.run("queue").returncode == 0
    assert (two.effects / "a").read_text() == "step_1.txt: half\n"


def test_what_could_not_be_copied_makes_the_queue_unsaved_until_it_is(box):
    one = box(
        [["a"], ["b"]],
        durable={"to": "~/durable", "on_this_box": True, "what": ["~/ckpt"]},
        deadline=f"at:{int(time.time()) + 40}",
    )
    (one.home / "program.sh").write_text(
        'mkdir -p "$RGT_CHECKPOINT_DIR"; echo 1 >"$RGT_CHECKPOINT_DIR/step_1.txt"\n'
    )
    (one.home / "durable" / "b").mkdir(parents=True)
    (one.home / "durable" / "b" / "ckpt").write_text("in the way")
    (one.home / "durable" / "b" / "b").write_text("in the way")
    assert one.run("queue").returncode == 74
    assert one.states() == {"a": "done", "b": "unsaved"}
    (one.home / "durable" / "b" / "ckpt").unlink()
    (one.home / "durable" / "b" / "b").unlink()
    assert one.run("sync").returncode == 0
    assert one.states() == {"a": "done", "b": "done"}


@pytest.mark.parametrize("how", ["signal", "stop"])
def test_a_request_saves_and_leaves_the_cells_and_another_start_finishes(box, how):
    one = box([["a", "wait"], ["b", "wait"], ["c"]])
    queue = one.popen("queue")
    until(lambda: one.waits("a", "b"))
    if how == "signal":
        os.kill(one.pid("runner"), signal.SIGTERM)
    else:
        assert one.run("stop").returncode == 0
    assert queue.wait(30) == (75 if how == "signal" else 77)
    assert not one.processes("program.sh")
    assert one.marker("preempted")["class"] == "preempted"
    assert one.states() == dict.fromkeys("abc", "left")
    (one.effects / "go.now").touch()
    assert one.run("queue").returncode == 0
    assert one.counted() == dict.fromkeys("abc", 1)


def test_a_restart_after_everything_was_killed_does_nothing_twice(box):
    one = box([[name] for name in "abcdef"])
    queue = one.popen("queue", WORK="0.5")
    until(lambda: len(list(one.run_dir.glob("cells/*/.done"))) >= 2)
    one.kill_everything()
    queue.wait(20)
    ended = {path.parent.name for path in one.run_dir.glob("cells/*/.done")}
    seen = one.status()
    assert not seen["alive"] and seen["cells"]["done"] == len(ended)
    assert one.run("queue").returncode == 0
    assert set(one.counted()) == set("abcdef")
    assert all(one.counted()[name] == 1 for name in ended)


def test_a_queue_that_is_killed_alone_comes_back_to_its_cells(box):
    one = box([["a", "wait"], ["b", "wait"], ["c"]])
    queue = one.popen("queue")
    until(lambda: one.waits("a", "b"))
    programs = one.processes("program.sh")
    for name in ("supervisor", "runner"):
        os.kill(one.pid(name), signal.SIGKILL)
    queue.wait(20)
    until(lambda: '"event": "adopted", "cell": "b"' in (one.run_dir / "events.jsonl").read_text())
    assert one.processes("program.sh") == programs
    (one.effects / "go.now").touch()
    until(lambda: (one.run_dir / ".done").exists())
    assert one.counted() == dict.fromkeys("abc", 1)


def test_a_cell_whose_runner_is_killed_goes_on(box):
    one = box([["a", "wait"]])
    queue = one.popen("queue")
    until(lambda: one.waits("a"))
    until(lambda: one.pid("supervisor", "cells/a"))
    os.kill(one.pid("runner", "cells/a"), signal.SIGKILL)
    time.sleep(3)
    (one.effects / "go.now").touch()
    assert queue.wait(60) == 0 and one.counted() == {"a": 1}
    assert (one.effects / "a").read_text().startswith("1 "), "its first attempt went on"


def test_of_two_starts_at_once_one_works(box):
    one = box([[name] for name in "abcd"])
    both = [one.popen("queue", WORK="0.5") for _ in range(2)]
    assert sorted(each.wait(90) for each in both) == [0, 75]
    assert one.counted() == dict.fromkeys("abcd", 1)


def test_the_deadline_of_the_queue_ends_cells_that_ignore_everything(box):
    one = box([["a"], ["b"]], deadline=f"at:{int(time.time()) + 12}")
    (one.home / "program.sh").write_text("trap '' TERM\nwhile :; do sleep 0.2; done\n")
    queue = one.popen("queue")
    assert queue.wait(60) != 0
    until(lambda: (one.run_dir / ".preempted").exists(), 15)
    until(lambda: not one.processes("program.sh"), 15)
    assert one.marker("preempted")["class"] == "deadline"
    assert one.states() == {"a": "left", "b": "left"}
    until(lambda: not one.processes(), 30)


def test_a_cell_of_a_queue_ends_no_box(box):
    """The end command is the queue's, also where the third hand runs it."""
    one = box(
        [["a"], ["b"]],
        deadline=f"at:{int(time.time()) + 10}",
        checkpoint={"save_seconds": 1.0},
        rendered={"end": {"command": "echo ended >>~/ended"}},
        at_end={"when": ["done", "failed", "deadline", "unsaved"]},
    )
    (one.home / "program.sh").write_text("while :; do sleep 0.2; done\n")
    one.run("start")
    until(lambda: (one.home / "ended").exists(), 60)
    one.run_dir.joinpath("quiet").touch()
    time.sleep(3)
    assert (one.home / "ended").read_text() == "ended\n"
