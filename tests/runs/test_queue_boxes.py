"""A queue over several boxes that share a folder of claims, and what is left of it when boxes and processes die: every good cell is done exactly once."""

import json
import os
import signal
import subprocess
import time

import pytest

from tests.runs.test_queue import Box, box, until  # noqa: F401

BAD = {4, 9, 14, 19, 24}
ROSTER = [[f"cell-{n}", "bad" if n in BAD else "good"] for n in range(30)]
GOOD = {f"cell-{n}" for n in range(30) if n not in BAD}


def counted(one: Box) -> dict[str, int]:
    return {name: len(lines) for name, lines in one.ran().items()}


def test_thirty_cells_over_two_boxes_of_which_one_dies_half_way(box, tmp_path):
    one, two = (
        box(name, ROSTER, RGT_CLAIMS=str(tmp_path / "claims"), RGT_SLOTS=3)
        for name in ("one", "two")
    )
    both = [each.popen("queue", WORK="0.5") for each in (one, two)]

    def held() -> set[str]:
        return {
            path.parent.name
            for path in (tmp_path / "claims").glob("*/by.two@*")
            if not [*path.parent.glob("done"), *path.parent.glob("failed")]
        }

    # In the middle of its cells: what a program did just before the kill, no queue could know.
    until(
        lambda: (
            one.effects.exists() and len(one.ran()) >= 10 and held() and not held() & set(one.ran())
        ),
        40,
    )
    two.signal_all(signal.SIGKILL)
    assert both[0].wait(90) == 1 and both[1].wait(20) == -signal.SIGKILL
    assert list((tmp_path / "claims").glob("*.lost.two@*")), "cells of the dead box were taken over"
    assert counted(one) == dict.fromkeys(GOOD, 1)
    found = one.reconcile()
    assert (
        found["total"],
        found["done"],
        found["failed"],
        found["left"],
        found["lost"],
        found["running"],
    ) == (30, 25, 5, 0, 0, 0)
    rest = (one.run_dir / "queue.rest").read_text().splitlines()
    assert rest == [f"cell-{n} bad" for n in sorted(BAD)]
    assert two.reconcile()["cells"] == found["cells"], "every box tells the same"
    where = {cell["where"] for cell in found["cells"]}
    assert where == {"one", "two"}


def test_a_box_that_slept_through_its_lease_discards_its_result(box, tmp_path):
    claims = tmp_path / "claims"
    one, two = (box(name, [["a", "wait"]], RGT_CLAIMS=str(claims)) for name in ("one", "two"))
    first = one.popen("queue")
    until(lambda: (one.effects / "a.arguments").exists())
    one.signal_all(signal.SIGSTOP)
    second = two.popen("queue")
    until(lambda: list(claims.glob("a/by.two@*")))
    until(lambda: two.processes("program.sh"))
    # The runner of the sleeper wakes first and finds its program well; only the queue knows that the cell is another's.
    one.signal_all(signal.SIGCONT)
    until(lambda: (one.run_dir / "cells" / "a" / ".orphan").exists())
    assert not one.processes("program.sh"), "its program was ended"
    (one.effects / "go.now").touch()
    assert second.wait(90) == 0 and first.wait(90) == 0
    assert [line.split()[0] for line in one.ran()["a"]] == ["two"]
    assert json.loads((claims / "a" / "done").read_text())["host"] == "two"
    assert not (one.run_dir / "cells" / "a" / ".done").exists()


def test_sigterm_saves_gives_the_cells_back_and_another_start_finishes(box, tmp_path):
    one = box("one", [["a", "wait"], ["b", "wait"], ["c"]], RGT_CLAIMS=str(tmp_path / "claims"))
    queue = one.popen("queue")
    until(lambda: (one.effects / "b.arguments").exists() and (one.effects / "a.arguments").exists())
    queue.terminate()
    assert queue.wait(20) == 75
    assert not one.processes("program.sh") and not list((tmp_path / "claims").glob("?"))
    marker = json.loads((one.run_dir / ".preempted").read_text())
    assert marker["class"] == "preempted" and "signal TERM" in marker["reason"]
    assert one.states() == {"a": "left", "b": "left", "c": "left"}
    (one.effects / "go.now").touch()
    assert one.run("queue").returncode == 0
    assert counted(one) == {"a": 1, "b": 1, "c": 1}


def test_a_restart_after_everything_was_killed_does_nothing_twice(box):
    one = box("one", [[name] for name in "abcdef"])
    queue = one.popen("queue", WORK="0.5")
    until(lambda: one.effects.exists() and len(one.ran()) >= 2)
    one.signal_all(signal.SIGKILL)
    queue.wait(20)
    before = one.ran()
    seen = one.status()
    assert not seen["alive"] and seen["cells"]["lost"] + seen["cells"]["running"] >= 1
    assert one.run("queue").returncode == 0
    after = one.ran()
    # A cell that had its effect a moment before the kill, and no time to end, runs again; none that had ended does.
    ended = {path.parent.name for path in one.run_dir.glob("cells/*/.done")}
    assert ended == set("abcdef")
    finished = [
        name
        for name in before
        if f'"event":"done","cell":"{name}"'
        in (one.run_dir / "events.jsonl").read_text().split('"event":"start"')[1]
    ]
    assert all(len(after[name]) == 1 for name in finished) and set(after) == set("abcdef")


def test_a_cell_that_ended_before_its_result_was_published_is_not_run_again(box):
    one = box("one", [["a"], ["b"]])
    assert one.run("queue").returncode == 0
    folder = one.run_dir / "claims" / "a"
    folder.rename(one.run_dir / "gone")
    assert one.run("queue").returncode == 0
    assert counted(one) == {"a": 1, "b": 1} and (folder / "done").exists()


def test_of_two_starts_at_once_one_works(box):
    one = box("one", [[name] for name in "abcd"])
    both = [one.popen("queue", WORK="0.3") for _ in range(2)]
    assert sorted(each.wait(90) for each in both) == [0, 75]
    assert counted(one) == dict.fromkeys("abcd", 1)


def test_a_queue_that_is_killed_alone_takes_its_cells_with_it(box):
    one = box("one", [["a", "wait"]])
    queue = one.popen("queue")
    until(lambda: (one.effects / "a.arguments").exists())
    queue.kill()
    until(lambda: not one.processes("program.sh"))
    (one.effects / "go.now").touch()
    until(lambda: (one.run_dir / "cells" / "a" / ".preempted").exists())
    assert one.run("queue").returncode == 0
    assert counted(one) == {"a": 1}


def test_a_program_whose_queue_and_runner_were_killed_does_not_run_beside_the_next_owner(
    box, tmp_path
):
    one, two = (
        box(name, [["a", "wait"]], RGT_CLAIMS=str(tmp_path / "claims")) for name in ("one", "two")
    )
    queue = one.popen("queue")
    until(lambda: (one.effects / "a.arguments").exists())
    for pid in [*one.processes("run.sh"), *one.processes("queue.sh")]:
        os.kill(pid, signal.SIGKILL)
    queue.wait(20)
    assert one.processes("program.sh")
    second = two.popen("queue")
    until(lambda: two.processes("program.sh"))
    third = one.popen("queue")
    until(lambda: not one.processes("program.sh"))
    (one.effects / "go.now").touch()
    assert second.wait(90) == 0 and third.wait(90) == 0
    assert [line.split()[0] for line in one.ran()["a"]] == ["two"]


def test_resume_gives_failed_cells_another_chance(box):
    one = box("one", [["a"], ["b", "bad"]])
    assert one.run("queue").returncode == 1
    assert (
        one.run("queue").returncode == 1 and len(list(one.run_dir.glob("claims/b.failed.*"))) == 0
    )
    program = one.home / "program.sh"
    program.write_text(program.read_text().replace("== bad", "== no-longer-bad"))
    assert one.run("resume", "--queue").returncode == 0
    until(lambda: (one.run_dir / ".done").exists())
    assert counted(one) == {"a": 1, "b": 1}


def test_the_deadline_of_the_queue_ends_cells_that_ignore_everything(box):
    one = box("one", [["a"], ["b"]], RGT_DEADLINE=f"at:{int(time.time()) + 12}", RGT_SAVE_SECONDS=2)
    (one.home / "program.sh").write_text("trap '' TERM\nwhile :; do sleep 0.2; done\n")
    queue = one.popen("queue")
    assert queue.wait(90) != 0
    until(lambda: not one.processes("program.sh"), 15)
    until(lambda: (one.run_dir / ".preempted").exists(), 15)
    assert json.loads((one.run_dir / ".preempted").read_text())["class"] == "deadline"
    assert one.states() == {"a": "left", "b": "left"} or set(one.states().values()) <= {
        "left",
        "lost",
    }


def test_two_boxes_meet_a_full_disk_and_the_cell_is_failed_by_the_second(box, tmp_path):
    one, two = (
        box(name, [["a", "full"], ["b"]], RGT_CLAIMS=str(tmp_path / "claims"), RGT_SLOTS=1)
        for name in ("one", "two")
    )
    assert one.run("queue").returncode == 1 and two.run("queue").returncode == 1
    assert one.states() == {"a": "failed", "b": "left"}
    three = box("three", [["a", "full"], ["b"]], RGT_CLAIMS=str(tmp_path / "claims"))
    assert three.run("queue").returncode == 1
    assert three.states() == {"a": "failed", "b": "done"}


@pytest.mark.parametrize(
    "cells, says",
    [(["a/b"], "a/b"), (["a", "a"], "'a'"), (["../x"], "../x")],
    ids=["a slash", "twice", "a way out"],
)
def test_names_that_are_no_folder_names_are_refused(box, cells, says):
    done = box("one", [[name] for name in cells]).run("queue")
    assert done.returncode == 2 and says in done.stderr


def test_a_script_from_a_pipe_is_refused(box):
    one = box("one", [["a"]])
    done = subprocess.run(
        ["bash", "-s", "queue"], input=one.script.read_bytes(), env=one.env, capture_output=True
    )
    assert done.returncode == 2 and b"put it into a file" in done.stderr
