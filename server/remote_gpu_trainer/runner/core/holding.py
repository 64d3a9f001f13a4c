"""What is complete here and nowhere else is held before another attempt may write over it.

Many programs save in place, and many that are started again begin at 0 although their job says that
they resume: then the first save of the new attempt would go over the only complete one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Union

from ..failures import entry_of
from . import copying
from .copying import Copying
from .model import Action, Hold, Seen, Tell, Verdict

COPY_SECONDS = 60.0  # for a copy to the durable place; then it is held on this box
HOLD_SECONDS = 600.0  # for a copy on this box of what the program is to resume from
AGAIN = 60.0  # seconds between two tries, of a copy and of a hold
READY, WAIT = "ready", "wait"


class Holding(NamedTuple):
    """`since`: when an attempt began to wait for it, None while none does. `round`: of the copies
    that was begun for it, 0 for none. `number`: of holds on this box; `taken`: the last one whose
    end was judged; `at`: when it began; `next_at`: of the next one. `is_told`: that it failed."""

    since: float | None = None
    round: int = 0
    number: int = 0
    taken: int = 0
    at: float = 0.0
    next_at: float = 0.0
    is_told: bool = False


Then = Union[str, Verdict]


def hold_before_attempt(
    job: Any, holding: Holding, copies: Copying, seen: Seen, now: float
) -> tuple[Holding, Copying, list[Action], Then]:
    """Return what is due before another attempt, and whether that is READY to begin or has to WAIT;
    a verdict where none may begin.

    First a copy to the durable place has COPY_SECONDS; then it is held on this box. Where that
    fails too, an attempt begins all the same if the job says that its program resumes: by the job's
    words it goes on from there. Any other program would begin at 0, so its run waits for room, as
    it does on a full disk, or for a copy that gets on, and then ends with what it has.
    """
    if not seen.unheld:
        return Holding(number=holding.number, taken=holding.taken), copies, [], READY
    since = now if holding.since is None else holding.since
    holding = holding._replace(since=since)
    actions: list[Action] = []
    is_copying = False
    if job.durable.to:
        copies, actions = copying.watch_round(job, copies, seen, now)
        is_idle = not seen.worker.is_going
        if is_idle and (not holding.round or now >= copies.started_at + AGAIN):
            copies, start = copying.begin_round(copies, "quick", 0.0, now)
            holding, actions = holding._replace(round=start.number), [*actions, start]
        is_copying = seen.worker.is_going or seen.worker.number < holding.round
    if is_copying and now - since < COPY_SECONDS:
        return holding, copies, actions, WAIT
    holding, more, then = _hold_here(job, holding, seen, is_copying, now)
    return holding, copies, [*actions, *more], then


def _hold_here(
    job: Any, holding: Holding, seen: Seen, is_copying: bool, now: float
) -> tuple[Holding, list[Action], Then]:
    """Return what is due to hold it on this box, by one try after another."""
    resumes, worker = job.resume != "none", seen.hold_worker
    actions: list[Action] = []
    if holding.taken < holding.number:
        if worker.number < holding.number:  # whoever was to begin it died before
            return holding, [Hold(holding.number)], WAIT
        if worker.code is None:
            is_late = resumes and now - holding.at >= HOLD_SECONDS
            return holding, [], READY if is_late else WAIT
        holding = holding._replace(taken=holding.number, next_at=now + AGAIN)
        if not holding.is_told:
            holding, actions = holding._replace(is_told=True), [_tell(job, seen)]
    has_failed = holding.is_told
    if has_failed and resumes and now < holding.next_at:  # later there may be room again
        return holding, actions, READY
    is_stuck = not resumes and (not is_copying or seen.worker.still >= job.timings.copy_quiet)
    if has_failed and is_stuck and now - (holding.since or 0.0) >= job.timings.room_wait:
        return holding, actions, Verdict("disk", entry_of(job, "disk"), _say_lost(seen))
    if now >= holding.next_at:
        holding = holding._replace(number=holding.number + 1, at=now)
        actions = [*actions, Hold(holding.number)]
    return holding, actions, WAIT


def wakes(job: Any, holding: Holding, copies: Copying) -> list[float]:
    """Return when something is due for what waits."""
    if holding.since is None:
        return []
    limits = COPY_SECONDS, job.timings.room_wait
    times = [holding.since + seconds for seconds in limits]
    return [*times, copies.started_at + AGAIN, holding.next_at, holding.at + HOLD_SECONDS]


def _tell(job: Any, seen: Seen) -> Tell:
    then = "the next attempt waits for it; make room there, or copy it yourself"
    if job.resume != "none":
        then = "the next attempt begins all the same, for the job says that its program resumes"
    return Tell("hold", f"{_say_alone(seen)}: {then}")


def _say_alone(seen: Seen) -> str:
    what, why = (
        seen.unheld[0],
        seen.hold_worker.why or f"its process ended with {seen.hold_worker.code}",
    )
    where = f", not at {seen.durable}," if seen.durable else ""
    return f"{what} lies here alone{where} and can't be held while another attempt runs ({why})"


def _say_lost(seen: Seen) -> str:
    return (
        f"{_say_alone(seen)}, and the job says that its program begins anew: no attempt writes over"
        " it; make room, or copy it yourself, and start the run again"
    )
