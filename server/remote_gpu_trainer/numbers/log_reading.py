"""A pasted report, or logs of any size, to what actually failed: read (log_folder, logfiles, windows), cleaned (lines), judged (judging)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from ..logs import files as logfiles
from ..logs.files import Unreadable
from ..logs.judging import ENDING, Evidence, Failure, judge
from ..logs.lines import APART, QUIET, Line, lines_of, mask, rank_of
from ..logs.windows import Row

__all__ = [
    "Evidence",
    "Failure",
    "Line",
    "Unreadable",
    "from_path",
    "from_stream",
    "from_text",
    "mask",
]


def from_text(text: str, source: str = "text", needles: Iterable[bytes] = ()) -> Evidence:
    """Evidence of a pasted report. Raises Unreadable when it is blank or binary."""
    rows = logfiles.of_text(text, source, needles)
    return _with_numbers(
        judge(lines_of(rows, source, None), pasted=True), rows, source, pasted=True
    )


def from_stream(
    stream,
    source: str = "stdin",
    needles: Iterable[bytes] = (),
    progress: Callable[[int], None] | None = None,
) -> Evidence:
    """Evidence of a binary stream of any length. `progress(bytes_read)` is called once a block."""
    rows = logfiles.of_stream(stream, source, None, needles, progress)
    return _with_numbers(judge(lines_of(rows, source, None)), rows, source)


def from_path(
    path: str,
    needles: Iterable[bytes] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float | None = None,
) -> Evidence:
    """Evidence of a file, or of a folder of per-rank logs read as one run, as much of it as `seconds` allow. Raises Unreadable."""
    if os.path.isdir(path):
        from ..logs import folder as log_folder  # most logs are single files

        read = log_folder.read(path, tuple(needles), progress, seconds)
        return _with_numbers(
            judge(read.lines, read.silent)._replace(left_out=read.left_out),
            read.numbers,
            read.named,
        )
    name = os.path.basename(path)
    rows = logfiles.of_file(path, needles, progress)
    return _with_numbers(judge(lines_of(rows, name, rank_of(name, sure=True))), rows, name)


def with_words(found: Evidence, text: str) -> Evidence:
    """A log's evidence, and what somebody says beside it: of a run that goes on that is all that is read."""
    said = from_text(text)
    seen = found.seen.replace("sound", "")  # somebody sees a fault
    if not any(line.kind in APART for line in found.lines):
        return found._replace(lines=[*found.lines, *said.lines], seen=seen)
    for line in said.lines:
        line.kind = "told" if line.kind == "plain" else line.kind
    lines = [*found.lines, *said.lines]
    if found.failed():
        return found._replace(lines=lines, seen=seen)
    told = said.decisive or [line for line in said.lines if line.kind == "told"][:ENDING]
    return found._replace(
        lines=lines,
        decisive=[*told, *found.decisive][:12],
        is_log=bool(seen) or said.is_log,
        seen=seen,
    )


def _with_numbers(found: Evidence, rows: list[Row], source: str, pasted: bool = False) -> Evidence:
    """What the numbers say where no failure is told. `pasted`: of a text only where its lines are all alike: a word beside them says more."""
    if found.failures:
        return found
    if logfiles.hold_table(rows):
        from . import tables

        seen = tables.findings(rows)
        if seen is not None:
            return _heard(found, source, seen, frozenset(number for number, _ in rows))
    if not logfiles.hold_numbers(rows) or (pasted and not logfiles.alike(rows)):
        return found
    from . import curves, numbers  # most logs end with a failure

    told = numbers.of_rows(rows)
    if not told.series or len(told.series[0].values) < logfiles.NUMBERS:
        return found
    return _heard(found, source, curves.findings(told), told.rows)


def _heard(found: Evidence, source: str, seen: list, rows: frozenset[int]) -> Evidence:
    """With what is seen in the numbers in place of the lines that hold them."""
    decisive = [
        Line(source, finding.row, None, finding.said, "message")
        for finding in seen
        if finding.fault
    ]
    told = any(line.kind == "told" for line in found.decisive)
    lines = [
        line
        if _counts(line, rows if line.source == source else frozenset(), bool(decisive))
        else _unheard(line)
        for line in found.lines
    ]
    return found._replace(
        lines=[*decisive, *lines],
        decisive=[*decisive, *found.decisive][:12],
        is_log=True,
        numbers="; ".join(finding.said for finding in seen if not finding.fault),
        seen=next(
            (finding.entry for finding in seen if finding.entry),
            "fault" if decisive else "" if told else "sound",
        ),
    )


def _counts(line: Line, rows: frozenset[int], fault: bool) -> bool:
    """Whether a line counts beside what its log's numbers say: not the rows of numbers, and where they show a fault nothing that only talks."""
    return line.number not in rows and not (fault and line.kind in QUIET)


def _unheard(line: Line) -> Line:
    """A line whose words don't count; its literal text still may."""
    return Line(line.source, line.number, line.rank, line.text, "trace", line.time)
