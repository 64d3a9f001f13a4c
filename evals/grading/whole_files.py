"""Short files from real programs, committed whole, that other sets hardly hold.

A case is a line of evals/sets/whole_files.jsonl.gz: the `log` (users, hosts and accounts are
masked), its `name` and `source`, `what` happened by somebody who had not seen the look-up, and what
must `not` be said. `expect` holds the entries of which one must come first; with none nothing may
be claimed. Of a `broken` run the answer may not say that no error was found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.lookup.writer import NO_ERROR

from .packed import count_right, read_packed
from .report import table

WORDS = {
    "first": "an entry is about it, and leads",
    "silent": "no entry is about it, and none is claimed",
    "broken": "the run failed or hung, and isn't called free of errors",
}
LEAST = {"first": 1.0, "silent": 1.0, "broken": 1.0}  # shares that the set has to reach


def run(path: Path) -> tuple[str, list[str]]:
    """Return (the table, a line for each figure that is worse than LEAST)."""
    hits, sizes = count_right(judged(case, answer) for case, answer in answers(path))
    rows = [f"| {words} | {hits[name]} | {sizes[name]} |" for name, words in WORDS.items()]
    below = [
        f"whole files: {WORDS[name]}: {hits[name]} of {sizes[name]}, expected at least {least}"
        for name, least in LEAST.items()
        if hits[name] < least * sizes[name]
    ]
    return table("whole files from real programs", ("what", "right", "of"), rows), below


def answers(path: Path) -> Iterator[tuple[dict[str, Any], Answer]]:
    """Yield each case with the answer to its file, which has the name of the original."""
    with tempfile.TemporaryDirectory() as folder:
        for case in read_packed(path):
            log = Path(folder) / case["name"]
            log.write_text(case["log"], encoding="utf-8")
            yield case, answer_for(log=str(log))


def misses(path: Path) -> str:
    """Return a line for each case that is answered wrongly."""
    lines = []
    for case, answer in answers(path):
        wrong = [WORDS[name] for name, is_right in judged(case, answer) if not is_right]
        found = " ".join(match["id"] for match in answer.matches) or "nothing"
        lines += [f"{case['id']} {case['name']}: found {found}; not so: {what}" for what in wrong]
    return "\n".join(lines)


def judged(case: dict[str, Any], answer: Answer) -> list[tuple[str, bool]]:
    """Return what a case is counted as, each with whether the answer is right."""
    first = answer.matches[0]["id"] if answer.matches else ""
    found = [("first", first in case["expect"])] if case["expect"] else [("silent", not first)]
    return [*found, *([("broken", NO_ERROR not in answer.ask)] if case["broken"] else [])]
