"""What answers decide, graded against two readers and runs whose label follows from their making."""

import json

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def decisions():
    import sys

    sys.path.insert(0, str(ROOT / "evals"))
    from grading import decisions

    return decisions


def test_the_page_shows_what_the_record_holds(decisions):
    record = json.loads(decisions.RECORD.read_text(encoding="utf-8"))
    page = decisions.PAGE.read_text(encoding="utf-8")
    assert page == decisions.page(record), "run: python evals/run_evals.py --suite decision --write"


def test_each_label_is_a_decision_and_no_case_stands_twice(decisions):
    cases = [*decisions.read("first"), *decisions.read("second")]
    names = [case.get("id") or case["cell"] for case in cases]
    assert len(names) == len(set(names)) == 232
    known = {*decisions.DECISIONS, decisions.NONE}
    assert all(set(case["labels"]) | set(case["also"]) <= known for case in cases)


@pytest.mark.parametrize("half", ["first", "second"])
def test_claimed_decisions_are_as_often_right_as_they_were(decisions, half):
    told = decisions.figures(decisions.of_readers(half))
    assert told["right"] >= decisions.LEAST[half], told
    assert told["wrong stops"] <= decisions.MOST_STOPPED
    assert told["claimed"] >= 0.45
    assert told["right"] > told["always fix_first"]


def test_runs_of_several_ranks_that_were_made_to_fail_get_the_decision_of_their_making(decisions):
    told = decisions.figures(list(decisions._of_matrix()))
    assert told["right"] >= 0.98 and told["claimed"] >= 0.98, told
