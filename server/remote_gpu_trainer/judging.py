"""Lines to what failed: which failure came first, which lines decide, and what was only a consequence."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .lines import Line

_FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d+)(?:, in (\S+))?')
_NOISE = re.compile(r"^\W*$|^[\s=*#_~-]{6,}|^Root Cause|^Other Failures|^\s*\[\d+\]:\s*$|^-+$")
_SECONDARY = re.compile(
    r"connection (?:reset|closed|refused)|closed by peer|broken pipe|recvvalue|socket timeout|sigterm|signal 15|keyboardinterrupt|"
    r"watchdog|timed? ?out|remote process exited|abort|ncclcommwatchdog|heartbeat|store|sendbytes|no error",
    re.I,
)
_LOST_PEER = re.compile(r"connection (?:reset|closed)|closed by peer|broken pipe|sigterm|signal 15\b|exitcode\s*:\s*-15|remote process exited|sendbytes failed|recvvalue failed", re.I)
_WRAPPER = re.compile(r"ChildFailedError|CalledProcessError|SystemExit|ProcessExitedException|ProcessRaisedException|FAILED$|SignalException|subprocess-exited|returned non-zero exit")
_ROOT = re.compile(r"Root Cause \(first observed failure\)")
_SUMMARY_RANK = re.compile(r"^\s*rank\s*:\s*(\d+)")
_SUMMARY_CODE = re.compile(r"^\s*exitcode\s*:\s*(-?\d+)")
_STEP = re.compile(r"\b(?:step|iter(?:ation)?|it|batch)\b\D{0,4}(\d{1,9})", re.I)


@dataclass(slots=True)
class Failure:
    """One thing that ended, or seems to have ended, a rank. Secondary: what survivors say when a peer is gone."""

    line: Line
    secondary: bool
    frames: tuple[Line, ...] = ()


@dataclass
class Evidence:
    """What was read and what it comes to. `decisive` holds the lines to believe, most telling first."""

    lines: list[Line] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    decisive: list[Line] = field(default_factory=list)
    first: Line | None = None
    ranks: tuple[int, ...] = ()
    is_log: bool = False


def judge(lines: list[Line]) -> Evidence:
    """What failed, in the order to believe it."""
    failures: list[Failure] = []
    frames: dict = {}
    root_rank = root_code = None
    in_root = False
    for line in lines:
        if line.kind == "trace":
            frames[line.rank] = []
        elif line.kind == "frame":
            frames.setdefault(line.rank, []).append(line)
        elif line.kind in ("exception", "failure"):
            failures.append(Failure(line, bool(_SECONDARY.search(line.text)), tuple(frames.pop(line.rank, ()))))
        if _ROOT.search(line.text):
            in_root = True
        if in_root and root_rank is None and _SUMMARY_RANK.match(line.text):
            root_rank = int(_SUMMARY_RANK.match(line.text)[1])
        if in_root and root_code is None and _SUMMARY_CODE.match(line.text):
            root_code = int(_SUMMARY_CODE.match(line.text)[1])
    ranks = tuple(sorted({line.rank for line in lines if line.rank is not None}))
    telling = [f for f in failures if not _WRAPPER.search(f.line.text)]
    first = _first(telling or failures, root_rank, ranks, lines)
    lines, failures = _consequences(lines, failures, first)
    telling = [f for f in failures if not _WRAPPER.search(f.line.text)]
    decisive = _decisive(telling or failures, first, lines)
    is_log = bool(failures) or len(ranks) > 1 or any(line.kind in ("warning", "frame", "trace") for line in lines)
    return Evidence(lines, failures, decisive, first, ranks, is_log)


def _first(failures: list[Failure], root_rank: int | None, ranks, lines: list[Line]) -> Line | None:
    """The line of the failure that came first: the launcher's word, else own faults before consequences, else time."""
    if root_rank is not None:
        own = [f for f in failures if f.line.rank == root_rank and f.line.kind == "exception"] or [f for f in failures if f.line.rank == root_rank]
        own = [f for f in own if not f.secondary] or own
        if own:
            return own[-1].line if not own[0].frames else own[0].line
        named = next((line for line in lines if _SUMMARY_RANK.match(line.text) and int(_SUMMARY_RANK.match(line.text)[1]) == root_rank), None)
        if named:
            return Line(named.source, named.number, root_rank, named.text, "failure", named.time)
    pool = [f for f in failures if not f.secondary and f.line.kind == "exception"] or [f for f in failures if not f.secondary] or failures
    if not pool:
        return _behind(lines, ranks)
    if len({f.line.rank for f in pool}) > 1 and all(f.line.time for f in pool):
        return min(pool, key=lambda f: f.line.time).line
    per_rank: dict = {}
    for f in pool:
        if f.frames or f.line.rank not in per_rank:
            per_rank[f.line.rank] = f.line
    return next(iter(per_rank.values())) if len(per_rank) > 1 else pool[-1].line


def _consequences(lines: list[Line], failures: list[Failure], first: Line | None):
    """Once a rank's own exception is known, take "my peer is gone" out of what failed. Time-outs stay: they may be the cause."""
    if first is None or first.kind != "exception" or first.rank is None or _LOST_PEER.search(first.text):
        return lines, failures
    lost = {id(f.line) for f in failures if _LOST_PEER.search(f.line.text)}
    lost |= {id(frame) for f in failures if id(f.line) in lost for frame in f.frames}
    changed = [line if id(line) not in lost else Line(line.source, line.number, line.rank, line.text, "consequence", line.time) for line in lines]
    return changed, [f for f in failures if id(f.line) not in lost]


def _behind(lines: list[Line], ranks) -> Line | None:
    """No failure in any log: of several ranks the one whose last step is the lowest, if one is alone in that."""
    last = {}
    for line in lines:
        found = _STEP.search(line.text)
        if line.rank is not None and found:
            last[line.rank] = (int(found[1]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    return min(last.values(), key=lambda item: item[0])[1] if steps[0] < steps[1] else None


def _decisive(failures: list[Failure], first: Line | None, lines: list[Line]) -> list[Line]:
    """At most 12 lines to judge by: the first failure with its message and innermost frames, then others, then warnings."""
    chosen: list[Line] = []
    seen = set()

    def add(line: Line) -> None:
        shape = re.sub(r"\d+", "#", line.text.strip())
        if shape not in seen and not _NOISE.search(line.text) and len(chosen) < 12:
            seen.add(shape)
            chosen.append(line)

    ordered = sorted(failures, key=lambda f: (f.line is not first, f.secondary, f.line.kind != "exception", -f.line.number))
    for failure in ordered[:4]:
        add(failure.line)
        for line in lines:
            if line.kind == "message" and line.source == failure.line.source and line.rank == failure.line.rank and 0 < line.number - failure.line.number <= 4:
                add(line)
        for frame in [f for f in failure.frames if _FRAME.match(f.text)][-2:]:
            add(frame)
    if first:
        add(first)
    for line in reversed(lines):
        if line.kind == "warning":
            add(line)
    return chosen
