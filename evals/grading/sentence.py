"""The look-up as an agent should ask it: one sentence of its own, a blank line, and the report.

A line of evals/sets/said.jsonl is {"id", "text"}: the sentence of a reader who saw a report, no entry and no answer. There is one for each case of the reporting
half, and for 556 fresh reports.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from . import systems
from .cases import BadCase, Case


def read(path: Path, cases: list[Case]) -> list[tuple[Case, str]]:
    """The cases that have a sentence, each with it. Raises BadCase for one without its case, or twice."""
    known, found = {case.id: case for case in cases}, {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        said = json.loads(line)
        if said["id"] not in known or said["id"] in found:
            raise BadCase(
                f"{path}:{number}: found id {said['id']!r}, expected each id of a report of the reporting half or of fresh.jsonl once"
            )
        found[said["id"]] = said["text"]
    return [(known[name], text) for name, text in found.items()]


def answers(said: list[tuple[Case, str]]) -> systems.Answers:
    """Sentence and report in one question."""
    return systems.lookup([replace(case, text=f"{text}\n\n{case.text}") for case, text in said])
