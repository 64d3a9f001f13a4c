"""What to copy, keep and drop: decided from what lies here, what lies there and what was proven.

Pure. At the durable place each checkpoint is a generation under a name of its own, and nothing
there is replaced. A generation goes only when newer complete ones of its line are there, and what
can't be proven never displaces what can. A program that begins at 0 again opens a line of its own;
the best line before it keeps its place until that is passed.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from ..completeness import COMPLETE, CORRUPT

# In the kind of a file whose checkpoint is corrupt otherwise: it is kept for its user, and nothing
# goes on from it while a whole one is there.
PART = " in part: "
PARTIAL = "partial"  # a generation whose manifest was never written: its copy was cut
KEPT = 2  # complete generations of a line that stay
SPARE = 1 << 20  # bytes that a copy leaves free


class Here(NamedTuple):
    """A checkpoint here. `kind`: what it shares with those that differ in their numbers. `order`:
    grows with each save. `step`: None where it isn't known; `is_named`: its name or its own file
    tells it, not the log. `stamp`: changes with its bytes. `rests`: nothing changed since the last
    look. `digest`: '' where this stamp hasn't been read yet. `size`: bytes."""

    name: str
    kind: str
    order: int
    step: int | None
    is_named: bool
    state: str
    stamp: str
    rests: bool
    digest: str
    size: int


class There(NamedTuple):
    """A generation at the durable place. `state`: COMPLETE, UNKNOWN or PARTIAL. `at`: when the
    checkpoint was saved; orders generations of a line. `is_ours`: this box had these bytes.
    `is_anew`: the line began from nothing although there was another one."""

    name: str
    source: str
    kind: str
    line: int
    step: int | None
    state: str
    digest: str
    stamp: str
    at: int
    size: int
    is_ours: bool
    is_anew: bool


class Job(NamedTuple):
    """What bears on a plan besides. `begins_anew`: this attempt was given no checkpoint or opened
    none. `own`: digests that this attempt saved. `overtaken`: names that changed while they were
    copied. `free_here`, `free_there`: bytes; None where unknown. `is_over`: the program has ended,
    so that nothing changes any more."""

    begins_anew: bool = False
    own: frozenset[str] = frozenset()
    overtaken: frozenset[str] = frozenset()
    free_here: int | None = None
    free_there: int | None = None
    is_over: bool = False


class Copy(NamedTuple):
    """Copy a checkpoint as a generation of this line. `is_staged`: by a copy on this box first,
    for the program writes faster than it can be copied."""

    name: str
    line: int
    is_anew: bool
    is_staged: bool


class Drop(NamedTuple):
    """Remove a generation."""

    name: str


class Tell(NamedTuple):
    """Say that something isn't copied. `key`: what it is about."""

    key: str
    text: str


Action = Union[Copy, Drop, Tell]


def plan(here: list[Here], there: list[There], job: Job) -> list[Action]:
    """Return what to do now, in this order. After a copy, ask again."""
    actions: list[Action] = []
    drops = _superseded(here, there, job)
    actions += [Drop(one.name) for one in drops]
    left = [one for one in there if one not in drops]
    for one in sorted(here, key=lambda one: -one.order):
        if one.state == CORRUPT:
            actions.append(Tell(f"corrupt {one.name}", f"{one.name} is corrupt and isn't copied"))
            continue
        if not (one.rests or job.is_over) or _has(left, one):
            continue
        if job.free_there is not None and one.size + SPARE > job.free_there:
            actions.append(_tell_no_room(one, job.free_there))
            break  # the newest comes first; a smaller, older one wouldn't help it
        line, is_anew = _line(one, left, job)
        staged = one.name in job.overtaken and not job.is_over
        room = job.free_here is None or job.free_here > one.size + SPARE
        actions.append(Copy(one.name, line, is_anew, staged and room))
        break
    return actions


def newest(there: list[There]) -> dict[str, There]:
    """Return the generation of each kind that a program is to go on from.

    The newest complete one of the last line; of the best line before it, where the last one began
    from nothing and hasn't passed it. What can't be proven only where nothing is complete.
    """
    found = {}
    whole = {one.kind for one in there if one.state == COMPLETE}
    for kind in {one.kind for one in there}:
        if PART in kind and kind.split(PART)[0] in whole:
            continue
        for states in ((COMPLETE,), ("unknown",)):
            of_kind = [one for one in there if one.kind == kind and one.state in states]
            if of_kind:
                found[kind] = _best(of_kind)
                break
    return found


def wanted(there: list[There], here: tuple[int | None, int] | None, torn: set[str]) -> list[There]:
    """Return which generations to bring back to this box.

    `here`: step and time of save of the newest complete checkpoint here, None for none. `torn`:
    names of corrupt ones here. What this box had and has no more was removed by its user, unless
    its name is one of a corrupt file.
    """
    found = []
    for one in newest(there).values():
        if here is None:
            found.append(one)
            continue
        step, saved = here
        is_newer = one.at > saved if step is None or one.step is None else one.step > step
        if one.state == COMPLETE and is_newer and (not one.is_ours or one.source in torn):
            found.append(one)
    return found


def _best(of_kind: list[There]) -> There:
    last = max(one.line for one in of_kind)
    current = max((one for one in of_kind if one.line == last), key=_age)
    if not any(one.is_anew for one in of_kind if one.line == last):
        return current
    before = [one for one in of_kind if one.line < last and one.step is not None]
    best = max(before, key=lambda one: (one.step or 0, one.at), default=current)
    is_passed = current.step is not None and current.step >= (best.step or 0)
    return current if best.step is None or is_passed else best


def _superseded(here: list[Here], there: list[There], job: Job) -> list[There]:
    """Return what may go: cut copies, and what the program itself has replaced or removed, once
    KEPT complete ones are newer and came as far."""
    stamps = {one.stamp for one in here}
    held = {one.digest for one in here if one.digest}
    drops = [one for one in there if one.state == PARTIAL and one.stamp not in stamps]
    best = set(newest(there).values())
    for one in there:
        if one.state == PARTIAL or one in best or one.digest in held:
            continue
        if not _is_replaced(one, there):
            continue
        newer = [
            other
            for other in there
            if other.kind in (one.kind, one.kind.split(PART)[0])
            and other.state != PARTIAL
            and (other.line, _age(other)) > (one.line, _age(one))
        ]
        if one.state == COMPLETE:
            newer = [o for o in newer if o.state == COMPLETE and _is_as_far(o, one)]
        if len(newer) >= KEPT:
            drops.append(one)
    return drops


def _is_as_far(newer: There, one: There) -> bool:
    """Return whether a newer one came at least as far; by its line where a step isn't known."""
    if newer.step is None or one.step is None:
        return newer.line == one.line or not newer.is_anew
    return newer.step >= one.step


def _is_replaced(one: There, there: list[There]) -> bool:
    """Return whether the program itself has let go of it: this box had it and has it no more, or
    its name was written anew."""
    anew = any(
        other.source == one.source
        and other.kind == one.kind
        and other.state == COMPLETE
        and (other.line, _age(other)) > (one.line, _age(one))
        for other in there
    )
    return one.is_ours or anew


def _has(there: list[There], one: Here) -> bool:
    """Return whether these bytes lie there; what was never read is told by its stamp."""
    return any(
        other.kind == one.kind
        and other.source == one.name
        and other.state != PARTIAL
        and (other.digest == one.digest if one.digest else other.stamp == one.stamp)
        for other in there
    )


def _line(one: Here, there: list[There], job: Job) -> tuple[int, bool]:
    """Return the line that a checkpoint continues, and whether that began from nothing."""
    of_kind = [other for other in there if other.kind == one.kind and other.state != PARTIAL]
    if not of_kind:
        return 1, False
    last = max(other.line for other in of_kind)
    line = [other for other in of_kind if other.line == last]
    is_anew = any(other.is_anew for other in line)
    steps = [other.step for other in line if other.step is not None and other.at <= one.order]
    is_back = one.is_named and one.step is not None and bool(steps) and one.step < max(steps)
    is_other = job.begins_anew and any(other.digest not in job.own for other in line)
    if is_back or is_other:
        return last + 1, is_other or is_back and job.begins_anew
    return last, is_anew


def _age(one: There) -> tuple[int, str]:
    return one.at, one.name


def _tell_no_room(one: Here, free: int) -> Tell:
    return Tell(
        "room",
        f"{one.name} needs {one.size / 1e6:,.1f} MB at the durable place, which has"
        f" {free / 1e6:,.1f} MB free: nothing is copied, and the older one there is kept;"
        " make room there",
    )
