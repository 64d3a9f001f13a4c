"""Simulated nights hold, and an invariant finds each fault that is planted in the core."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from . import invariants, planted
from .night import play

HERE = Path(__file__).parent
FEW, MANY = 800, 5000
# A seed whose night finds a fault; `python -m tests.simulation --planted` prints the first.
FOUND_AT = {
    "copies-what-is-newest": 6,
    "drops-the-newer-generation": 0,
    "ends-before-the-copy": 8,
    "never-kills": 24,
    "silent-failed-end": 142,
    "ends-once": 57,
    "waits-for-the-store": 8,
    "resumes-from-the-older": 0,
    "copies-an-unstable-file": 6,
    "ignores-the-notice": 26,
    "restarts-without-end": 5,
    "identity-is-the-name": 6,
    "mixed-counts-as-complete": 14,
    "ends-with-nothing-copied": 12,
    "empty-folder-proves": 74,
    "damaged-generation-counts": 715,
    "new-line-drops-the-best": 7,
    "progress-on-the-box-alone": 76,
    "copies-the-same-again": 6,
    "busy-saver-starves-copies": 8,
    "no-word-of-a-full-place": 218,
    "kills-inside-a-save": 13,
    "corrupt-stays-in-place": 6,
    "away-is-empty": 314,
    "restart-forgets-everything": 108,
    "copies-late": 12,
    "one-kill-ends-the-run": 9,
    "forgets-owed-copies": 405,
    "writes-over-the-only-one": 6,
    "decides-by-a-later-time": 5837,  # no durable place, and a look that goes on as a wait ends
    "forgets-what-is-held": 2531,
    "lower-line-resumes": 101,
    "unknown-before-complete": 81,
    "starts-two": 6,
    "starts-after-stop": 413,
    "starts-after-the-deadline": 35,
    "never-ends-the-box": 0,
    "ends-while-it-trains": 2,
    "counts-every-failure": 76,
    "forgets-to-retry": 6,
    "wakes-too-late": 2,
    "busy-loop": 0,
    "no-wait-between-tries": 9,
    "never-copies-on-the-way": 8,
    "leaves-a-hung-copy": 8,
    "failed-copy-counts": 43,
    "tells-at-every-look": 6,
    "quarantines-the-complete": 6,
    "resumes-from-the-corrupt": 6,
    "ignores-the-deadline": 2,
    "signals-again-and-again": 24,
    "sees-no-stall": 72,
    "sees-stalls-everywhere": 2,
    "nan-always-ends": 88,
    "unknown-displaces-complete": 7,
    "keeps-one-before-the-copy": 6,
    "failure-is-done": 23,
    "no-word-of-an-unproven-box": 7,
    "all-agreed-to-lose": 8,
    "copies-beside-a-copy": 3,
    "refused-is-failed": 20,
    "unstaged-is-refused": 6,
    "never-raises": 54,
    "no-word-of-an-end": 723,
    "leaves-with-copies-owed": 13,
    "lets-the-program-live": 12735,  # a kill that fails, of a program that ends by nothing else
    "marks-once": 33904,
}


def test_nights_hold(request):
    count = MANY if request.config.option.all else FEW
    broken = [night for night in map(play, range(count)) if night.broken]
    assert not broken, f"python -m tests.simulation --seed {broken[0].seed} --trace: {broken[0]}"


def test_each_recorded_night_that_failed_holds_now():
    record = json.loads((HERE.parent / "records" / "nights.json").read_text(encoding="utf-8"))
    assert record["held"] + len(record["failing"]) == record["nights"] > 0
    assert {one["invariant"] for one in record["mended"]} == set(record["why"])
    assert [one for one in record["mended"] if play(one["seed"]).broken] == []


def test_a_night_is_the_same_each_time():
    rows: list[list[str]] = [[], []]
    for lines in rows:
        play(11, lines.append)
    assert rows[0] == rows[1] != []


@pytest.mark.parametrize("name", FOUND_AT)
def test_a_planted_fault_is_found(name):
    assert not play(FOUND_AT[name]).broken
    with planted.put_in(name):
        assert play(FOUND_AT[name]).broken


def test_each_planted_fault_is_found():
    assert {one.name for one in planted.ALL} == set(FOUND_AT)


def test_each_invariant_says_in_a_sentence_what_it_means():
    for check in invariants.ALL:
        assert (check.__doc__ or "").split("\n")[0].strip(), check.__name__
    assert len({check.__name__ for check in invariants.ALL}) == len(invariants.ALL)


@pytest.mark.parametrize("name", ["world.py", "draw.py", "invariants.py"])
def test_what_is_really_so_is_not_asked_of_the_core(name):
    found = set()
    for node in ast.walk(ast.parse((HERE / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    ours = {one for one in found if one.startswith("remote_gpu_trainer")}
    assert ours <= {"remote_gpu_trainer.runner.core.model", "remote_gpu_trainer.runner.spec"}
