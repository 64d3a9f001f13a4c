"""Read a pasted report, or logs of any size, as evidence of what failed.

Start here to read this package. `files` and `folder` read the bytes of a log as rows, and `lines`
turns each row into a clean line with a rank and a kind. `judging` finds the lines that tell of a
failure, and the decisive ones among them. `stacks` adds the stack dumps of ranks that hung, and
`probe_report` what a probe saw. If nothing failed, the package `numbers` reads what tables, losses
and scores show.

Standard library, Python 3.8.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..numbers.entries import (
    NOT_FINITE,
)
from ..numbers.finding import NumbersFinding
from ..numbers.rows import NUMBERS, Row, alike, hold_numbers, hold_table
from . import ends, error_files, files, runs, smi_rows
from .error_files import ErrorFile
from .evidence import MOST_DECISIVE, Evidence
from .files import DEFAULTS, ReadOptions, Unreadable
from .judge import ENDING, judge_lines, last_words
from .kinds import APART, MESSAGE, PLAIN, QUIET, TOLD, TRACE
from .lines import Line, has_kernel_rows, lines_of
from .prefixes import rank_of
from .prose import is_report
from .windows import Rows, unlike

if TYPE_CHECKING:
    from .folder import Folder

KERNELS = re.compile(r"/(?:proc|sys|dev)(?:/(?!shm\b)|$)")  # folders that are no files on a disk
NOTHING_NEW = "Every line of this log also stands in the good log."


def from_text(text: str, source: str = "text", options: ReadOptions = DEFAULTS) -> Evidence:
    """Return the evidence in a pasted report. Raises `files.Unreadable` if it is blank or binary.

    `source` is the name of the report in evidence and errors.
    """
    return _of_log(_Log(files.of_text(text, source, options), source, pasted=True), options)


def from_stream(stream, source: str = "stdin", options: ReadOptions = DEFAULTS) -> Evidence:
    """Return the evidence in a binary stream of any length. Raises `files.Unreadable`.

    `source` is the name of the stream in evidence and errors.
    """
    return _of_log(_Log(files.of_stream(stream, source, options), source), options)


def from_path(path: str, options: ReadOptions = DEFAULTS) -> Evidence:
    """Return the evidence in a file, or in a folder of logs read as one run.

    Raises `files.Unreadable`.
    """
    if os.path.isdir(path):
        return _of_folder(path, options)
    name = os.path.basename(path)
    try:
        rows = files.of_file(path, options)
    except files.NoLog:
        dump = _of_dump(path)  # a pickle
        if dump is None:
            raise
        return dump
    if rows[0][1][:1] == b"{" and (dump := _of_dump(path)):
        return dump
    errors = error_files.error_beside(path)
    return _of_log(_Log(rows, name, rank_of(name, sure=True), path=path, errors=errors), options)


def from_paths(paths: Sequence[str], options: ReadOptions = DEFAULTS) -> Evidence:
    """Return the evidence in several files of one run, such as its output and its errors.

    Raises `files.Unreadable`.
    """
    if len(paths) == 1:
        return from_path(paths[0], options)
    from . import folder  # here for a fast start: most logs are single files

    for path in paths:
        if not os.path.exists(path):
            raise Unreadable(f"no log at {path}; pass the files of one run, or their folder")
        if not os.path.isfile(path):
            raise Unreadable(
                f"{path} isn't a file; pass several files of one run, or one folder of logs"
            )
    whole = [os.path.abspath(path) for path in paths]
    common = os.path.dirname(whole[0]) if len(set(whole)) == 1 else os.path.commonpath(whole)
    names = tuple(dict.fromkeys(os.path.relpath(path, common) for path in whole))
    logs = folder.read(common, options, only=names)
    return _of_a_file(_of_logs(logs), ())


def with_words(evidence: Evidence, text: str) -> Evidence:
    """Return a log's evidence together with what a person says about it.

    If the log is long and no line of it tells of a failure, the person's words decide first.
    """
    words = from_text(text)
    seen = evidence.seen.replace("sound", "")  # not sound any more: the person reports a fault
    # Only a long log has lines set apart. Everything in a short one counts already.
    if not any(line.kind in APART for line in evidence.lines):
        return replace(evidence, lines=[*evidence.lines, *words.lines], seen=seen)
    told = {line: line.of_kind(TOLD) for line in words.lines if line.kind == PLAIN}
    lines = [told.get(line, line) for line in words.lines]
    decisive = [told.get(line, line) for line in words.decisive]
    beside = replace(evidence, lines=[*evidence.lines, *lines], seen=seen)
    if evidence.failed():
        return beside
    decisive = decisive or [line for line in lines if line.kind == TOLD][:ENDING]
    return replace(
        beside,
        decisive=[*decisive, *evidence.decisive][:MOST_DECISIVE],
        is_log=bool(seen) or words.is_log,
    )


@dataclass(frozen=True)
class _Log:
    """The rows of one log, and where they come from.

    `rank` is the rank that the file's name tells, or None. `pasted` is whether a person may have
    written some of the lines. `path` is the path of the file, "" for a text or a stream. `run` says
    which run the rows are of, where that is known without asking them. `errors` are what ranks
    wrote beside it.
    """

    rows: list[Row]
    source: str
    rank: int | None = None
    pasted: bool = False
    path: str = ""
    run: str | None = None
    errors: Sequence[ErrorFile] = ()

    def errors_of(self, lines: list[Line]) -> list[ErrorFile]:
        """Return those of the errors that are of the run of these lines."""
        if self.run is not None:
            return list(self.errors)
        return error_files.errors_of(self.errors, lines, [self.path])


def _of_log(log: _Log, options: ReadOptions) -> Evidence:
    """Return the evidence in one log. Rows whose shape is in `options.good` don't count."""
    report = _report_of(log)
    if report is not None:
        return report
    new = unlike(log.rows, options.good) if options.good else log.rows
    all_lines, older = _with_kernel(lines_of(new, log.source, log.rank), log.path)
    # Beside a log of a good run, what is left of this one are pieces.
    is_one = log.pasted or bool(options.good) or log.run is not None
    chosen = runs.choose(all_lines, options.run, new, whole=is_one)
    first, last = chosen.numbers
    new = [row for row in new if first <= row[0] <= last]
    lines, is_healthy = smi_rows.silenced(chosen.lines)
    if log.errors and last == sys.maxsize:
        lines = error_files.add_errors(lines, log.errors_of(lines))
    judged = judge_lines(lines, pasted=log.pasted)
    if not is_one and not log.errors and _is_report(judged, new):
        log = replace(log, pasted=True)
        judged = replace(judge_lines(lines, pasted=True), is_report=True)
    evidence = replace(judged, older=older)
    if is_healthy is not None and evidence.seen in ("", "sound"):
        seen = "sound" if is_healthy else "fault"
        evidence = replace(evidence, is_log=True, seen=seen, numbers=smi_rows.describe_rows(lines))
    if not new:
        return replace(evidence, is_log=True, left_out=NOTHING_NEW, seen="sound")
    evidence = _completed(evidence, replace(log, rows=new))
    if log.pasted:
        ending = ends.ending_of(evidence.lines)
        return replace(evidence, ended_as=ending.name) if ending else evidence
    like_good = len(log.rows) - len(new) if options.good else 0
    return replace(
        _of_a_file(evidence, new),
        is_compared=bool(options.good),
        failed_twice=chosen.failed_twice,
        read=_read(log.rows, log.run or chosen.said, like_good),
    )


def _is_report(evidence: Evidence, rows: list[Row]) -> bool:
    """Whether a file holds a person's own words, as those of an issue.

    With a line of a failure or an end of training it is a log, and with a course of numbers unless
    its writer speaks of oneself.
    """
    if evidence.is_log or ends.came_to_end(evidence.lines):
        return False
    return is_report([line.text for line in evidence.lines], of_oneself=hold_numbers(rows))


def _read(rows: list[Row], run: str, like_good: int) -> str:
    """A sentence on what of a file was looked at. `run` says which of its runs, "" for one."""
    count, whole = len({number for number, _ in rows}), rows[-1][0]
    is_cut = isinstance(rows, Rows) and rows.is_cut
    parts = [
        f"{count} of {whole} lines (start, end, and around what may tell of a failure)"
        if is_cut
        else ""
        if run
        else f"all {whole} lines"
        if whole > 1
        else "its one line",
        f"without {like_good} that are like the good run's" if like_good else "",
        run or "as one run",
    ]
    return f"Read: {', '.join(filter(None, parts))}."


def _of_a_file(evidence: Evidence, rows: Sequence[Row]) -> Evidence:
    """Add what holds for a file alone, of these rows, in which no person wrote a line."""
    ending = ends.ending_of(evidence.lines)
    own, says_all = ends.own_error(evidence)
    went_on = runs.went_on(evidence, rows) and not has_kernel_rows(evidence.lines)
    if went_on:
        last = last_words(evidence.lines)
        decisive = [*last[::-1], *evidence.decisive][:MOST_DECISIVE]
        evidence = replace(evidence, last_words=tuple(last), decisive=decisive)
    return replace(
        evidence,
        check=evidence.check or _check_of_slurm(evidence, ending is not None),
        of_file=True,
        ended=ending.sentence if ending else "",
        ended_as=ending.name if ending else evidence.ended_as,
        came_to_end=ends.came_to_end(evidence.lines),
        own=own,
        says_all=says_all,
        went_on=went_on,
        standstill=_standstill(evidence, rows) if not ending else "",
    )


def _standstill(evidence: Evidence, rows: Sequence[Row]) -> str:
    """A sentence on a run that stands still while its log goes on; "" for any other."""
    if evidence.failures or ends.came_to_end(evidence.lines):
        return ""
    from . import standstill  # here for a fast start: most logs end in a failure

    found = standstill.standstill_of(rows)
    return found.describe() if found else ""


def _check_of_slurm(evidence: Evidence, is_ended: bool) -> str:
    """What Slurm knows of a job that was ended, "" for any other."""
    is_killed = evidence.first is not None and evidence.first.says("killed", "memory kill")
    if not evidence.job or not (is_ended or is_killed):
        return ""
    return f"{ends.sacct(evidence.job)} tells how it ended."


def _of_dump(path: str) -> Evidence | None:
    """Return the evidence in a file that is a dump of the Flight Recorder, None for any other."""
    from . import stacks  # here for a fast start: few files are dumps

    evidence = stacks.of_one_dump(path)
    return replace(evidence, of_file=True) if evidence else None


def _report_of(log: _Log) -> Evidence | None:
    """Return the evidence of a probe's report, or None if the log isn't one."""
    if not log.rows or log.rows[0][1].lstrip()[:1] != b"{":
        return None
    from . import probe_report  # here for a fast start: few logs are a probe's report

    report = probe_report.in_rows(log.rows, log.source, log.path)
    return report.as_evidence() if report else None


def _with_kernel(lines: list[Line], path: str = "") -> tuple[list[Line], str]:
    """Return what `kernel_lines.read` does; the lines as they are if none is the kernel's."""
    if not has_kernel_rows(lines):
        return lines, ""
    from . import kernel_lines  # here for a fast start: few logs hold lines of the kernel

    return kernel_lines.read(lines, path)


def _of_folder(path: str, options: ReadOptions) -> Evidence:
    """Return the evidence in a folder, which may hold logs, stack dumps and probe reports."""
    from . import folder, probe_report, stacks  # here for a fast start: most logs are single files

    if KERNELS.match(os.path.realpath(path)):
        raise Unreadable(
            f"{path} shows the kernel's state and holds no logs; pass a folder of logs"
        )
    reports = probe_report.reports_in(path)
    dumps = stacks.dumps_in(path)
    errors = error_files.errors_in(path)
    written = folder.log_of_runner(path)
    try:
        if written:
            evidence = _of_runner(written, options)
        else:
            logs = folder.read(path, options, no_logs=frozenset(dumps.by_name))
            paths = [os.path.join(path, name) for name in {line.source for line in logs.lines}]
            own = error_files.errors_of(errors, logs.lines, paths)
            logs = replace(logs, lines=error_files.add_errors(logs.lines, own))
            evidence = replace(_of_a_file(_of_logs(logs), ()), of_file=False, says_all=False)
    except Unreadable:
        if dumps.by_name:
            evidence = Evidence([], [], [], None, (), True)
        elif reports:
            evidence = replace(reports[0].as_evidence(), left_out="")
        elif errors:
            evidence = judge_lines(error_files.add_errors([], errors))
        else:
            raise
    return probe_report.with_reports(stacks.with_dumps(evidence, dumps), reports)


def _of_runner(paths: list[str], options: ReadOptions) -> Evidence:
    """Return the evidence in the files of the runner's log.

    Its events tell of which attempt a file is, and how that ended; without them the text does.
    """
    from . import run_events  # here for a fast start: most logs are single files

    attempts = run_events.attempts(paths)
    if not attempts:
        return _of_log(_of_parts(paths, options), options)
    one = replace(options, run=None)
    if options.run == 0:
        return _of_log(_of_parts(paths, one, f"all {len(attempts)} attempts as one"), one)
    chosen = run_events.choose(attempts, options.run)
    before = run_events.choose_before(attempts, chosen)
    lines = {
        other.number: lines_of(_of_parts(other.files, one).rows, "", None)
        for other in before
        if other.files and other.failure == "bug"  # a class that says less than the exception
    }
    raised = {number: runs.last_exception(own) for number, own in lines.items()}
    log = _of_parts(chosen.files, one, run_events.said(attempts, chosen, raised))
    elastic = os.path.join(os.path.dirname(os.path.dirname(paths[0])), "elastic")
    log = replace(log, errors=error_files.errors_in(os.path.join(elastic, str(chosen.number))))
    evidence = _of_log(log, one)
    if chosen.failure and (not evidence.failures or chosen.failure in run_events.FROM_OUTSIDE):
        ended = f"run.sh's events tell how it ended: {chosen.ended()}."
        return replace(evidence, ended=ended, ended_as=chosen.ended_as())
    if evidence.failures and before and chosen.failure == before[-1].failure == "bug":
        same = runs.same_end(lines.get(before[-1].number, []), evidence.lines)
        return replace(evidence, failed_twice=same)
    return evidence


def _of_parts(paths: list[str], options: ReadOptions, run: str | None = None) -> _Log:
    name = os.path.basename(paths[0]) if len(paths) == 1 else "train.log.*"
    return _Log(files.of_parts(paths, name, options), name, run=run)


def _of_logs(logs: Folder) -> Evidence:
    """Return the evidence in several logs of one run."""
    lines, older = _with_kernel(logs.lines)
    judged, ending = judge_lines(lines, logs.silent), ends.ending_of(lines)
    judged = replace(
        judged,
        left_out=logs.left_out,
        older=older,
        read=logs.read,
        ended_as=ending.name if ending else "",
        failed_twice=runs.of_attempts(lines),
        came_to_end=0 if judged.failures else ends.came_to_end(lines),
    )
    evidence = _completed(judged, _Log(logs.numbers, logs.named))
    if evidence.seen in NOT_FINITE and len(evidence.ranks) > 1:
        from . import rank_story  # here for a fast start: few logs are of several ranks

        return rank_story.with_values(evidence)
    return evidence


def _completed(evidence: Evidence, log: _Log) -> Evidence:
    """Add what stacks show. If no line tells of a failure, add what tables or numbers show."""
    evidence = _with_stacks(evidence)
    if evidence.failures or evidence.seen not in ("", "sound"):
        return evidence
    return _with_table(evidence, log) or _with_curves(evidence, log) or evidence


def _with_stacks(evidence: Evidence) -> Evidence:
    heads = [line.text for line in evidence.lines if "hread " in line.text[:9]]
    if not heads:
        return evidence
    from . import rank_places, stacks  # here for a fast start: few logs hold stacks of processes

    found = stacks.with_stacks(evidence)
    if evidence.failures or found.places or not any("most recent call first" in t for t in heads):
        return found
    place = rank_places.place_of_dump(evidence.lines)
    return stacks.with_one_place(found, place) if place else found


def _with_table(evidence: Evidence, log: _Log) -> Evidence | None:
    """Add what a table of nvidia-smi, df or sacct shows. Return None if there is no table."""
    if not hold_table(log.rows):
        return None
    from ..numbers import status_tables  # here for a fast start: few logs are tables

    findings = status_tables.findings(log.rows)
    if findings is None:
        return None
    return _with_findings(evidence, log, findings, frozenset(number for number, _ in log.rows))


def _with_curves(evidence: Evidence, log: _Log) -> Evidence | None:
    """Add what losses and scores show. Return None for a log with too few of them.

    The numbers of a pasted text count only if all its lines are alike. In any other text the words
    say more.
    """
    if not hold_numbers(log.rows) or (log.pasted and not alike(log.rows)):
        return None
    from ..numbers import checks, metric_series  # here for a fast start: most logs end in a failure

    numbers = metric_series.of_rows(log.rows)
    has_course = numbers.series and len(numbers.series[0].values) >= NUMBERS
    if not has_course and not checks.is_lost(numbers):
        return None
    return _with_findings(evidence, log, checks.findings(numbers), numbers.rows)


def _with_findings(
    evidence: Evidence, log: _Log, findings: list[NumbersFinding], rows: frozenset[int]
) -> Evidence:
    """Add a line for each fault, and silence the lines that the findings replace.

    `rows` are the numbers of the lines that the findings were read from.
    """
    last = tuple(line for line in evidence.last_words if line.number not in rows)
    faults = [
        Line(log.source, finding.row, None, finding.message, MESSAGE)
        for finding in findings
        if finding.fault
    ]
    lines = [
        line
        if _still_matters(line, rows if line.source == log.source else frozenset(), bool(faults))
        else _silenced(line)
        for line in evidence.lines
    ]
    return replace(
        evidence,
        lines=[*faults, *lines],
        decisive=[*faults, *evidence.decisive][:MOST_DECISIVE],
        is_log=True,
        numbers="; ".join(finding.message for finding in findings if not finding.fault),
        seen=_seen(findings, last or any(line.kind == TOLD for line in evidence.decisive)),
        last_words=last,
        ended_as=next((finding.end for finding in findings if finding.end), evidence.ended_as),
    )


def _seen(findings: list[NumbersFinding], complains: object) -> str:
    """Return the value of `Evidence.seen` for these findings.

    It is the id of the entry that a finding names, or "fault" if a fault has no entry. Without a
    fault it is "sound", or "" if a person or the log complains of something, or ends in new words.
    """
    entry = next((finding.entry for finding in findings if finding.entry), "")
    if entry:
        return entry
    if any(finding.fault for finding in findings):
        return "fault"
    return "" if complains else "sound"


def _still_matters(line: Line, rows: frozenset[int], has_fault: bool) -> bool:
    """Whether the words of a line still count beside what the numbers show.

    Those of a row of numbers don't. If the numbers show a fault, neither do those of a line that
    reports none.
    """
    return line.number not in rows and not (has_fault and line.kind in QUIET)


def _silenced(line: Line) -> Line:
    """Return the line as one whose words don't count. A signature may still match its text."""
    return line.of_kind(TRACE)
