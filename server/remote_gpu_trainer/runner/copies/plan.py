"""What to copy, keep and drop: decided from what lies here, what lies there and what was proven.

Pure. At the durable place each checkpoint is a generation under a name of its own, and nothing
there is replaced. A generation goes only when newer complete ones of its line are there, and what
can't be proven never displaces what can. A program that begins at 0 again opens a line of its own;
the best line before it keeps its place until that is passed. Files that a program always wrote
within one save of each other are one checkpoint only where they are of one save again: what a
program leaves that dies between two of them is mixed, and proves nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from ..completeness import AT_ONCE, COMPLETE, CORRUPT, REST, UNKNOWN

# In the kind of a file whose checkpoint is corrupt otherwise: it is kept for its user, and nothing
# goes on from it while a whole one is there.
PART = " in part: "
# What is copied and is no checkpoint: what the job's pattern doesn't name, and what only stands
# beside a model (an optimizer alone, training_args.bin). A result is copied so only where another
# attempt may write over it before it has gone to its own place.
BESIDE, COMPANION, RESULT = "beside", "companion", "result"
PARTIAL = "partial"  # a generation whose manifest was never written: its copy was cut
KEPT = 2  # complete generations of a line that stay
SPARE = 1 << 20  # bytes that a copy leaves free


class Here(NamedTuple):
    """A checkpoint here. `kind`: what it shares with those that differ in their numbers. `order`:
    grows with each save. `step`: None where it isn't known; `is_named`: its name or its own file
    tells it, not the log. `stamp`: changes with its bytes. `age`: seconds in which nothing changed,
    as far as anybody has looked. `digest`: '' where this stamp hasn't been read yet. `size`: bytes.
    `apart`: seconds between the first and the last of its weights, None for a single file.
    `is_cut`: its program has died since, so that a save that went on then is never finished.
    `has_rhythms`: one of its files was written twice while another one wasn't. `why`: what its
    state is by. `is_earlier`: it was saved before this attempt began. `least_apart`: the least
    seconds between its weights that were seen while its program lived, of whatever save. `source`:
    the name under which a copy of it that is held here was saved, '' for what lies under its own;
    `line`, `is_anew`: which line that had when it was held, 0 for what isn't held, and whether the
    line began from nothing.
    """

    name: str
    kind: str
    order: int
    step: int | None
    is_named: bool
    state: str
    stamp: str
    age: float
    digest: str
    size: int
    apart: float | None = None
    is_cut: bool = False
    has_rhythms: bool = False
    why: str = ""
    is_earlier: bool = False
    least_apart: float | None = None
    source: str = ""
    line: int = 0
    is_anew: bool = False


class There(NamedTuple):
    """A generation at the durable place. `state`: COMPLETE, UNKNOWN, PARTIAL, or CORRUPT where its
    bytes aren't as its manifest says. `at`: when the checkpoint was saved; orders generations of a
    line, and `copied` where a program sets that time itself. `is_ours`: this box had these bytes.
    `is_anew`: the line began from nothing although there was another one. `apart`: the most seconds
    that the weights of it or of a complete one before it were written apart, None for one file.
    `role`: '' for a checkpoint, else BESIDE, COMPANION or RESULT."""

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
    copied: int = 0
    apart: float | None = None
    role: str = ""

    @property
    def counts(self) -> bool:
        """Return whether all its bytes are there, whatever they prove."""
        return self.state in (COMPLETE, UNKNOWN)


class Job(NamedTuple):
    """What bears on a plan besides. `begins_anew`: this attempt was given no checkpoint, or nothing
    has opened one so far. `own`: digests that this attempt saved. `overtaken`: kinds of which one
    changed while it was copied. `free_here`, `free_there`: bytes; None where unknown. `is_over`:
    the program has ended, so that nothing changes any more. `began_anew`, `owned`: of the attempt
    before, whose last checkpoint may still be to copy."""

    begins_anew: bool = False
    own: frozenset[str] = frozenset()
    overtaken: frozenset[str] = frozenset()
    free_here: int | None = None
    free_there: int | None = None
    is_over: bool = False
    began_anew: bool = False
    owned: frozenset[str] = frozenset()


class Copy(NamedTuple):
    """Copy a checkpoint as a generation of this line. `is_staged`: by a copy on this box first,
    for the program writes faster than it can be copied. `apart`: as There has it. `is_mixed`: its
    files are of two saves, so that it counts as unknown."""

    name: str
    line: int
    is_anew: bool
    is_staged: bool
    apart: float | None = None
    is_mixed: bool = False


class Drop(NamedTuple):
    """Remove a generation."""

    name: str


class Forget(NamedTuple):
    """Remove what is held here: it lies there, or newer ones there have replaced it."""

    name: str


class Tell(NamedTuple):
    """Say that something isn't copied. `key`: what it is about."""

    key: str
    text: str


Action = Union[Copy, Drop, Forget, Tell]


def plan(here: list[Here], there: list[There], job: Job) -> list[Action]:
    """Return what to do now, in this order. After a copy, ask again."""
    actions: list[Action] = []
    drops = _superseded(here, there, job)
    actions += [Drop(one.name) for one in drops]
    left = [one for one in there if one not in drops]
    free = None if job.free_there is None else job.free_there + sum(one.size for one in drops)
    # What a later attempt saves is copied first, and must not take the line of what is held.
    lines = left + [_as_there(one) for one in here if one.line]
    held = [one for one in here if one.line]
    forgotten = [one for one in held if _has(left, one) or _is_outdone(_as_there(one), left)]
    actions += [Forget(one.name) for one in forgotten]
    for one in sorted(here, key=lambda one: -one.order):
        if one in forgotten:
            continue
        if one.state == CORRUPT:
            text = f"{one.name} is corrupt and isn't copied: {one.why}"
            actions.append(Tell(f"corrupt {one.name}", text))
            continue
        if not (job.is_over or rests(one, left)) or _has(left, one):
            continue
        if free is not None and one.size + SPARE > free:
            if _is_older(one, left):
                actions.append(Tell(f"older {one.name}", _say_no_room_beside(one)))
                continue
            given_up = _make_room(one, here, left, free)
            actions += [Drop(other.name) for other in given_up]
            if not given_up:
                actions.append(_tell_no_room(one, free))
                break  # the newest comes first; a smaller, older one wouldn't help it
            names = ", ".join(other.source for other in given_up)
            text = f"the durable place is full: its copy of {names} made room for {one.name}"
            actions.append(Tell(f"room for {one.name}", text))
            left = [other for other in left if other not in given_up]
        line, is_anew = (one.line, one.is_anew) if one.line else find_line(one, lines, job)
        staged = one.kind in job.overtaken and not job.is_over
        room = job.free_here is None or job.free_here > one.size + SPARE
        known = [] if one.apart is None else [one.apart, *_apart_before(one, left)]
        apart, mixed = max(known, default=None), is_mixed(one, left)
        actions.append(Copy(one.name, line, is_anew, staged and room, apart, mixed))
        break
    return actions


def _is_older(one: Here, there: list[There]) -> bool:
    """Return whether a complete one lies there that is newer than this one."""
    return any(
        other.kind == one.kind and other.state == COMPLETE and other.at > one.order
        for other in there
    )


def _make_room(one: Here, here: list[Here], there: list[There], free: int) -> list[There]:
    """Return which older ones go from there, the oldest first, so that a complete newer one has
    room: what lies here too, or what the program has let go of and another one there came as far
    as; and neither the best nor the newest. [] where that isn't enough."""
    if one.state != COMPLETE:
        return []
    digests, stamps = {other.digest for other in here} - {""}, {other.stamp for other in here}
    best = [*newest(there).values(), max(there, key=_age_in_lines, default=None)]
    given_up: list[There] = []
    for other in sorted(there, key=_age_in_lines):
        if one.size + SPARE <= free:
            break
        is_here = other.digest in digests or other.stamp in stamps
        may_go = other.counts and (
            is_here or (_is_replaced(other, there) and _is_outdone(other, there, 1))
        )
        if other.kind == one.kind and may_go and other not in best:
            given_up.append(other)
            free += other.size
    return given_up if one.size + SPARE <= free else []


def _age_in_lines(one: There) -> tuple[int, tuple[int, int, str]]:
    """Return what orders the generations of all lines, the oldest first."""
    return one.line, age_of(one)


def _as_there(held: Here) -> There:
    """Return what is held here as the generation that it becomes."""
    return There(
        held.name, held.source, held.kind, held.line, held.step, held.state, held.digest,
        held.stamp, held.order, held.size, True, held.is_anew,
    )  # fmt: skip


def rests(one: Here, there: list[There]) -> bool:
    """Return whether a checkpoint's save is over, while its program lives."""
    need = AT_ONCE if one.state == COMPLETE else REST
    return one.age >= max(need, _longest_save(one, there) if _is_apart(one, there) else 0.0)


def waits(here: list[Here], there: list[There]) -> bool:
    """Return whether a checkpoint is to be copied once its save is over."""
    return any(
        one.state != CORRUPT and not rests(one, there) and not _has(there, one) for one in here
    )


def is_mixed(one: Here, there: list[There]) -> bool:
    """Return whether a program died between two files of one save: some are of the save before.

    A program that writes its files in rhythms of their own has shown that while it lived: it wrote
    one of them twice, or there lies a complete one with files that are as far apart.
    """
    return one.is_cut and one.state == COMPLETE and _is_apart(one, there)


def _is_apart(one: Here, there: list[There]) -> bool:
    if one.apart is None or one.has_rhythms or not _apart_before(one, there):
        return False
    return one.apart > _longest_save(one, there)


def _longest_save(one: Here, there: list[There]) -> float:
    return REST + 2 * max(_apart_before(one, there))


def _apart_before(one: Here, there: list[There]) -> list[float]:
    """Return how far apart the files were of complete ones that this one is written over: of those
    there, and of those that lay here while the program lived."""
    seen = [] if one.least_apart is None else [one.least_apart]
    name = one.source or one.name
    return seen + [
        other.apart
        for other in there
        if (other.source, other.kind, other.state) == (name, one.kind, COMPLETE)
        and other.apart is not None
    ]


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
        for state in (COMPLETE, UNKNOWN):
            of_kind = [one for one in there if one.kind == kind and one.state == state]
            if of_kind:
                found[kind] = _best(of_kind)
                break
    return found


def wanted(
    there: list[There], here: tuple[int | None, int] | None, corrupt: set[str]
) -> list[There]:
    """Return which generations to bring back to this box.

    `here`: step and time of save of the newest complete checkpoint here, None for none. `corrupt`:
    names of corrupt ones here. What this box had and has no more was removed by its user, unless
    its name is one of a corrupt file. What stands beside a model comes with one or not at all:
    alone it makes a program take its folder for another run's.
    """
    found = []
    best = [one for one in newest(there).values() if one.role != RESULT]
    is_model = here is not None or any(one.role != COMPANION for one in best)
    for one in best:
        if one.role == COMPANION and not is_model:
            continue
        if here is None:
            found.append(one)
            continue
        step, saved = here
        is_newer = one.at > saved if step is None or one.step is None else one.step > step
        if one.state == COMPLETE and is_newer and (not one.is_ours or one.source in corrupt):
            found.append(one)
    return found


def _best(of_kind: list[There]) -> There:
    last = max(one.line for one in of_kind)
    current = max((one for one in of_kind if one.line == last), key=age_of)
    if not current.is_anew:
        return current
    before = [one for one in of_kind if one.line < last and one.step is not None]
    best = max(before, key=lambda one: (one.step or 0, one.at), default=current)
    is_passed = current.step is not None and current.step >= (best.step or 0)
    return current if best.step is None or is_passed else best


def _superseded(here: list[Here], there: list[There], job: Job) -> list[There]:
    """Return what may go: cut copies, and what the program itself has replaced or removed, once
    KEPT complete ones are newer and came as far."""
    stamps = {one.stamp for one in here}
    digests_here = {one.digest for one in here if one.digest}
    drops = [one for one in there if one.state == PARTIAL and one.stamp not in stamps]
    best = set(newest(there).values())
    for one in there:
        if one.state == PARTIAL or one in best or one.counts and one.digest in digests_here:
            continue
        if _is_replaced(one, there) and _is_outdone(one, there):
            drops.append(one)
    return drops


def _is_outdone(one: There, there: list[There], count: int = KEPT) -> bool:
    """Return whether so many newer ones came as far, and are complete unless that isn't known of
    this one either."""
    newer = [
        other
        for other in there
        if other.kind in (one.kind, one.kind.split(PART)[0])
        and other.counts
        and _age_in_lines(other) > _age_in_lines(one)
    ]
    if one.state != UNKNOWN:
        newer = [o for o in newer if o.state == COMPLETE and _is_as_far(o, one)]
    return len(newer) >= count


def _is_as_far(newer: There, one: There) -> bool:
    """Return whether a newer one came as far, and further where its line began from nothing; by its
    line where a step isn't known."""
    goes_on = newer.line == one.line or not newer.is_anew
    if newer.step is None or one.step is None:
        return goes_on
    return newer.step >= one.step if goes_on else newer.step > one.step


def _is_replaced(one: There, there: list[There]) -> bool:
    """Return whether the program itself has let go of it: this box had it and has it no more, or
    its name was written anew."""
    anew = any(
        other.source == one.source
        and other.kind == one.kind
        and other.state == COMPLETE
        and _age_in_lines(other) > _age_in_lines(one)
        for other in there
    )
    return one.is_ours or anew


def _has(there: list[There], one: Here) -> bool:
    """Return whether these bytes lie there, under whatever name; what was never read is told by its
    stamp."""
    if one.digest:
        return any(other.counts and other.digest == one.digest for other in there)
    return any(
        (other.kind, other.source, other.stamp) == (one.kind, one.name, one.stamp) and other.counts
        for other in there
    )


def find_line(one: Here, there: list[There], job: Job) -> tuple[int, bool]:
    """Return the line that a checkpoint continues, and whether that began from nothing."""
    is_anew_now, own = job.begins_anew, job.own
    if one.is_earlier:  # it goes on with the line of the attempt that saved it
        is_anew_now, own = job.began_anew, job.owned
        there = [other for other in there if other.at <= one.order]
    of_kind = [other for other in there if other.kind == one.kind and other.state != PARTIAL]
    if not of_kind:
        return 1, False
    last = max(other.line for other in of_kind)
    line = [other for other in of_kind if other.line == last]
    steps = [other.step for other in line if other.step is not None and other.at <= one.order]
    is_back = one.is_named and one.step is not None and bool(steps) and one.step < max(steps)
    is_own = all(other.digest in own for other in line)
    is_anew = max(line, key=age_of).is_anew
    if is_own:  # what opens a checkpoint later than it saves goes on with what was there, after all
        is_anew = is_anew_now and len(of_kind) > len(line)
    if is_back or is_anew_now and not is_own:
        return last + 1, is_anew_now or is_anew
    return last, is_anew


def age_of(one: There) -> tuple[int, int, str]:
    """Return what orders the generations of a line, the oldest first."""
    return one.at, one.copied, one.name


def _say_no_room_beside(one: Here) -> str:
    return (
        f"{one.name} isn't copied: the durable place has no room for it beside newer ones, so it"
        " is on this box alone; make room there"
    )


def _tell_no_room(one: Here, free: int) -> Tell:
    return Tell(
        "room",
        f"{one.name} needs {one.size / 1e6:,.1f} MB at the durable place, which has"
        f" {free / 1e6:,.1f} MB free: nothing is copied, and the older one there is kept;"
        " make room there",
    )
