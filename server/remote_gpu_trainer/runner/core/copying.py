"""When a round of copies is made, given up or made again. What a round copies: plan.py."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .model import Action, Copy, CutCopy, NoteFailure, Seen, Tell

ABSENT = 3  # a worker's code where all there is was copied, but something isn't there
SHORT = 10.0  # seconds that a copy may go on once the run was asked to end
LONGEST_WAIT = 60.0  # seconds between two tries of the last copy
OWED_FIRST, OWED_MOST = 5.0, 60.0  # seconds between two tries of an owed copy
TELL_AGAIN = 3600.0  # seconds until a failure that lasts is told again
OWED_SECONDS = 3600.0  # for one of them
FIRST_TRY = 30.0  # seconds for the first of them, before anybody is told
# Nothing but a person mends these, so the last copy isn't tried again and again.
LASTING = re.compile(
    r"Read-only file system|Permission denied|Operation not permitted|Not a directory|File exists"
    r"|Is a directory|is missing on this box|durable place .* (on this box's own|held this run)"
    r"|a link to nothing|NoSuchBucket|AccessDenied|are of the run"
)
# What a program that copies says of a full disk; the last words are of a plan.
NO_ROOM = re.compile(r"No space left|quota exceeded|nothing is copied", re.I)


class Copying(NamedTuple):
    """`number`: of rounds that were started; `taken`: the last one whose end was judged.
    `started_at`: of the last round. `failures`, `failing_since`, `is_told`: since one succeeded.
    `told_at`: when somebody was told last."""

    number: int = 0
    taken: int = 0
    started_at: float = 0.0
    failures: int = 0
    failing_since: float | None = None
    is_told: bool = False
    told_at: float | None = None


class Last(NamedTuple):
    """The copy after a run's end. `is_whole`: every item must be there. `was_asked`: the run was
    asked to end before it began; `hurried_at`: when it was since. `number`: of the round that goes
    on. `failing_since`: of its own rounds; `next_at`: of the next one, after `wait`."""

    is_whole: bool = False
    was_asked: bool = False
    hurried_at: float | None = None
    number: int = 0
    failing_since: float | None = None
    next_at: float = 0.0
    wait: float = 0.0


class Owed(NamedTuple):
    """Copies that an end still owes. `at`: when one was started last; `wait`: before the next."""

    at: float | None = None
    wait: float = OWED_FIRST
    tries: int = 0


def watch_round(
    job: Any, copying: Copying, seen: Seen, now: float, is_last: bool = False
) -> tuple[Copying, list[Action]]:
    """Return what a round needs that goes on, and what is told of one that has ended."""
    worker = seen.worker
    if worker.is_going:
        if worker.still < job.timings.copy_quiet or copying.taken == worker.number:
            return copying, []
        why = f"the copy to {seen.durable} made no progress for {job.timings.copy_quiet:.0f} s"
        why += "; it was ended, and is tried again"
        copying, actions = note_failure(job, copying._replace(taken=worker.number), why, now, True)
        return copying, [CutCopy(), *actions]
    if copying.taken == worker.number:
        return copying, []
    copying = copying._replace(taken=worker.number)
    if worker.code == 0:
        return copying._replace(failures=0, failing_since=None, is_told=False), []
    why = worker.why or f"its process ended with {worker.code}"
    text = f"the copy to {seen.durable} failed: {why}"
    return note_failure(job, copying, text, now, is_last or bool(NO_ROOM.search(text)))


def note_failure(
    job: Any, copying: Copying, text: str, now: float, at_once: bool
) -> tuple[Copying, list[Action]]:
    """Return what is told of a failure: by a message one that lasts, or `at_once`. Again after
    TELL_AGAIN, for a message may be lost, and a round with nothing to do may succeed between."""
    since = now if copying.failing_since is None else copying.failing_since
    is_told = copying.is_told or at_once or now - since >= job.timings.copy_quiet
    wait = TELL_AGAIN if copying.is_told else job.timings.notify_every
    is_due = copying.told_at is None or now - copying.told_at >= wait
    failures = copying.failures + 1
    actions: list[Action] = [NoteFailure(failures, text)]
    if is_told and is_due:
        actions, copying = [*actions, Tell("copy", text)], copying._replace(told_at=now)
    return copying._replace(failures=failures, failing_since=since, is_told=is_told), actions


def wants_round(job: Any, copying: Copying, seen: Seen, now: float) -> bool:
    """Return whether a round is due while the program trains: something new rests, or has changed
    for long enough."""
    if not job.durable.to or seen.worker.is_going or not is_due(job, copying, now):
        return False
    is_late = now - copying.started_at >= 4 * _wait_between(job, copying)
    return seen.rests or (seen.is_changed and is_late)


def is_due(job: Any, copying: Copying, now: float) -> bool:
    """Return whether enough time has passed since the last round."""
    return now >= due_at(job, copying)


def due_at(job: Any, copying: Copying) -> float:
    """Return when another round is due."""
    return copying.started_at + _wait_between(job, copying)


def begin(job: Any, copying: Copying, now: float) -> Copying:
    """Return copies of which a first round is due as soon as something rests."""
    return copying._replace(started_at=now - _wait_between(job, copying))


def _wait_between(job: Any, copying: Copying) -> float:
    """Return the seconds between two rounds; more of them while they fail."""
    return float(job.durable.every_minutes * 60 * min(2 ** max(copying.failures - 1, 0), 4))


def begin_round(copying: Copying, mode: str, seconds: float, now: float) -> tuple[Copying, Copy]:
    """Return a round that starts at this moment."""
    number = copying.number + 1
    return copying._replace(number=number, started_at=now), Copy(number, mode, seconds)


def finish(
    job: Any, copying: Copying, last: Last, seen: Seen, now: float
) -> tuple[Copying, Last, list[Action], bool | None]:
    """Return what the last copy needs at this moment, and whether all is verified; None while it
    goes on.

    It is tried until the deadline, until nothing but a person can help, or until tries have failed
    for `copy_quiet` seconds: then the run is unsaved, and the copy is owed. Once the run is asked
    to end, the try that goes on has SHORT seconds, or one last try has.
    """
    if not last.wait:
        last = last._replace(was_asked=bool(seen.asked), wait=job.timings.sync_wait, next_at=now)
    if seen.asked and not last.was_asked and last.hurried_at is None:
        last = last._replace(hurried_at=now)
    worker, is_own = seen.worker, 0 < last.number == seen.worker.number
    if worker.is_going:
        since = max(copying.started_at, last.hurried_at or copying.started_at)
        is_cut = last.hurried_at is not None and now >= since + SHORT
        if is_cut or seen.left <= 0:
            copying = copying._replace(taken=worker.number)
            return copying, last._replace(number=0), [CutCopy()], False if is_own else None
    was_taken = copying.taken == worker.number
    was_hung = worker.is_going and worker.still >= job.timings.copy_quiet and not was_taken
    copying, actions = watch_round(job, copying, seen, now, is_last=True)
    if worker.is_going and not was_hung:
        return copying, last, actions, None
    if is_own:
        if worker.code == 0:
            return copying, last, actions, True
        last, is_over = _after_failure(job, last, seen, was_hung, now)
        if is_over:
            return copying, last, actions, False
    if was_hung or (now < last.next_at and last.hurried_at is None):
        return copying, last, actions, None
    if seen.left <= 1:
        return copying, last, actions, False
    seconds = seen.left if last.hurried_at is None else min(seen.left, SHORT)
    mode = "whole" if last.is_whole else "full"
    copying, start = begin_round(copying, mode, seconds, now)
    return copying, last._replace(number=start.number), [*actions, start], None


def _after_failure(
    job: Any, last: Last, seen: Seen, was_hung: bool, now: float
) -> tuple[Last, bool]:
    """Return when the last copy is tried again, and whether it isn't."""
    why = "" if was_hung else seen.worker.why
    since = now if last.failing_since is None else last.failing_since
    last = last._replace(failing_since=since, number=0)
    is_over = (
        (seen.worker.code == ABSENT and not was_hung)
        or last.hurried_at is not None
        or bool(LASTING.search(why))
        or now - since >= job.timings.copy_quiet
    )
    if is_over or was_hung or why.startswith("differs"):
        return last._replace(next_at=now), is_over
    return last._replace(next_at=now + last.wait, wait=min(last.wait * 2, LONGEST_WAIT)), False


def pay_owed(
    copying: Copying, owed: Owed, seen: Seen, is_safe: bool, now: float
) -> tuple[Copying, Owed, list[Action]]:
    """Return a round that an end still owes, again and again until all of it is safe."""
    if seen.worker.is_going:
        is_late = owed.at is not None and now - owed.at > OWED_SECONDS
        return copying, owed, [CutCopy()] if is_late else []
    if is_safe or (owed.at is not None and now - owed.at < owed.wait):
        return copying, owed, []
    copying, start = begin_round(copying, "full", 0.0, now)
    wait = min(owed.wait * 2, OWED_MOST)
    return copying, Owed(now, wait, owed.tries + 1), [start]


def is_in_first_try(owed: Owed, now: float) -> bool:
    """Return whether a first copy after the end that goes on may still come through: nobody is
    woken, and no box ended, for what is there a moment later."""
    return owed.tries == 1 and owed.at is not None and now - owed.at < FIRST_TRY
