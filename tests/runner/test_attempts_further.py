"""What an attempt came to, and whether it came further than all before it."""

from types import SimpleNamespace

import pytest
from remote_gpu_trainer.runner import attempts


@pytest.mark.parametrize(
    ("best", "reach", "begins_anew", "is_further"),
    [
        (None, None, True, True),
        (None, 5, True, True),
        (100, 101, True, True),
        (100, 100, False, False),
        (100, 90, False, False),
        (100, None, False, True),
        (100, None, True, False),
        (0, 5, True, False),
        (0, 5, False, True),
    ],
)
def test_only_what_passes_the_old_best_is_further(best, reach, begins_anew, is_further):
    assert attempts.is_further(best, reach, begins_anew) is is_further


USUAL = {
    "exit": 0, "stalled": "", "asked": "", "missing": [], "owed": [], "torn": [], "never": "", "nan": "", "on_nan": "",
    "lost": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "failure", "reason", "asked"),
    [
        ({}, "", "by its end", ""),
        ({"torn": ["a.pt"]}, "bug", "the program ended, but a result is broken: a.pt", ""),
        ({"torn": ["a.pt"], "missing": ["b.pt"]}, "", "by its end", ""),
        ({"stalled": "no step"}, "unknown", "by its evidence", ""),
        ({"asked": "stop"}, "unknown", "by its evidence", "stop"),
        ({"asked": "stop", "owed": ["a.pt"]}, "", "by its end", ""),
        ({"asked": "stop", "owed": ["a.pt"], "lost": True}, "", "by its end", "stop"),
        ({"asked": "stop", "owed": ["a"], "missing": ["b"]}, "unknown", "by its evidence", "stop"),
        ({"exit": 1}, "unknown", "by its evidence", ""),
        ({"exit": 1, "torn": ["a.pt"]}, "unknown", "by its evidence", ""),
        ({"exit": 1, "never": "setup: line 1 failed"}, "setup", "setup: line 1 failed", ""),
        ({"exit": 1, "never": "setup", "asked": "stop"}, "unknown", "by its evidence", "stop"),
        ({"exit": 1, "nan": "loss is nan"}, "unknown", "by its evidence; loss is nan", ""),
        ({"nan": "by its end"}, "", "by its end", ""),
        ({"nan": "loss is nan", "on_nan": "stop"}, "nan", "loss is nan", ""),
        (
            {"exit": 1, "nan": "loss is nan", "on_nan": "stop", "asked": "stop"},
            "unknown", "by its evidence; loss is nan", "stop",
        ),
    ],
)  # fmt: skip
def test_what_an_attempt_came_to(given, failure, reason, asked, monkeypatch):
    told = SimpleNamespace(**{**USUAL, **given})
    monkeypatch.setattr(attempts.results, "torn", lambda _: told.torn)
    monkeypatch.setattr(
        attempts.why, "classify", lambda *_: attempts.Verdict("unknown", "", "by its evidence")
    )
    run = SimpleNamespace(asked=told.asked, spec=SimpleNamespace(on_nan=told.on_nan))
    attempt = SimpleNamespace(
        run=run, state=SimpleNamespace(exit=told.exit), owed=told.owed, _stalled=told.stalled,
        heart=SimpleNamespace(nan=told.nan, has_lost_lease=told.lost), _attempt=None,
        _never_started=lambda: told.never, _judge_end=lambda _: attempts.Verdict("", "", "by its end"),
    )  # fmt: skip
    verdict = attempts.Attempts._judge(attempt, SimpleNamespace(missing=told.missing))
    assert (*verdict[::2], run.asked) == (failure, reason, asked)
