"""Add what a run left beside its logs: dumps of collectives, stacks, and a probe's report."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..logs.evidence import Evidence, Probed
from ..logs.files import KEY_NAME, Unreadable
from ..logs.flight_recorder import LIBRARY, NAME, Dump, Verdict, dumps_in, told_ranks, verdicts
from ..logs.lines import Line
from ..logs.windows import Row
from ..text.masking import shown

READ, READ_STACKS = "read from the dumps: ", "read from the stacks: "
ENTRIES = {"missing": "D20", "op": "D19", "sizes": "D19", "crossed": "D19", "alone": "D21"}
_PROCESS = re.compile(r"Process (\d{1,9}): ?(.*)")
_THREAD = re.compile(r'Thread (?:0x)?[0-9A-Fa-f]+ \([\w+]{1,40}\)(?:: "(.{0,80})")?')
_FRAME = re.compile(r"\s+(\S.{0,200}?) \(([^()]{1,300}?)(?::(\d{1,7}))?\)\s*$")
_SAYS_RANK = re.compile(r"\brank\W{0,3}(\d{1,6})", re.I)


def with_dumps(folder: str, read: Callable[[frozenset[str]], Evidence]) -> Evidence:
    """Return a folder's evidence together with what its dumps show.

    `read(names)` gives the evidence without the files of these names. A folder may hold dumps only.
    """
    dumps, ranks = dumps_in(folder)
    try:
        found = read(frozenset(dumps))
    except Unreadable:
        if not dumps:
            raise
        found = Evidence([], [], [], None, (), True)
    good: dict[str, dict[int, Dump]] = {}
    for path, dump in sorted(dumps.items()):
        if dump is not None:
            good.setdefault(_set_of(path, dumps), {})[ranks[path]] = dump
    bad = sum(dump is None for dump in dumps.values())
    if bad:
        said = f"{bad} of {len(dumps)} dumps of the Flight Recorder can't be read."
        found = replace(found, left_out=" ".join(filter(None, (found.left_out, said))))
    judged = [
        (members, verdicts(members)) for _, members in sorted(good.items(), key=_in_order)
    ]  # one set for each of the launcher's attempts
    for members, verdict in judged:
        if any(v.kind for v in verdict):
            return _with_verdicts(found, members, verdict)
    return _with_verdicts(found, *judged[-1]) if judged else found


def _set_of(path: str, paths: Iterable[str]) -> str:
    """What the names of one run's dumps share: the folder only where names recur."""
    name = path.rpartition("/")[2]
    recurs = sum(other.rpartition("/")[2] == name for other in paths) > 1
    prefix = NAME.match(path if recurs else name)
    return prefix[1] if prefix else path


def _in_order(item: tuple[str, object]) -> list:
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", item[0])
    ]


def _with_verdicts(found: Evidence, dumps: dict[int, Dump], told: list[Verdict]) -> Evidence:
    names = {rank: dump.name for rank, dump in dumps.items()}
    lines = []
    for verdict in told[:2]:
        rank = verdict.odd if verdict.odd in names else min([*verdict.waiting, *names])
        lines += [
            Line(names[rank], 1, verdict.odd, READ + text, "failure" if verdict.kind else "plain")
            for text in verdict.said
        ]
    if not told and len(dumps) > 1:
        said = f"{READ}{told_ranks(dumps)} entered the same calls and ended them"
        lines = [Line(names[min(names)], 1, None, said)]
    found = replace(found, ranks=tuple(sorted({*found.ranks, *names})))
    if not told and not found.lines:
        return replace(found, lines=lines, decisive=lines, seen="sound")
    entry = ENTRIES.get(told[0].kind, "") if told else ""
    return _told(found, lines, entry, bool(entry) and told[0].odd is not None)


def _told(found: Evidence, lines: list[Line], entry: str, named: bool) -> Evidence:
    """The evidence with these lines, which show what `entry` explains; `named`: and its rank.

    They decide unless a rank reports a failure of its own: that is the cause of the hang.
    """
    first = found.first
    own = (
        first is not None
        and first.kind in ("exception", "failure")
        and not first.says("secondary", "lost peer")
    )
    if not entry or own:
        lines = [line.of_kind("plain") for line in lines]
        decisive = [*found.decisive[:1], *lines, *found.decisive[1:]]
        return replace(
            found,
            lines=[*found.lines, *lines],
            decisive=decisive[:12],
            is_log=True,
            seen=found.seen.replace("sound", ""),
        )
    rest = found.lines
    if entry != "D20":  # a time-out's own words name another entry
        rest = [
            line.of_kind("consequence")
            if line.kind in ("exception", "failure") and line.says("secondary")
            else line
            for line in rest
        ]
    kept = set(rest)
    decisive = [*lines, *[line for line in found.decisive if line in kept]]
    return replace(
        found,
        lines=[*lines, *rest],
        decisive=decisive[:12],
        first=lines[0] if named else None,
        is_log=True,
        seen=entry,
    )


@dataclass(frozen=True)
class Stack:
    """Where one process stands: its rank, if known, and the frames of its main thread."""

    line: Line
    rank: int | None
    process: str
    frames: tuple[tuple[str, str, str], ...]  # function, file, line; innermost first


def with_stacks(found: Evidence) -> Evidence:
    """Return the evidence with the odd ones among several saved stacks (`py-spy dump`) told."""
    stacks = stacks_of(found.lines)
    camps: dict[tuple, list[Stack]] = {}
    for stack in stacks:
        camps.setdefault(_shape(stack), []).append(stack)
    ordered = sorted(camps.values(), key=len, reverse=True)
    if len(stacks) < 2:
        return found
    said = [(camp, f"{READ_STACKS}{_who(camp)} in {_where(camp[0])}") for camp in ordered[:4]]
    many = 2 * len(ordered[0]) > len(stacks)
    if many and len(ordered) > 1:
        said = [*said[1:], said[0]]  # the odd ones first
    lines = [
        Line(camp[0].line.source, camp[0].line.number, _alone(camp), text, "failure")
        for camp, text in said
    ]
    odd = many and len(ordered) == 2 and len(ordered[1]) == 1
    return _told(found, lines, "D19" if many and len(ordered) > 1 else "", odd)


def stacks_of(lines: Iterable[Line]) -> list[Stack]:
    """Return the stacks in these lines, one for each process."""
    found: list[Stack] = []
    head, rank, said, frames, main = None, None, None, [], False
    for line in [*lines, None]:
        process = _PROCESS.match(line.text) if line else None
        if process or line is None or (head and line.source != head.line.source):
            if head and frames:
                found.append(replace(head, frames=tuple(frames)))
            head = None
        if process and line:
            told = _SAYS_RANK.search(process[2])
            rank = line.rank if line.rank is not None else said
            rank = int(told[1]) if told and rank is None else rank
            head, frames, main, said = Stack(line, rank, process[1], ()), [], True, None
        elif line and head:
            thread = _THREAD.match(line.text)
            frame = _FRAME.match(line.text) if main else None
            if thread:
                main = not frames or thread[1] == "MainThread"
                frames = [] if thread[1] == "MainThread" else frames
            elif frame:
                frames.append((frame[1], frame[2], frame[3] or ""))
        if line and not process and (told := _SAYS_RANK.search(line.text)):
            said = int(told[1])
    return found


def _shape(stack: Stack) -> tuple:
    """Frames to compare: a library's line may differ between ranks that wait in one place."""
    return tuple(
        (function, file, "" if LIBRARY.search(file) else line)
        for function, file, line in stack.frames
    )


def _alone(camp: list[Stack]) -> int | None:
    return camp[0].rank if len(camp) == 1 else None


def _who(camp: list[Stack]) -> str:
    ranks = [stack.rank for stack in camp if stack.rank is not None]
    if len(ranks) == len(camp):
        return told_ranks(ranks)
    return f"process{'es' if len(camp) > 1 else ''} {', '.join(s.process for s in camp[:8])}"


def _where(stack: Stack) -> str:
    own = next((f for f in stack.frames if not LIBRARY.search(f[1])), stack.frames[0])
    function, file, line = own
    place = f"{function} ({os.path.basename(file)}:{line})"
    return place if own is stack.frames[0] else f"{stack.frames[0][0]}, from {place}"


VERDICTS = ("wrong", "suspicious", "sound", "not looked at")
MOST_REPORT, MOST_FOUND = 4 << 20, 64  # bytes of a probe's report, and findings
HEAD, MOST_NAMES = 1 << 12, 20_000  # bytes that tell a report, and files that are looked at


def report_of(data: bytes, source: str) -> Evidence | None:
    """Return what a probe's report says, None where these bytes are something else.

    Whatever they say, types are checked, and texts masked and cut.
    """
    if data.lstrip()[:1] != b"{" or b'"observations"' not in data or b'"verdict"' not in data:
        return None
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return None
    verdict, found, steps = (told.get(name) for name in ("verdict", "findings", "steps"))
    if verdict not in VERDICTS or not isinstance(found, list):
        return None
    steps = steps if type(steps) is int and 0 <= steps < 10**9 else 0
    every = [Probed.of(one, shown(source, 200)) for one in found[:MOST_FOUND]]
    return Evidence(
        [],
        [],
        [],
        None,
        (),
        True,
        f"The probe's verdict on the first {steps} steps: {verdict}.",
        seen="sound" if verdict == "sound" else "",
        probed=tuple(one for one in every if one is not None),
    )


def report_in_rows(rows: list[Row], source: str, path: str = "") -> Evidence | None:
    """Return what a probe's report in these rows says; `path`: the file that they are from."""
    if not rows or rows[0][1].lstrip()[:1] != b"{":
        return None
    data = _report(path) if path else b"\n".join(raw for _, raw in rows)
    return report_of(data, source) if data else None


def _report(path: str) -> bytes:
    """The bytes of a regular file that begins like a report and is no larger; else none."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > MOST_REPORT:
            return b""
        with open(path, "rb") as stream:
            head = stream.read(HEAD)
            return head + stream.read(MOST_REPORT) if b'"verdict"' in head else b""
    except (OSError, ValueError):
        return b""


def with_reports(folder: str, read: Callable[[], Evidence]) -> Evidence:
    """Return a folder's evidence, which `read` gives, together with the probe's reports in it."""
    reports, seen = [], 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
        for name in sorted(names):
            seen += 1
            if name.lower().endswith(".json") and not KEY_NAME.search(name):
                path = os.path.join(base, name)
                relative = os.path.relpath(path, folder).replace(os.sep, "/")
                reports += filter(None, [report_of(_report(path), relative)])
        if seen > MOST_NAMES or len(reports) >= MOST_FOUND:
            break
    try:
        found = read()
    except Unreadable:
        if not reports:
            raise
        found = replace(reports[0], left_out="")
    if not reports:
        return found
    probed = [one for report in reports for one in report.probed]
    seen_now = "" if probed else found.seen  # a log without a fault isn't the whole story
    said = [found.left_out, *dict.fromkeys(report.left_out for report in reports[:3])]
    return replace(
        found,
        left_out=" ".join(filter(None, said)),
        seen=seen_now if found.seen == "sound" else found.seen,
        probed=tuple(probed[:MOST_FOUND]),
    )
