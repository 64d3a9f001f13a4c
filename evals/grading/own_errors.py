"""Logs that end by a mistake of their own user, of the kind that the exception names itself.

A case is a line of evals/sets/own_errors.jsonl.gz: a real `log` of a small training project that
somebody wrote who saw neither the look-up nor its rules, the `mistake`, the `exception`, and the
user's own line `at` which it was raised. `expect` holds the entries that a reader of ids, titles
and mistakes found to be about just this failure; most have none, and nothing may be claimed. A log
without `at` is healthy.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer

from .packed import count_right, read_packed
from .report import table

# What the set has to reach: shares of the cases with an entry, without one, and of the healthy.
LEAST = {"first": 0.69, "silent": 0.94, "line": 0.7, "healthy": 0.95}


def run(path: Path) -> tuple[str, list[str]]:
    """Return (the table, a line for each figure that is worse than LEAST)."""
    hits, sizes = count_right(judged(case, answer) for case, answer in answers(path))
    rows = [f"| {words} | {hits[name]} | {sizes[name]} |" for name, words in WORDS.items()]
    below = [
        f"own errors: {WORDS[name]}: {hits[name] / sizes[name]:.3f}, expected at least {least}"
        for name, least in LEAST.items()
        if hits[name] < least * sizes[name]
    ]
    title = "own errors: logs that end by a mistake of their user"
    return table(title, ("what", "right", "of"), rows), below


WORDS = {
    "first": "an entry is about it, and leads",
    "silent": "no entry is about it, and none is claimed",
    "titles": "no entry is about it, and no titles are shown",
    "line": "no entry is about it, and the user's own line is named",
    "healthy": "the run ended well, and none is claimed",
}


def answers(path: Path) -> Iterator[tuple[dict[str, Any], Answer]]:
    """Yield each case with the answer to its log."""
    with tempfile.TemporaryDirectory() as folder:
        for case in read_packed(path):
            log = Path(folder) / f"{case['id']}.log"
            log.write_text(case["log"], encoding="utf-8")
            yield case, answer_for(log=str(log))


def misses(path: Path) -> str:
    """Return a line for each claim that is wrong, or that is missing."""
    lines = []
    for case, answer in answers(path):
        if not all(is_right for name, is_right in judged(case, answer) if name in LEAST):
            found = " ".join(match["id"] for match in answer.matches) or "nothing"
            expected = " ".join(case["expect"]) or "nothing"
            lines.append(f"{case['id']}: found {found}, expected {expected}: {case['mistake']}")
    return "\n".join(lines)


def judged(case: dict[str, Any], answer: Answer) -> list[tuple[str, bool]]:
    """Return what a case is counted as, each with whether the answer is right."""
    first = answer.matches[0]["id"] if answer.matches else ""
    if not case["at"]:
        return [("healthy", not first)]
    if case["expect"]:
        return [("first", first in case["expect"])]
    return [
        ("silent", not first),
        ("titles", not answer.also),
        ("line", names_line(answer, case["at"])),
    ]


def names_line(answer: Answer, at: str) -> bool:
    """Return whether a sentence of the answer names a place such as `data/rows.py:40`."""
    name, _, line = at.rpartition(":")
    place = rf"{re.escape(Path(name).name)} line {line}\b"
    return bool(re.search(place, answer.ask))
