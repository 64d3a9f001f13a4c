"""The look-up as an agent should ask it: one sentence of its own, a blank line, and the report.

A line of evals/sets/said.jsonl is {"id", "text"}: the sentence of a reader who saw a report, but
no entry and no answer. There is one for each case of the reporting half, and for 556 fresh reports.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from . import systems
from .cases import BadCase, Case


def read(path: Path, cases: list[Case]) -> list[tuple[Case, str]]:
    """(case, sentence) of each case that has one. Raises BadCase for a sentence out of place."""
    known, found = {case.id: case for case in cases}, {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        if said["id"] not in known or said["id"] in found:
            raise BadCase(
                f"{path}:{number}: id {said['id']!r} is unknown or comes again; "
                "give each report of the reporting half or of fresh.jsonl one line"
            )
        found[said["id"]] = said["text"]
    return [(known[name], text) for name, text in found.items()]


def answers(said: list[tuple[Case, str]]) -> systems.Answers:
    """Sentence and report in one question."""
    return systems.lookup([replace(case, text=f"{text}\n\n{case.text}") for case, text in said])
