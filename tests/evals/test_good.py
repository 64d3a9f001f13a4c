"""A log of a run that went well beside a failing one: what it brings back, and that it takes nothing away."""

import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

import run_evals
from grading import good, unseen


@pytest.fixture(scope="module")
def buried():
    return good.read()


def lines_of(path):
    return path.read_bytes().decode().replace("\r", "\n").split("\n")


def test_forty_error_texts_lie_in_a_healthy_run_of_ten_projects_or_more(buried):
    assert len(buried) == len({one.case.id for one in buried}) == 40
    assert len({one.good.name for one in buried}) >= 10
    assert [one.case.id for one in buried] == sorted(one.case.id for one in buried)
    reports = unseen.together(unseen.sets())
    assert {one.case.id for one in buried} <= {case.id for case in reports if case.kind == "error"}


def test_the_error_text_is_in_neither_healthy_run(buried):
    for one in buried:
        own = one.good.with_name(one.good.name.replace(".2.", ".1."))
        healthy = {line.strip() for path in (own, one.good) for line in lines_of(path)}
        assert one.error and one.error in one.case.text
        assert not {line.strip() for line in one.error.splitlines()} <= healthy


def test_the_good_log_is_of_another_run_than_the_healthy_lines(buried):
    for path in {one.good for one in buried}:
        other = path.with_name(path.name.replace(".2.", ".1."))
        numbers = [
            {line for line in lines_of(log) if any(c.isdigit() for c in line)}
            for log in (path, other)
        ]
        same = len(numbers[0] & numbers[1]) / min(map(len, numbers))
        assert same < 0.7, (path.name, same)
        assert (
            "step" in path.read_text("utf-8").lower() or "epoch" in path.read_text("utf-8").lower()
        )


def test_each_healthy_run_says_what_made_it():
    rows = (good.RUNS / "made_by.tsv").read_text(encoding="utf-8").splitlines()[1:]
    names = {path.name for path in good.RUNS.glob("*.log")}
    assert {row.split("\t")[0] for row in rows} == names


def test_a_good_log_brings_five_of_the_missed_among_three_and_takes_none_away(buried):
    won, fell = good.changed(good.graded(buried))
    assert len(won) >= 5
    assert not fell


def test_a_report_that_falls_fails_the_suite(monkeypatch, capsys):
    monkeypatch.setattr(good, "run", lambda: ("a table", ["0035ca5667"]))
    monkeypatch.setattr(sys, "argv", ["run_evals.py", "--suite", "good"])
    assert run_evals.main() == 1
    assert "0035ca5667 fell" in capsys.readouterr().err
