"""What the probe alone says on whole projects: the record is whole, and the README shows its tables."""

import re
from collections import Counter

from tests.conftest import ROOT
from tests.programs import loaded

alone = loaded(ROOT / "evals/probe/alone.py")
PAGE = ROOT / "evals/probe/projects/README.md"


def test_each_of_twelve_projects_has_two_faults_and_two_healthy_variants():
    cases = alone.record()
    assert Counter((case["project"], case["fault"]) for case in cases) == {
        (name, fault): 2 for name in {case["project"] for case in cases} for fault in (True, False)
    }
    assert len({(case["project"], case["variant"]) for case in cases}) == len(cases) == 48


def test_verdicts_and_alarms_follow_from_what_the_probe_said():
    for case in alone.record():
        levels = {one["finding"].split()[0] for one in case["findings"]}
        worst = "wrong" if "wrong" in levels else "suspicious" if "hint" in levels else "sound"
        assert case["verdict"] == (worst if case["steps"] else "not looked at"), case
        if case["fault"]:
            assert case["kind"] in alone.KINDS and case["names_fault"] in alone.NAMED, case
            assert case["names_fault"] != "finding" or case["findings"], case
            assert case["names_fault"] != "marked fact" or case["marked"], case
        else:
            alarm = worst if worst != "sound" else "marked fact" if case["marked"] else "none"
            assert case["false_alarm"] == alarm, case


def test_the_readme_shows_the_tables_of_the_record():
    text = PAGE.read_text(encoding="utf-8")
    assert alone.tables(alone.record()) in text
    assert alone.filled(text) == text


def test_a_changed_record_changes_the_tables():
    cases = alone.record()
    missed = [dict(case, names_fault="no") if case["fault"] else case for case in cases]
    whole = re.search(r"\| all \| 24 \|(.*)\|", alone.tables(missed))[1]
    assert whole.split("|")[-1].strip() == "24"
