"""Questions as people write them in Chinese, in points.

A line of evals/sets/asked_zh.jsonl is a case whose text is one short question, shortened from a
public thread. `told`, where it stands, is a text that the facts of the answer must hold: the
command or the platform's fact that answers the question. With neither an entry nor such a text
nothing fits, and no entry should be claimed. `round` 2 is the second collection. Nothing may be
changed because of a question of the reporting half.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

from .cases import read_cases

PLACE = Path(__file__).resolve().parent.parent / "sets" / "asked_zh.jsonl"
AMONG = 3  # matches, then titles, among which a right one gets a point
HALVES = ("tuning", "reporting")
ROUNDS = (1, 2)


def run(path: Path = PLACE) -> str:
    """A line for each half of each round: its points, and how many questions got 2, 1 and 0."""
    raw = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    points: dict[tuple[int, str], Counter[int]] = {}
    for case, row in zip(read_cases(path), raw, strict=True):
        counted = points.setdefault((row.get("round", 1), case.half), Counter())
        counted[points_of(case.text, case.expect, row.get("told", ""))] += 1
    return "\n".join(
        _line(f"round {number}, {half}", points[number, half])
        for number in ROUNDS
        for half in HALVES
    )


def points_of(text: str, expect: tuple[str, ...], command: str) -> int:
    """2 for the command or a right entry as first match, 1 for one among AMONG, else 0.

    Where nothing fits: 2 for an answer that lists no match, 1 for one that is unsure, else 0.
    """
    answer = answer_for(text=text)
    if not (expect or command):
        listed = [match["confidence"] for match in answer.matches[:1]]
        return 2 if not listed else int(listed == ["low"])
    matches = [match["id"] for match in answer.matches]
    if command and command in " ".join(answer.facts):
        return 2
    if matches and matches[0] in expect:
        return 2
    shown = [*matches, *(title["id"] for title in answer.also)]
    return int(bool(set(expect) & set(shown[:AMONG])))


def _line(half: str, points: Counter[int]) -> str:
    total = 2 * points[2] + points[1]
    count = sum(points.values())
    return (
        f"{half}: {total} of {2 * count} points, {count} questions: "
        f"{points[2]} get 2, {points[1]} get 1, {points[0]} get 0"
    )
