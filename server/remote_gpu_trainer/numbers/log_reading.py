"""Read a pasted report, or logs of any size, as evidence of what failed.

`logs` reads, cleans and judges the lines. Where they tell of no failure, the modules of this room
say what tables and numbers show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..logs import files as logfiles
from ..logs.judging import ENDING, Evidence, judge
from ..logs.lines import APART, QUIET, Line, lines_of, rank_of
from ..logs.windows import Row


def from_text(text: str, source: str = "text", needles: Iterable[bytes] = ()) -> Evidence:
    """Return the evidence in a pasted report. Raises `logs.files.Unreadable` if blank or binary.

    `source` names it in evidence and errors. Rows around each of the `needles` are kept in a long
    report.
    """
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
    """Return the evidence in a binary stream of any length. Raises `logs.files.Unreadable`.

    `progress(bytes_read)` is called for each block.
    """
    rows = logfiles.of_stream(stream, source, None, needles, progress)
    return _with_numbers(judge(lines_of(rows, source, None)), rows, source)


def from_path(
    path: str,
    needles: Iterable[bytes] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float | None = None,
) -> Evidence:
    """Return the evidence in a file, or in a folder of logs read as one run.

    Of a folder as many files are read as `seconds` allow. Raises `logs.files.Unreadable`.
    """
    if os.path.isdir(path):
        from ..logs import folder as log_folder  # most logs are single files

        read = log_folder.read(path, tuple(needles), progress, seconds)
        return _with_numbers(
            replace(judge(read.lines, read.silent), left_out=read.left_out),
            read.numbers,
            read.named,
        )
    name = os.path.basename(path)
    rows = logfiles.of_file(path, needles, progress)
    return _with_numbers(judge(lines_of(rows, name, rank_of(name, sure=True))), rows, name)


def with_words(found: Evidence, text: str) -> Evidence:
    """Return a log's evidence together with what a person says about it.

    Of a run that goes on, the person's words alone decide.
    """
    said = from_text(text)
    seen = found.seen.replace("sound", "")  # the person sees a fault
    if not any(line.kind in APART for line in found.lines):
        return replace(found, lines=[*found.lines, *said.lines], seen=seen)
    for line in said.lines:
        line.kind = "told" if line.kind == "plain" else line.kind
    lines = [*found.lines, *said.lines]
    if found.failed():
        return replace(found, lines=lines, seen=seen)
    told = said.decisive or [line for line in said.lines if line.kind == "told"][:ENDING]
    return replace(
        found,
        lines=lines,
        decisive=[*told, *found.decisive][:12],
        is_log=bool(seen) or said.is_log,
        seen=seen,
    )


def _with_numbers(found: Evidence, rows: list[Row], source: str, pasted: bool = False) -> Evidence:
    """Add what the numbers say where the lines tell of no failure.

    The numbers of a pasted text count only where its lines are all alike. Otherwise the words
    beside them say more.
    """
    if found.failures:
        return found
    if logfiles.hold_table(rows):
        from . import tables

        seen = tables.findings(rows)
        if seen is not None:
            return _heard(found, source, seen, frozenset(number for number, _ in rows))
    if not logfiles.hold_numbers(rows) or (pasted and not logfiles.alike(rows)):
        return found
    from . import curves, metric_series  # most logs end with a failure

    told = metric_series.of_rows(rows)
    if not told.series or len(told.series[0].values) < logfiles.NUMBERS:
        return found
    return _heard(found, source, curves.findings(told), told.rows)


def _heard(found: Evidence, source: str, seen: list, rows: frozenset[int]) -> Evidence:
    """The evidence with what the numbers show in place of the lines that hold them."""
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
    return replace(
        found,
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
    """Whether a line counts besides what the numbers of its log show.

    Rows of numbers don't, and where they show a fault, neither do lines that report none.
    """
    return line.number not in rows and not (fault and line.kind in QUIET)


def _unheard(line: Line) -> Line:
    """A line whose words don't count. Its literal text may still match a signature."""
    return Line(line.source, line.number, line.rank, line.text, "trace", line.time)
