"""The reports that no model learned from: the sets that RESULTS.md leads with.

(a) reports of 60 entries, and those whose label named one of them before it was corrected, (b)
reports of five trackers, (c) threads of 2026, and strange reports of fresh.jsonl.
sets/held_out.json says how the entries and trackers were chosen. (a) to (c) have chosen the wording
of 23 entries, and were in view when the ranking was built (evals/README.md). The sealed set is read
for its addresses by `shut`, and graded by `run_evals.py --sealed` alone.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle

from .cases import Case, read_cases

EVALS = Path(__file__).resolve().parent.parent
SETS = EVALS / "sets"
SEALED = SETS / "sealed.jsonl.gz"  # compressed, so that no search shows what is in it
NAMES = A, B, C = "(a) leave-entry-out", "(b) leave-tracker-out", "(c) by time"


def held_out() -> tuple[frozenset[str], frozenset[str]]:
    """(entries, trackers) whose reports nothing learns from."""
    raw = json.loads((SETS / "held_out.json").read_text(encoding="utf-8"))
    current = bundle.load().current
    return frozenset(map(current, raw["entries"])), frozenset(raw["trackers"])


def tracker(source: str) -> str:
    """`owner/name` of a GitHub thread, else the host of the address."""
    found = re.match(r"https?://(?:github\.com/([^/]+/[^/]+)|([^/]+))", source)
    return (found[1] or found[2]).lower() if found else ""


@cache
def relabelled() -> frozenset[str]:
    """Ids of reports that stay in (a) although their corrected label names none of its entries."""
    raw = json.loads((SETS / "held_out.json").read_text(encoding="utf-8"))
    return frozenset(raw["relabelled"])


def sets() -> dict[str, list[Case]]:
    """(a), (b) and (c). A report may be in two of them."""
    entries, trackers = held_out()
    current = bundle.load().current
    known = [
        case
        for name in ("cases.jsonl", "sets/fresh.jsonl", "sets/waiting.jsonl")
        for case in read_cases(EVALS / name)
    ]
    return {
        A: [
            case
            for case in known
            if (case.expect and current(case.expect[0]) in entries) or case.id in relabelled()
        ],
        B: [case for case in known if tracker(case.source) in trackers],
        C: read_cases(SETS / "by_time.jsonl"),
    }


def together(found: dict[str, list[Case]]) -> list[Case]:
    """The cases of several sets, each once."""
    return list({case.id: case for cases in found.values() for case in cases}.values())


def strange() -> list[Case]:
    """Reports of fresh.jsonl that no entry explains."""
    return [case for case in read_cases(SETS / "fresh.jsonl") if not case.expect]


def shut() -> frozenset[str]:
    """The addresses of all reports that only measure."""
    halves = ("cases.jsonl", "sets/waiting.jsonl")
    whole = ("sets/fresh.jsonl", "sets/by_time.jsonl")
    return frozenset(
        case.source
        for name in (*halves, *whole)
        for case in read_cases(EVALS / name)
        if name in whole or case.half == "reporting" or case.id in relabelled()
    ).union(case.source for case in read_cases(SEALED))
