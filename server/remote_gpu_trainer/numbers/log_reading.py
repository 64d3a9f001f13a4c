"""Read a pasted report, or logs of any size, as evidence of what failed.

`logs` reads, cleans and judges the lines. If they show no failure, this package says what tables
and numbers show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from ..logs import files as logfiles
from ..logs.evidence import Evidence
from ..logs.judging import ENDING, judge
from ..logs.kinds import APART, QUIET
from ..logs.lines import Line, lines_of, rank_of
from ..logs.windows import Row, unlike
from .loss_shapes import Finding

NOTHING_NEW = "Every line of this log also stands in the good log."


def from_text(
    text: str,
    source: str = "text",
    needles: Iterable[bytes] = (),
    good: frozenset[bytes] = frozenset(),
) -> Evidence:
    """Return the evidence in a pasted report. Raises `logs.files.Unreadable` if blank or binary.

    `source` names it in evidence and errors. Rows around each of the `needles` are kept in a long
    report. Rows of a shape in `good` (see `logs.windows.unlike`) don't count.
    """
    return _of_rows(logfiles.of_text(text, source, needles), source, None, good, pasted=True)


def from_stream(
    stream,
    source: str = "stdin",
    needles: Iterable[bytes] = (),
    progress: Callable[[int], None] | None = None,
    good: frozenset[bytes] = frozenset(),
) -> Evidence:
    """Return the evidence in a binary stream of any length. Raises `logs.files.Unreadable`.

    `progress(bytes_read)` is called for each block. `good` is as in `from_text`.
    """
    rows = logfiles.of_stream(stream, source, None, needles, progress)
    return _of_rows(rows, source, None, good)


def from_path(
    path: str,
    needles: Iterable[bytes] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float | None = None,
    good: frozenset[bytes] = frozenset(),
) -> Evidence:
    """Return the evidence in a file, or in a folder of logs read as one run.

    It reads as many files of a folder as `seconds` allow. `good` is as in `from_text`. Raises
    `logs.files.Unreadable`.
    """
    if os.path.isdir(path):
        from ..logs import folder as log_folder  # most logs are single files
        from . import hung_ranks

        def logs(others: frozenset[str]) -> Evidence:
            read = log_folder.read(path, tuple(needles), progress, seconds, others, good)
            return _with_numbers(
                replace(judge(read.lines, read.silent), left_out=read.left_out),
                read.numbers,
                read.named,
            )

        return hung_ranks.with_reports(path, lambda: hung_ranks.with_dumps(path, logs))
    name = os.path.basename(path)
    rows = logfiles.of_file(path, needles, progress)
    return _of_rows(rows, name, rank_of(name, sure=True), good, path=path)


def _of_rows(
    rows: list[Row],
    source: str,
    rank: int | None,
    good: frozenset[bytes],
    pasted: bool = False,
    path: str = "",
) -> Evidence:
    if rows and rows[0][1].lstrip()[:1] == b"{":  # a probe's report begins so
        from . import hung_ranks

        report = hung_ranks.report_in_rows(rows, source, path)
        if report is not None:
            return report
    new = unlike(rows, good) if good else rows
    found = judge(lines_of(new, source, rank), pasted=pasted)
    if not new:
        return replace(found, is_log=True, left_out=NOTHING_NEW, seen="sound")
    return _with_numbers(found, new, source, pasted)


def with_words(found: Evidence, text: str) -> Evidence:
    """Return a log's evidence together with what a person says about it.

    For a run that goes on, only the person's words count.
    """
    said = from_text(text)
    seen = found.seen.replace("sound", "")  # the person reports a fault
    if not any(line.kind in APART for line in found.lines):
        return replace(found, lines=[*found.lines, *said.lines], seen=seen)
    spoken = {line: line.of_kind("told") if line.kind == "plain" else line for line in said.lines}
    lines = [*found.lines, *spoken.values()]
    if found.failed():
        return replace(found, lines=lines, seen=seen)
    told = [spoken.get(line, line) for line in said.decisive] or [
        line for line in spoken.values() if line.kind == "told"
    ][:ENDING]
    return replace(
        found,
        lines=lines,
        decisive=[*told, *found.decisive][:12],
        is_log=bool(seen) or said.is_log,
        seen=seen,
    )


def _with_numbers(found: Evidence, rows: list[Row], source: str, pasted: bool = False) -> Evidence:
    """Add what the numbers show if the lines show no failure.

    The numbers of a pasted text count only if all its lines are alike. Otherwise its words say
    more.
    """
    if sum(line.text.startswith("Process ") for line in found.lines) > 1:
        from . import hung_ranks  # stacks of several processes

        found = hung_ranks.with_stacks(found)
    if found.failures or found.seen not in ("", "sound"):
        return found
    if logfiles.hold_table(rows):
        from . import log_reading

        seen = log_reading.findings(rows)
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
    """The evidence with what the numbers show instead of the lines that have them."""
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
    """Whether a line counts in addition to what the numbers of its log show.

    Rows of numbers don't count. If they show a fault, lines that report none don't count either.
    """
    return line.number not in rows and not (fault and line.kind in QUIET)


def _unheard(line: Line) -> Line:
    """The line without words that count. Its literal text may still match a signature."""
    return line.of_kind("trace")


LONGEST, MOST = 400, 2_000  # characters of a row, and rows, that are read
ALONE = 0.8  # least share of the lines that the table must be
HELD = 1_000  # MiB above which a card without a process is reported
DRAW = 0.4  # share of the power limit below which a card at 100 % utilisation does little
HOT = 90  # degrees Celsius

_CARD = re.compile(
    r"\|\s*\S+\s+(\d{1,3})C\s+P\d{1,2}\s+(\d{1,4})W\s*/\s*(\d{1,4})W\s*"
    r"\|\s*(\d{1,7})MiB\s*/\s*(\d{1,7})MiB\s*\|\s*(\d{1,3})%"
)
_NAMED = re.compile(
    r"\|\s*(\d{1,3})\s+\S.{5,60}\|\s*[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d\s+\S{1,3}\s*"
    r"\|\s*(\d{1,9}|N/A|Off)\s*\|"
)
_PROCESS = re.compile(
    r"\|\s*(\d{1,3})\s+(?:\S+\s+\S+\s+)?(\d{1,9})\s+([CGM+]{1,3})\s+(\S.{0,60}?)\s+(\d{1,7})MiB\s*\|"
)
_FULL = re.compile(r"(\S+)\s+\S+\s+\S+\s+(\S+)\s+(\d{1,3})%\s+(/\S*)\s*$")
_STATES = {
    "OUT_OF_MEMORY": "SLURM4",
    "OUT_OF_ME+": "SLURM4",
    "TIMEOUT": "SLURM2",
    "PREEMPTED": "SLURM2",
}
# Read-only file systems are always at 100 %.
_NEVER_FULL = ("/snap/", "/dev/loop", "squashfs", "/cdrom", "/sys/", "/proc/")


def findings(rows: list[Row]) -> list[Finding] | None:
    """Return what a table in these rows shows, an empty list if it shows no fault.

    None if no table makes up most of the text.
    """
    texts = [
        (number, raw[: LONGEST * 4].decode("utf-8", "replace")[:LONGEST])
        for number, raw in rows[:MOST]
        if raw.strip()
    ]
    for known, read in _TABLES:
        held = [at for at, (_, text) in enumerate(texts) if known(text)]
        if held:
            found, lines = read(texts[held[0] :])
            return found if lines >= ALONE * len(texts) else None
    return None


def _smi(texts: list[tuple[int, str]]) -> tuple[list[Finding], int]:
    found: list[Finding] = []
    cards: dict[int, tuple[int, int]] = {}  # a card: the line of its use, and its MiB
    busy, named, nobody = set(), -1, False
    lines = sum(text.lstrip()[:1] in ("|", "+") for _, text in texts)
    for number, text in texts:
        nobody = nobody or "No running processes found" in text
        if "ERR!" in text:
            found.append(
                Finding(
                    number, "nvidia-smi shows ERR! in place of a value, the card is lost", "HW1"
                )
            )
        if head := _NAMED.match(text):
            named = int(head[1])
            if head[2].isdigit() and int(head[2]):
                found.append(
                    Finding(
                        number,
                        f"nvidia-smi counts {head[2]} uncorrectable ECC errors on GPU {named}",
                        "HW2",
                    )
                )
        elif card := _CARD.match(text):
            heat, draw, limit, used, whole, use = map(int, card.groups())
            cards[named] = number, used
            if use >= 99 and draw < DRAW * limit:
                found.append(
                    Finding(
                        number,
                        f"nvidia-smi shows {use} % utilisation on GPU {named}, yet power draw is "
                        f"{draw} of {limit} W",
                        "U21",
                    )
                )
            if heat >= HOT:
                found.append(Finding(number, f"GPU {named} is at {heat} degrees", fault=False))
            if used > 0.95 * whole:
                found.append(
                    Finding(number, f"GPU {named} has {used} of {whole} MiB taken", fault=False)
                )
        elif process := _PROCESS.match(text):
            busy.add(int(process[1]))
    for card, (number, used) in cards.items():
        if used > HELD and nobody and not busy:
            found.append(
                Finding(
                    number,
                    f"GPU {card}: {used} MiB of GPU memory taken, nvidia-smi lists no process",
                    "U11",
                )
            )
    return found, lines


def _df(texts: list[tuple[int, str]]) -> tuple[list[Finding], int]:
    inodes = "IUse%" in texts[0][1]
    found, lines = [], 1
    for number, text in texts[1:]:
        row = _FULL.match(text)
        lines += row is not None
        if not row or int(row[3]) < 99 or any(name in text for name in _NEVER_FULL):
            continue
        if inodes:
            found.append(
                Finding(number, f"inodes used up on {row[4]}, files can't be created", "U7")
            )
        elif row[4] == "/dev/shm":
            found.append(Finding(number, "shared memory /dev/shm is full", "DP15"))
        else:
            found.append(Finding(number, f"disk full on {row[4]}", "U6"))
    return found, lines


def _sacct(texts: list[tuple[int, str]]) -> tuple[list[Finding], int]:
    found = []
    for number, text in texts:
        for state, entry in _STATES.items():
            if state in text.split():
                said = {
                    "SLURM4": "Slurm job killed for memory, state OUT_OF_MEMORY",
                    "SLURM2": f"Slurm job ended at its limit, state {state}",
                }[entry]
                found.append(Finding(number, said, entry))
                return found, len(texts)
    return found, len(texts)


_TABLES: tuple[tuple[Callable[[str], bool], Callable[[list], tuple]], ...] = (
    (lambda text: "NVIDIA-SMI" in text and "Driver Version" in text, _smi),
    (lambda text: text.startswith("Filesystem") and "Use%" in text and "Mounted on" in text, _df),
    (lambda text: "JobID" in text and "State" in text, _sacct),
)
