"""The set of short Chinese questions: well-formed, new threads, and points as its page says."""

import json
import sys

import pytest
from remote_gpu_trainer.catalogue import bundle

from tests.conftest import ROOT

PLACE = ROOT / "evals/sets/asked_zh.jsonl"


@pytest.fixture(scope="module")
def grading():
    sys.path.insert(0, str(ROOT / "evals"))
    from grading import asked_chinese, cases

    return asked_chinese, cases


def test_each_question_has_an_address_a_right_answer_and_a_half(grading):
    _, cases = grading
    asked = cases.read_cases(PLACE)
    raw = {row["id"]: row for row in map(json.loads, PLACE.read_text("utf-8").splitlines())}
    current = bundle.load().current
    assert {case.half for case in asked} == {"tuning", "reporting"}
    for case in asked:
        assert case.source.startswith("https://") and case.kind == "zh"
        assert case.expect or raw[case.id].get("told") or raw[case.id].get("round") == 2
        assert all(current(entry) for entry in case.expect)


def test_no_thread_is_in_a_set_that_something_learned_from(grading):
    _, cases = grading
    names = ("cases", "sets/fresh", "sets/waiting", "sets/near", "sets/outside")
    known = {c.source for name in names for c in cases.read_cases(ROOT / f"evals/{name}.jsonl")}
    assert not known & {case.source for case in cases.read_cases(PLACE)}


@pytest.mark.parametrize(
    ("text", "expect", "command", "points"),
    [
        ("训练断了，怎么接着训", (), "rgt resume", 2),
        ("显卡报 no kernel image", ("ENV1",), "", 2),
        ("显卡报 no kernel image", ("AD3",), "rgt fit", 0),
        ("两张4090加两张A40，能给每张卡设不同的显存占用吗", (), "", 2),
        ("显卡报 no kernel image", (), "", 1),
        ("显卡报 CUDA out of memory。Tried to allocate 2 GiB", (), "", 0),
    ],
)
def test_points_follow_from_the_answer(grading, text, expect, command, points):
    asked_chinese, _ = grading
    assert asked_chinese.points_of(text, expect, command) == points
