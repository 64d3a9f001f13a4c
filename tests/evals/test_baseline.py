"""tools/baseline.py: what it asks, and that it sees a change."""

import json

from tests.conftest import ROOT
from tests.programs import loaded

BASELINE = loaded(ROOT / "tools/baseline.py")
RECORD = json.loads((ROOT / "tests/records/baseline.json").read_text(encoding="utf-8"))


def test_the_record_holds_every_kind_of_question():
    kinds = {name.split()[0] for name in RECORD}
    assert kinds == {
        *("report", "short", "log", "whole", "good", "ranks", "rank", "job", "staleness"),
        *("fit", "config", "health", "server"),
    }
    assert len(RECORD) > 6000


def test_two_answers_have_one_digest_only_if_they_are_alike():
    answer = {"matches": [{"id": "D8", "confidence": "high"}], "also": [], "ask": ""}
    other = {"matches": [{"id": "D8", "confidence": "medium"}], "also": [], "ask": ""}
    assert BASELINE.digest(answer) == BASELINE.digest(json.loads(json.dumps(answer)))
    assert BASELINE.digest(answer) != BASELINE.digest(other)
    assert BASELINE.brief(answer) != BASELINE.brief(other)


def test_jobs_and_boxes_are_answered_under_names_of_the_record():
    names = {name for name, _ in BASELINE.jobs()}
    assert names == {name for name in RECORD if name.startswith("job ")}
