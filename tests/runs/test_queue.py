"""A queue of cells on real processes: every cell runs through the runner, once, with its own arguments and folders."""

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from remote_gpu_trainer.runs import cells, shell_text

PROGRAM = """\
mkdir -p "$EFFECTS"
printf '%s\\0' "$@" >"$EFFECTS/$RGT_CELL.arguments"
[[ ${1-} == wait ]] && while [[ ! -e $EFFECTS/go.now ]]; do sleep 0.1; done
[[ ${1-} == bad ]] && exit 3
[[ ${1-} == full ]] && { echo 'No space left on device'; exit 1; }
sleep "${WORK:-0}" || exit 143
echo "$HOSTNAME $RGT_ATTEMPT $RGT_RUN_DIR $RGT_CHECKPOINT_DIR ${CUDA_VISIBLE_DEVICES-}" >>"$EFFECTS/$RGT_CELL"
"""


class Box:
    """A home folder, a host name and a rendered script: one box of several that may share a folder of claims."""

    def __init__(
        self, place: Path, name: str, roster: list[list[str]], effects: Path, **values: object
    ):
        self.home, self.name, self.effects = place / name, name, effects
        self.run_dir = self.home / "run"
        self.run_dir.mkdir(parents=True)
        (self.home / "program.sh").write_text(PROGRAM)
        given = {
            "RGT_NAME": "sweep", "RGT_RUN_DIR": "~/run", "RGT_COMMAND": ["bash", str(self.home / "program.sh")], "RGT_DEADLINE": "hours:1",
            "RGT_CELLS": ["\x1f".join(cell) for cell in roster], "RGT_LEASE": 2, "RGT_SLOTS": 2, "RGT_SAVE_SECONDS": 1, "RGT_HEARTBEAT": 1,
            "RGT_RETRY": ["unknown=0", "killed=0"], "RGT_RETRY_WAIT": 0,
        }  # fmt: skip
        self.script = self.home / "run.sh"
        self.script.write_text(shell_text.script({**given, **values}))
        self.env = {**os.environ, "HOME": str(self.home), "HOSTNAME": name, "EFFECTS": str(effects)}

    def run(self, *verb: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(self.script), *verb],
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    def popen(self, *verb: str, **env: str) -> subprocess.Popen:
        log = (self.home / "out").open("ab")
        return subprocess.Popen(
            ["bash", str(self.script), *verb],
            env={**self.env, **env},
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def processes(self, word: str = "") -> list[int]:
        """What runs on this box: processes with its home, as after a login there."""
        mark, found = f"HOME={self.home}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    if (
                        mark in (entry / "environ").read_bytes().split(b"\0")
                        and word.encode() in (entry / "cmdline").read_bytes()
                    ):
                        found.append(int(entry.name))
        return found

    def signal_all(self, number: int) -> None:
        for _ in range(1 if number != signal.SIGKILL else 4):
            for pid in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(0.05)

    def reconcile(self, *options: str) -> dict:
        return json.loads(self.run("reconcile", "--json", *options).stdout)

    def states(self) -> dict[str, str]:
        return {cell["name"]: cell["state"] for cell in self.reconcile()["cells"]}

    def ran(self) -> dict[str, list[str]]:
        """The lines that each cell left, one for each time that it ran to its end."""
        return {
            path.name: path.read_text().splitlines()
            for path in self.effects.iterdir()
            if "." not in path.name
        }

    def status(self, *options: str) -> dict:
        return json.loads(self.run("status", "--json", *options).stdout)


@pytest.fixture
def box(tmp_path):
    """Start boxes: box("one", [["cell", "argument"]], RGT_SLOTS=1). They share the folder of effects; all end with the test."""
    made: list[Box] = []

    def make(name: str, roster: list[list[str]], **values: object) -> Box:
        made.append(Box(tmp_path, name, roster, tmp_path / "effects", **values))
        return made[-1]

    yield make
    for one in made:
        one.signal_all(signal.SIGCONT)
        one.signal_all(signal.SIGKILL)


def until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def test_a_failing_cell_does_not_stop_the_queue(box):
    one = box("one", [["a"], ["b", "bad"], ["c"], ["d"]], RGT_CHECKPOINT_DIR="~/ckpt")
    done = one.run("queue")
    assert done.returncode == 1, done
    assert one.states() == {"a": "done", "b": "failed", "c": "done", "d": "done"}
    assert sorted(one.ran()) == ["a", "c", "d"]
    failed = json.loads((one.run_dir / "claims" / "b" / "failed").read_text())
    assert (failed["cell"], failed["host"], failed["exit"], failed["class"]) == (
        "b",
        "one",
        3,
        "unknown",
    )
    assert (one.run_dir / "queue.rest").read_text() == "b bad\n"
    state = json.loads((one.run_dir / "queue.json").read_text())
    assert (state["total"], state["done"], state["failed"], state["left"], state["running"]) == (
        4,
        3,
        1,
        0,
        0,
    )
    assert state["cells"]["b"]["class"] == "unknown"
    for name in "acd":
        _, _, run_dir, checkpoints = one.ran()[name][0].split()
        assert (run_dir, checkpoints) == (
            str(one.run_dir / "cells" / name),
            str(one.home / "ckpt" / name),
        )
        assert (one.run_dir / "cells" / name / ".done").exists() and (
            one.run_dir / "cells" / name / "log" / "runner.log"
        ).exists()
    again = one.run("queue")
    assert again.returncode == 1 and all(len(lines) == 1 for lines in one.ran().values()), (
        "nothing runs twice"
    )


HOSTILE = [
    "",
    " ",
    "it's",
    'say "x"',
    "$(touch pwned)",
    "`touch pwned`",
    "a\nb",
    "*",
    "-n",
    "--",
    "; exit 1",
    "\\",
    "Grüße 你好",
    "\t",
    "$HOME",
    "{cell}",
    "&",
    "!x",
    "a\r",
]


def test_hostile_arguments_arrive_exactly(box):
    one = box("one", [["all", *HOSTILE], ["none"], ["empty", ""]])
    assert one.run("queue").returncode == 0
    arrived = {
        path.stem: path.read_bytes().decode().split("\0")[:-1]
        for path in one.effects.glob("*.arguments")
    }
    assert arrived == {"all": HOSTILE, "none": [""], "empty": [""]}
    assert not list(one.home.rglob("pwned"))


def test_the_rest_can_be_read_as_a_queue_file(box):
    one = box("one", [["a"], ["b", "x"], ["c", *HOSTILE]])
    assert one.run("reconcile").returncode == 1
    text = (one.run_dir / "queue.rest").read_bytes().decode()
    assert cells.read_queue(text) == [
        {"name": "a", "arguments": []},
        {"name": "b", "arguments": ["x"]},
        {"name": "c", "arguments": HOSTILE},
    ]


def test_a_table_for_people_ends_with_a_sum(box):
    one = box("one", [["a"], ["b"]])
    lines = one.run("reconcile").stdout.splitlines()
    assert lines[0].split("\t") == ["cell", "state", "class", "entry", "where", "reason"]
    assert lines[1].split("\t")[:2] == ["a", "left"]
    assert lines[-1] == "# 2 cells: 0 done, 0 failed, 0 running, 0 lost, 2 left"


def test_a_detached_queue_is_seen_and_refuses_a_second(box):
    one = box("one", [["a", "wait"], ["b"], ["c"]])
    assert one.run("start", "--queue").returncode == 0
    until(lambda: (one.effects / "a.arguments").exists() and "b" in one.ran())
    seen = one.status()
    assert seen["alive"] and seen["phase"] == "running" and seen["keeper_alive"]
    assert seen["cells"]["total"] == 3 and seen["cells"]["running"] >= 1
    assert one.run("start", "--queue").returncode == 75
    assert one.run("queue").returncode == 75
    (one.effects / "go.now").touch()
    until(lambda: (one.run_dir / ".done").exists())
    assert one.status()["cells"]["done"] == 3
    assert all(len(lines) == 1 for lines in one.ran().values())


def test_parts_share_roster_and_run_folder_as_the_tasks_of_an_array_do(box):
    one = box("one", [[name] for name in "abcd"])
    both = [one.popen("queue", "--part", part, WORK="0.5") for part in ("1/2", "2/2")]
    until(lambda: one.effects.exists() and len(list(one.effects.glob("*.arguments"))) >= 2)
    assert one.status()["alive"] and one.status("--part", "2/2")["cells"]["total"] == 2
    assert [each.wait(90) for each in both] == [0, 0]
    assert {name: len(lines) for name, lines in one.ran().items()} == dict.fromkeys("abcd", 1)
    assert [cell["name"] for cell in one.reconcile("--part", "1/2")["cells"]] == ["a", "c"]
    assert one.run("reconcile").returncode == 0 and one.status()["phase"] == "done"


def test_a_full_disk_ends_the_queue_of_this_box_with_a_reason(box):
    one = box("one", [["a", "full"], ["b"], ["c"]], RGT_SLOTS=1)
    assert one.run("queue").returncode == 1
    assert one.states() == {"a": "left", "b": "left", "c": "left"}
    state = one.status()
    assert (state["phase"], state["class"]) == ("failed", "disk") and "cell a" in state["reason"]
    rows = {row["name"]: row for row in one.reconcile()["cells"]}
    assert rows["a"]["class"] == "disk"


def test_every_cell_is_copied_to_a_place_of_its_own(box):
    one = box(
        "one",
        [["a"], ["b"]],
        RGT_CHECKPOINT_DIR="~/ckpt",
        RGT_DURABLE="~/durable",
        RGT_SYNC=["~/ckpt", "out-{cell}.txt"],
        RGT_WORK_DIR="~/run",
        RGT_EXPECT=["out-{cell}.txt"],
    )
    (one.home / "program.sh").write_text(
        'mkdir -p "$RGT_CHECKPOINT_DIR"; echo $RGT_CELL >"$RGT_CHECKPOINT_DIR/step_1.txt"; echo $RGT_CELL >out-$RGT_CELL.txt\n'
    )
    assert one.run("queue").returncode == 0
    for name in "ab":
        place = one.home / "durable" / name
        assert [
            path.read_text()
            for path in (next(place.rglob("step_1.txt")), place / f"out-{name}.txt")
        ] == [f"{name}\n"] * 2
        assert not list(place.rglob(f"out-{'ab'.replace(name, '')}.txt"))
    assert (one.home / "durable" / "queue@one" / "queue.json").exists()
    assert one.status()["last_sync"]["ok"]


def test_a_cell_goes_on_from_the_copy_of_another_box(box, tmp_path):
    shared = {
        "RGT_CLAIMS": str(tmp_path / "claims"),
        "RGT_DURABLE": str(tmp_path / "durable"),
        "RGT_CHECKPOINT_DIR": "~/ckpt",
        "RGT_CHECKPOINT_GLOB": "*.txt",
        "RGT_SYNC": ["~/ckpt"],
    }
    one, two = (box(name, [["a"]], **shared) for name in ("one", "two"))
    (one.home / "program.sh").write_text(
        'mkdir -p "$RGT_CHECKPOINT_DIR" $EFFECTS; echo half >"$RGT_CHECKPOINT_DIR/step_1.txt"; touch $EFFECTS/saved.now; sleep 60\n'
    )
    (two.home / "program.sh").write_text(
        'echo "from ${RGT_RESUME_FROM##*/}: $(cat "$RGT_RESUME_FROM")" >$EFFECTS/a\n'
    )
    queue = one.popen("queue")
    until(lambda: (one.effects / "saved.now").exists())
    assert one.run("stop").returncode == 0 and queue.wait(90) == 77
    assert two.run("queue").returncode == 0
    assert two.ran() == {"a": ["from step_1.txt: half"]}
