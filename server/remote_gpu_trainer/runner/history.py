"""The attempts of a run as sentences, from events.jsonl."""

from __future__ import annotations

from typing import Any

from . import content
from .failures import is_by_stop
from .folder import read_rows

MOST = 20  # sentences, of the newest attempts
_ASKED = ("deadline", "preempted")  # classes of an end that is no error of the attempt
_HOW = {
    "stall": "stood still",
    "hang": "hung in a collective",
    "deadline": "reached its deadline",
    "preempted": "was preempted",
    "": "came to its end",
}


def attempts(text: str) -> list[str]:
    """Return a sentence for each attempt that ended. `text`: of events.jsonl."""
    begun, ended = _events(text)
    sentences = [
        _sentence(number, ended[number], begun.get(number + 1)) for number in sorted(ended)
    ]
    if len(sentences) == 1 and not ended[max(ended)].get("class"):
        return []  # it came to its end, as the state says
    return sentences[-MOST:]


def last_failure(text: str) -> dict[str, Any]:
    """Return the newest attempt that ended with an error: {"attempt", "reason", "from", "before"};
    {} for none. `from`: the number of its first log file; `before`: of the next one's, None for the
    newest attempt."""
    begun, ended = _events(text)
    failed = [n for n, end in ended.items() if end.get("class") not in ("", None, *_ASKED)]
    if not failed:
        return {}
    number = max(failed)
    return {
        "attempt": number,
        "reason": str(ended[number].get("reason") or ended[number].get("class")),
        "from": _whole(begun.get(number, {}).get("log")),
        "before": _whole(begun.get(number + 1, {}).get("log")),
    }


def _events(text: str) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, Any]]]:
    """Return the events of attempts that began and that ended, by the attempt's number."""
    begun: dict[int, dict[str, Any]] = {}
    ended: dict[int, dict[str, Any]] = {}
    for event in read_rows(text):
        kept = {"attempt": begun, "ended": ended}.get(str(event.get("event")))
        number = _whole(event.get("attempt") or 0)
        if kept is not None and number is not None:
            kept[number] = event
    return begun, ended


def _whole(text: Any) -> int | None:
    return int(text) if str(text).isdigit() else None


def _sentence(number: int, end: dict[str, Any], following: dict[str, Any] | None) -> str:
    how, why = _how(str(end.get("class") or ""), str(end.get("reason") or ""))
    step = str(end.get("step") or "")
    at = f" at step {step}" if step.isdigit() else ""
    sentence = f"attempt {number} {how}{at}" + (f": {why}" if why else "")
    if following is None:
        return sentence
    path = str(following.get("resume") or "")
    saved = content.step_of(path) if path else None
    if not path:
        return f"{sentence}; the next began anew"
    return f"{sentence}; went on from " + (path if saved is None else f"step {saved}")


def _how(failure: str, reason: str) -> tuple[str, str]:
    """How an attempt ended, and what is left of its reason to say."""
    if failure == "killed" and reason.startswith("killed by signal"):
        return "was killed from outside", reason.partition("; ")[2]
    if failure == "preempted" and is_by_stop(reason):
        return "was stopped as asked", reason.partition("; ")[2]
    if failure in _HOW:
        return _HOW[failure], reason if failure in ("stall", "preempted") else ""
    return "failed", reason or failure
