"""Find whom the others waited for: who only lost a rank, who says nothing, who is in another step.

What ranks say about their collectives compares within one process group only. The rank that
PyTorch prints inside its brackets is a rank of that group; the one before the line is a rank of the
job.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from .detectors import FAILS, says
from .kinds import APART, FAILURE, FRAME, MESSAGE, PLAIN, TRACE, WARNING
from .lines import Line
from .wrapping import ABORT, KILL, TERM, Summary

FOLDED = re.compile(r"\d+|0x[0-9a-f]+")
_SPOKEN = (PLAIN, MESSAGE, WARNING, *APART)
LAST = 3  # lines at a rank's end in which it may say what no other rank says
# Timed out waiting 4000ms for recv operation to complete     gloo; NCCL's watchdog says "timeout"
TIMED_OUT = re.compile(r"timed? ?-?out|\btimeout", re.I)
SHOWN = 8  # ranks that a sentence names
_RUNS = re.compile(
    r"Rank (\d{1,5}) is running (?:inconsistent )?collective: CollectiveFingerPrint\("
    r"((?:SequenceNumber=\d{1,12}, )?OpType=\w{1,40}(?:, TensorShape=\[[^\]]{0,200}\])?)"
)


@dataclass(frozen=True)
class Failure:
    """What ended a rank, or seems to have ended it.

    `secondary`: a survivor may say this when a peer is gone. `frames`: the calls of its traceback,
    outermost first.
    """

    line: Line
    secondary: bool
    frames: tuple[Line, ...] = ()


def place_of(line: Line) -> tuple[str, int | None]:
    """Return (process group, rank of the job) of a watchdog's line; "" is the whole job.

    It says "[PG ID 0 PG GUID 0(default_pg) Rank 3]", before PyTorch 2.4 "[PG 0 Rank 3]" or "[Rank
    3]". The GUID names a group on every rank, the ID only within one.
    """
    prefix = line.sign("group")
    if not prefix:
        return "", line.rank
    number, guid, name, rank = prefix
    whole = number is None or name == "default_pg" or (name is None and number == "0")
    group = "" if whole else guid or number or ""
    return group, line.rank if line.rank is not None or not whole else int(rank)


def who(line: Line) -> int | None:
    """Return the rank of a line, from its prefix or from what PyTorch's watchdog says."""
    return line.rank if line.rank is not None else place_of(line)[1]


def odd_one(lines: list[Line]) -> tuple[Line, int | None] | None:
    """Return the line that tells of a mismatch of collectives, and the rank that differs.

    With TORCH_DISTRIBUTED_DEBUG=DETAIL each rank compares itself with the others in order, and
    says which is the first that differs. The rank is None where no one differs from the many; all
    is None without such a line.
    """
    first: Line | None = None
    runs: dict[int, str] = {}  # the collective that a rank runs
    for line in lines:
        pairs = _RUNS.findall(line.text) if line.says("mismatch") else ()
        for rank, collective in pairs:
            first = first or line
            runs.setdefault(int(rank), collective)
        if len(pairs) == 2:  # all before the one that differs are like the speaker
            for rank in range(min(int(pairs[1][0]), 100_000)):
                runs.setdefault(rank, pairs[0][1])
    if first is None:
        return None
    counts = Counter(runs.values())
    alone = [rank for rank, collective in runs.items() if counts[collective] == 1]
    return first, alone[0] if len(alone) == 1 and len(runs) > 2 else None


def behind(lines: list[Line]) -> tuple[Line, int] | None:
    """Return the rank that had reached fewer collectives of a group than all others, and its line.

    Where groups name different ranks, the group counts whose watchdog gave up first.
    """
    started = next((place_of(line)[0] for line in lines if line.says("initiator")), None)
    for name in ("enqueued", "waits in"):
        reached: dict[str, dict[int, tuple[int, Line]]] = {}
        for line in lines:
            groups = line.sign(name)
            if groups is None:
                continue
            group, rank = place_of(line)
            if rank is not None:
                reached.setdefault(group, {}).setdefault(rank, (int(groups[0]), line))
        fewest = {group: _fewest(counts) for group, counts in reached.items()}
        named = {group: rank for group, rank in fewest.items() if rank is not None}
        if len(set(named.values())) > 1:
            named = {started: named[started]} if started in named else {}
        for group, rank in named.items():
            return reached[group][rank][1], rank
    return None


def _fewest(counts: dict[int, tuple[int, Line]]) -> int | None:
    """The one rank that had reached fewer than every other."""
    numbers = sorted(number for number, _ in counts.values())
    if len(numbers) < 2 or numbers[0] == numbers[1]:
        return None
    return min(counts, key=lambda rank: counts[rank][0])


def only_victims(
    failures: list[Failure],
    lines: list[Line],
    summary: Summary,
    silent: frozenset[int] = frozenset(),
) -> str:
    """Return one sentence on who only lost another rank and who says nothing; else "".

    For logs of several ranks in which no rank tells of a failure of its own.
    """
    victims = {rank for rank in (who(f.line) for f in failures) if rank is not None}
    others = {line.rank for line in lines if line.rank is not None} | silent | set(summary.ended)
    others -= victims
    if not victims or len(victims | others) < 2 or not _only_lost(failures):
        return ""
    said = f"{_named(victims)} only lost another rank or waited for one"
    return f"{said}; no failure is seen on {_named(others).lower()}." if others else f"{said}."


def _only_lost(failures: list[Failure]) -> bool:
    """Whether no rank tells of a failure of its own, apart from the launcher's words."""
    return all(f.secondary or f.line.says("exit", "wrapper") for f in failures)


def _named(ranks: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:SHOWN]))
    more = f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else ""
    return f"{'Rank' if len(ranks) == 1 else 'Ranks'} {shown}{more}"


def victims_of(failures: list[Failure], summary: Summary) -> set[int]:
    """Return the aborted ranks that only lost another one, or waited for it too long.

    Gloo ends a process by `terminate called` when another rank is gone, NCCL's watchdog does it
    after its time.
    """
    said: dict[int | None, list[Failure]] = {}
    for failure in failures:
        said.setdefault(who(failure.line), []).append(failure)
    return {
        rank
        for rank, (code, _) in summary.ended.items()
        if code == ABORT
        and rank in said
        and (all(f.secondary for f in said[rank]) or any(f.line.says("waited") for f in said[rank]))
    }


def clean_up(failures: list[Failure], summary: Summary) -> list[Line]:
    """Return the lines of torchrun's summary about signals that are no cause.

    Those of ranks that it killed itself, and of ranks that aborted because they lost another one.
    """
    victims = victims_of(failures, summary)
    return [
        line
        for rank, block in summary.blocks.items()
        if rank in victims or is_stuck(rank, summary, failures)
        for line in block
    ]


def is_stuck(rank: int, summary: Summary, failures: list[Failure]) -> bool:
    """Return whether the launcher killed the rank when it cleaned up, rather than somebody before.

    Either the launcher says so; or it saw another rank end first, and the others waited until
    their time was over. A killed rank's connections are closed at once.
    """
    if rank in summary.stuck:
        return True
    waited = [f for f in failures if f.secondary and f.line.rank not in (None, rank)]
    return (
        summary.ended[rank][0] == KILL
        and summary.root not in (None, rank)
        and bool(waited)
        and not any(f.line.says("lost peer") for f in waited)
    )


def at_end(rank: int, summary: Summary) -> Line:
    """Return the line of a rank that left nothing but its place in the summary."""
    line = summary.ended[rank][1]
    return Line(line.source, line.number, rank, line.text, FAILURE, line.time)


def waited_for(
    failures: list[Failure], lines: list[Line], ranks: set[int], summary: Summary
) -> Line | None:
    """Return the rank that the others name, that is behind, or that says nothing.

    For failures that all are lost peers or timeouts.
    """
    for line in lines:
        barrier = line.sign("barrier")
        if barrier:
            return line.of_rank(int(barrier[0]))
    late = behind(lines)
    if late:
        return late[0].of_rank(late[1])
    known = ranks | set(summary.ended)
    if summary.ended:
        known |= set(range(max(known)))
    said = {rank: [line for line in lines if line.rank == rank] for rank in sorted(known)}
    rank = _set_apart(failures, said, summary)
    if rank is None:
        return None
    own = [line for line in said[rank] if line.kind not in (TRACE, FRAME)]
    if own:
        return own[-1]
    if rank in summary.ended and not is_stuck(rank, summary, failures):
        return at_end(rank, summary)
    line = failures[0].line
    return Line(line.source, line.number, rank, f"rank {rank} says nothing")


def _set_apart(
    failures: list[Failure], said: dict[int, list[Line]], summary: Summary
) -> int | None:
    """The rank that alone has one of these properties, the surest first.

    It says nothing of a loss, and torchrun saw it fail first; it ended, but not by the launcher; it
    isn't in the summary; it says nothing of a loss. Where all only lost another one: it is done, is
    in another step, or says what no other rank says.
    """
    silent = set(said) - {who(f.line) for f in failures if not f.line.says("notified")}
    unasked = {rank for rank in silent if summary.ended.get(rank, (TERM, None))[0] != TERM}
    ended_well = silent - set(summary.ended) if summary.ended else set()
    groups = [silent & {summary.root}, unasked, ended_well, silent]
    if len(said) > 1 and _only_lost(failures):
        groups += [_finished(silent, said), _ahead_or_behind(said), _other_words(said)]
    return next((rank for group in groups if len(group) == 1 for rank in group), None)


def _finished(ranks: set[int], said: dict[int, list[Line]]) -> set[int]:
    """Those of these ranks that say at their end that they are done."""
    return {rank for rank in ranks if any(line.says("done") for line in said[rank][-LAST:])}


def _ahead_or_behind(said: dict[int, list[Line]]) -> set[int]:
    """The one of at least three ranks whose last step isn't that of all others."""
    last: dict[int, str] = {}
    for rank, lines in said.items():
        found = next(filter(None, (line.sign("step") for line in reversed(lines))), None)
        if found:
            last[rank] = found[0]
    for step in set(last.values()):
        at = {rank for rank, other in last.items() if other == step}
        if len(at) == 1 and len(last) > 2 and len(set(last.values())) == 2:
            return at
    return set()


def _other_words(said: dict[int, list[Line]]) -> set[int]:
    """The one rank that says at its end, once, what no other rank says."""
    shapes = {
        rank: [FOLDED.sub("#", line.text) for line in lines if line.kind in _SPOKEN]
        for rank, lines in said.items()
    }
    if not all(shapes.values()):
        return set()
    return {
        rank
        for rank, own in shapes.items()
        if any(
            own.count(shape) == 1
            and not any(shape in others for other, others in shapes.items() if other != rank)
            for shape in own[-LAST:]
        )
    }


def late_rank(lines: list[Line]) -> Line | None:
    """Return, of several ranks without a failure, the one whose last step is the lowest.

    None if it isn't alone in that, or says afterwards that it finished.
    """
    last: dict[int, tuple[int, Line]] = {}
    for line in lines:
        step = line.sign("step")
        if step and line.rank is not None:
            last[line.rank] = (int(step[0]), line)
    if len(last) < 2:
        return None
    steps = sorted(step for step, _ in last.values())
    slowest = min(last.values(), key=lambda item: item[0])[1]
    after = lines[lines.index(slowest) + 1 :] if steps[0] < steps[1] else []
    finished = any(line.rank == slowest.rank and line.says("done") for line in after)
    return slowest if steps[0] < steps[1] and not finished else None


def is_step(text: str) -> bool:
    """Return whether a text of an answer reports a step and no failure.

    A rank that `first_failure` names by such a line is only behind.
    """
    return says(text, "step") and not says(text, "exception", *FAILS)
