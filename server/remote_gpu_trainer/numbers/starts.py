"""Find where the numbers of a log begin anew: another run, fold, trial or model. Python 3.8.

A file may hold many runs without a word on where a process began. Their losses can't be compared: a
new run begins at the loss of an untrained model, which looks like a run that fell apart.

Two things show a start: epochs that are counted from the start again, and a loss that jumps in one
step where the log says what comes next. That is a row such as `=== Task 2 ===` or `lr = 0.01`,
which isn't written where the loss goes on, a count of steps that begins again, or the loss in a row
of another form.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

JUMPED = 1.5  # times the last losses, from which a step is a jump
LAST = 3  # losses before a jump that it is compared with
FIRST = 0.5  # share of the first loss of a run that the next run reaches at its start
BEHIND = 2  # losses that a run must have to be one

# 2026-11-20 WARNING gradient overflow, skipping step      Such a row may stand where a run breaks.
_COMPLAINS = re.compile(rb"warn|error|overflow|skip|nan|inf\b|spike|except|diverg|resum|fail", re.I)


@dataclass(frozen=True)
class Course:
    """The rows of a log in the order in which they stand, as far as they may show a start.

    `epochs` are (line, count) of all rows that count epochs, `counts` (line, count, of what) of
    rows with a metric, `resumed` the lines that mention a resume. `shapes` has the shape of each
    row by its line, `complaints` the lines that complain.
    """

    epochs: list[tuple[int, int]]
    counts: list[tuple[int, float, str]]
    resumed: list[int]
    shapes: dict[int, bytes] = field(default_factory=dict)
    complaints: set[int] = field(default_factory=set)

    def take(self, number: int, raw: bytes, shape: bytes) -> None:
        """Take the next row: its line, its bytes and its shape."""
        self.shapes[number] = b" ".join(shape.split())
        if _COMPLAINS.search(raw):
            self.complaints.add(number)


def last_start(course: Course, rows: list[int], values: list[float]) -> int:
    """Return the line at which the numbers begin anew for the last time, 0 if never.

    `rows` and `values` are those of the training loss. A resume isn't a start.
    """
    by_epochs = [
        number
        for (before, count), (number, again) in zip(course.epochs, course.epochs[1:])
        if again <= 1 < count and not _is_between(course.resumed, before, number)
    ]
    starts = [*by_epochs, *_at_jumps(course, rows, values)]
    last = max((row for row in starts if len(rows) - bisect_left(rows, row) >= BEHIND), default=0)
    return last


def _at_jumps(course: Course, rows: list[int], values: list[float]) -> list[int]:
    """The lines of losses that jump in one step where something else begins."""
    jumps = [
        at
        for at in range(1, len(values))
        if math.isfinite(values[at])
        and values[at] > JUMPED * max(values[max(0, at - LAST) : at])
        and values[at] >= FIRST * values[0]
        and not _is_between(course.resumed, rows[at - 1], rows[at])
    ]
    if not jumps:
        return []
    lines = sorted(course.shapes)
    heads = _headings(course, rows, lines, set(jumps))
    counts = {number: count for number, count, _ in course.counts}
    found = []
    for at in jumps:
        before, now = rows[at - 1], rows[at]
        counts_again = counts.get(now, 0.0) < counts.get(before, 0.0)
        is_other = course.shapes.get(now) != course.shapes.get(before)
        heading = next((line for line in _between(lines, before, now) if line in heads), 0)
        if heading or counts_again or is_other:
            found.append(heading or now)
    return found


def _headings(course: Course, rows: list[int], lines: list[int], jumps: set[int]) -> set[int]:
    """The lines that stand between two losses, and whose shape stands there mostly at jumps."""
    at_jumps: dict[bytes, list[bool]] = {}
    for at in range(1, len(rows)):
        shapes = {course.shapes[line] for line in _between(lines, rows[at - 1], rows[at])}
        for shape in shapes:
            at_jumps.setdefault(shape, []).append(at in jumps)
    telling = {shape for shape, found in at_jumps.items() if 2 * sum(found) > len(found)}
    return {
        line for line in lines if course.shapes[line] in telling and line not in course.complaints
    }


def _between(lines: list[int], before: int, behind: int) -> list[int]:
    """Those of some lines in order that stand between two others."""
    return lines[bisect_right(lines, before) : bisect_left(lines, behind)]


def _is_between(lines: list[int], before: int, behind: int) -> bool:
    return any(before <= line <= behind for line in lines)
