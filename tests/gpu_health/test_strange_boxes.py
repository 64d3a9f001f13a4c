"""The boxes that a stranger made: what evals/grading/strange_boxes.py counts, and where it disagrees."""

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading import strange_boxes

CASES = strange_boxes.read(ROOT / "evals" / "sets" / "health_strangers.jsonl")
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


@each_case
def test_a_box_is_the_one_that_its_maker_made(case):
    assert strange_boxes.texts(case)


def test_a_box_on_another_capture_is_refused():
    case = dict(CASES[0], base="a100x8")
    with pytest.raises(ValueError, match="fault-01: the capture a100x8 has changed"):
        strange_boxes.texts(case)


def test_a_finding_that_names_the_fault_and_the_verdict_are_counted_apart():
    case = {"id": "fault-00", "names": "Xid 79", "expect": "unfit", "gpus": []}
    told = {"verdict": "care", "findings": [{"evidence": "NVRM: Xid 79"}]}
    got = strange_boxes.outcome(case, told)
    assert got == {"verdict": "care", "named": True}
    assert strange_boxes.lacks(case, {"fault-00": got}) == ["fault-00: care, expected unfit"]
    assert strange_boxes.lacks(dict(case, disputed="why"), {"fault-00": got}) == []


def test_an_alarm_over_a_healthy_box_is_false_whatever_is_disputed():
    case = {"id": "sound-00", "expect": "fit", "disputed": "why"}
    got = strange_boxes.outcome(case, {"verdict": "care", "findings": []})
    assert strange_boxes.lacks(case, {"sound-00": got}) == ["sound-00: false alarm, care"]


@pytest.fixture(scope="module")
def today():
    return {case["id"]: strange_boxes.outcome(case, strange_boxes.answer(case)) for case in CASES}


@each_case
def test_a_box_gets_its_makers_verdict_and_its_fault_a_name_or_the_case_says_why_not(case, today):
    assert strange_boxes.lacks(case, today) == []


@each_case
def test_a_case_that_is_no_longer_disputed_says_nothing_of_it(case, today):
    got, expected = today[case["id"]], case["expect"]
    assert not case.get("disputed") or got != {"verdict": expected, "named": True}


def test_the_table_keeps_the_first_run():
    first = [case["first"] for case in CASES if strange_boxes.is_fault(case)]
    assert sum(one["named"] for one in first) == 48
    assert sum(one["verdict"] == "fit" and not one["named"] for one in first) == 9
