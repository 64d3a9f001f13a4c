"""Questions as people write them in Chinese, in points.

A line of evals/sets/asked_zh.jsonl is a case whose text is one short question, shortened from a
public thread. `told`, where it stands, is a text that the facts of the answer must hold: the
command that answers the question. Nothing may be changed because of a question of the reporting
half.
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


def run(path: Path = PLACE) -> str:
    """A line for each half: its points, and how many questions got 2, 1 and 0."""
    told = [json.loads(line).get("told", "") for line in path.read_text("utf-8").splitlines()]
    points = {half: Counter() for half in HALVES}
    for case, command in zip(read_cases(path), told, strict=True):
        points[case.half][points_of(case.text, case.expect, command)] += 1
    return "\n".join(_line(half, points[half]) for half in HALVES)


def points_of(text: str, expect: tuple[str, ...], command: str) -> int:
    """2 for the command or a right entry as first match, 1 for one among AMONG, else 0."""
    answer = answer_for(text=text)
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
