"""What the supervisor does next: raise a runner that is gone, ask for a save, end the run at its
deadline, copy what is owed, end the box.

As in decide.py: it is given what it was, what is seen and the time, and what came of an action is
seen, and never assumed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from . import copying, stop
from .box import Box, End, end_box, is_all_kept
from .copying import Copying, Owed
from .model import (
    DEADLINE,
    AboutRunner,
    Action,
    Ask,
    AwaitSave,
    CutCopy,
    Kill,
    Mark,
    Seen,
    Signal,
    Tell,
    Verdict,
)
from .stop import Request, Window, look_at_deadline, who_asks

MOST_RAISES = 5  # of a runner that comes no further
HEARS = 2.0 + stop.STILL  # seconds for a runner to hear a request, and to look for a save
TELL_AGAIN = 3600.0  # seconds at most until an end is told again
MARK_AGAIN = 60.0  # seconds between two tries to leave a marker
KILL_SECONDS = 4.0  # after the program was killed, for its runner to come to an end
RAISE, KILL, GIVE_UP = "raise", "kill", "give up"
LIVES_ON = "it lives on after its run was ended"
HOPELESS = Verdict(
    "unknown",
    "",
    f"its runner ended {MOST_RAISES} times without a word; rgt pull BOX log/runner.log may"
    " tell why",
)


class Runner(NamedTuple):
    """What is seen of it. `beat`: its newest heartbeat, and `age`: how old that is, in seconds;
    None for none. `came_to`: changes whenever the run comes further. `has_program`: that lives.
    `has_heard`: it serves a request."""

    is_alive: bool = False
    beat: float | None = None
    age: float | None = None
    came_to: str = ""
    has_program: bool = False
    has_heard: bool = False


class Raises(NamedTuple):
    """`gone_since`, `raised_at`: None for never. `count`: raises since it last came further, to
    `came_to`. `beat`: the heartbeat that was seen last, first at `beat_at`."""

    gone_since: float | None = None
    raised_at: float | None = None
    count: int = 0
    came_to: str = ""
    beat: float = 0.0
    beat_at: float = 0.0


class Leaving(NamedTuple):
    """What is left to do after an end: copies, those that are owed, and the box. `told_at`: when
    the end was told, None for never."""

    copying: Copying = Copying()
    owed: Owed = Owed()
    box: Box = Box()
    told_at: float | None = None


class SupervisorState(NamedTuple):
    """What the supervisor remembers. `why`: who asked for a save, first at `asked_at`; `request`:
    that to a program whose runner doesn't hear. `killed_at`: the program, by the deadline or after
    the end; `marked_at`: when an end was noted then, as far as the disk let it."""

    window: Window = Window()
    raises: Raises = Raises()
    why: str = ""
    asked_at: float = 0.0
    request: Request = Request()
    killed_at: float | None = None
    marked_at: float | None = None
    leaving: Leaving = Leaving()


def supervise(
    job: Any, state: SupervisorState, runner: Runner, end: End, seen: Seen, now: float
) -> tuple[SupervisorState, list[Action], bool]:
    """Return the state after this moment, what to do, and whether nothing is left to do.

    `end`: the run's marker; none as long as a runner lives.
    """
    window, place = look_at_deadline(state.window, seen.left, seen.save_seconds, now)
    state = state._replace(window=window)
    if place != stop.OVER and not end.name:
        state = state._replace(killed_at=None, marked_at=None)
        return (*_watch(job, state, runner, place, seen, now), False)
    if place == stop.OVER and not end.name and state.marked_at is None:
        return (*_end_run(state, runner, now), False)
    late = max(-seen.left, 0.0) if place == stop.OVER else -1.0
    leaving, actions, is_over = leave(job, state.leaving, end, late, seen, now)
    state = SupervisorState(
        window, killed_at=state.killed_at, marked_at=state.marked_at, leaving=leaving
    )
    if not end.name and state.marked_at is not None and now >= state.marked_at + MARK_AGAIN:
        state, actions = state._replace(marked_at=now), [Mark(""), *actions]
    lives_on = runner.has_program and end.name in ("", "preempted")
    if lives_on and (state.killed_at is None or now >= state.killed_at + stop.KILL_AGAIN):
        state, actions = state._replace(killed_at=now), [Kill(DEADLINE, LIVES_ON), *actions]
    # A disk that takes no marker may have room yet; nobody waits for that for ever.
    is_over = is_over and (bool(end.name) or late >= job.at_end.unproven_minutes * 60)
    return state, actions, is_over and not lives_on


def _watch(
    job: Any, state: SupervisorState, runner: Runner, place: str, seen: Seen, now: float
) -> tuple[SupervisorState, list[Action]]:
    """See that there is a runner, and that somebody serves a request."""
    raises, do = watch_runner(job, state.raises, runner, now)
    actions: list[Action] = [AboutRunner(do)] if do else []
    state = state._replace(raises=raises, leaving=Leaving())
    why = state.why or who_asks(place, seen.notice)
    if seen.notice and state.why and not stop.is_short(state.why):
        why = seen.notice  # whoever asked before gave more time
    if why != state.why:
        return state._replace(why=why, asked_at=now, request=Request()), [*actions, Ask(why)]
    # A runner that serves somebody else never hears of a notice.
    is_served = runner.has_heard and not stop.is_short(why)
    is_unheard = not runner.is_alive or (not is_served and now >= state.asked_at + HEARS)
    if state.why and is_unheard and seen.is_alive and not seen.is_signalled:
        request, step = stop.serve(job, state.request, state.why, seen, now)
        state = state._replace(request=request)
        if step == stop.SIGNAL:
            actions.append(Signal(state.why))
        elif step == stop.WAIT:
            actions.append(AwaitSave(seen.save.path))
    return state, actions


def _end_run(
    state: SupervisorState, runner: Runner, now: float
) -> tuple[SupervisorState, list[Action]]:
    """Kill the program at the deadline; the runner has a moment to say what it came to."""
    if state.killed_at is None:
        return state._replace(killed_at=now), [Kill(DEADLINE, DEADLINE), CutCopy()]
    if runner.is_alive and now < state.killed_at + KILL_SECONDS:
        return state, []
    # One between two attempts may just have started a program.
    kill: list[Action] = [AboutRunner(KILL), Kill(DEADLINE, "")] if runner.is_alive else []
    return state._replace(marked_at=now), [*kill, Mark("")]


def leave(
    job: Any, leaving: Leaving, end: End, late: float, seen: Seen, now: float
) -> tuple[Leaving, list[Action], bool]:
    """Return what is owed after an end: word of it, copies, and the end of the box; and whether
    nothing is.

    `late`: seconds since the deadline, below 0 before it. Where nothing else is left to do, word
    and copies that are owed are tried until the deadline and its limit for a proof.
    """
    is_safe = is_all_kept(job, end.name, seen.kept)
    actions: list[Action] = []
    # Who was to tell it may have died before.
    is_due = leaving.told_at is None or now - leaving.told_at >= tell_again(job, late)
    if end.owes_word and is_due and not seen.has_quiet:
        leaving, actions = leaving._replace(told_at=now), [Tell("end", end.reason)]
    if job.durable.to:
        copies, owed, more = copying.pay_owed(leaving.copying, leaving.owed, seen, is_safe, now)
        leaving, actions = leaving._replace(copying=copies, owed=owed), [*actions, *more]
        is_going = seen.worker.is_going or bool(more)
        if is_going and not is_safe and copying.is_in_first_try(owed, now):
            return leaving, actions, False
    box, more, is_over = end_box(job, leaving.box, end, late, is_safe, seen, now)
    is_owed = end.owes_word or (bool(job.durable.to) and not is_safe and not end.is_refused)
    is_owed = is_owed and not seen.has_quiet and late < job.at_end.unproven_minutes * 60
    return leaving._replace(box=box), [*actions, *more], is_over and not is_owed


def tell_again(job: Any, late: float) -> float:
    """Return the seconds until an end is told again of which nothing shows that it was told: past
    the deadline more than once before nobody is left to tell it. `late`: as `leave` takes it."""
    soon = max(job.at_end.unproven_minutes * 60 / 3, MARK_AGAIN)
    return TELL_AGAIN if late < 0 else min(TELL_AGAIN, soon)


def watch_runner(job: Any, raises: Raises, seen: Runner, now: float) -> tuple[Raises, str]:
    """Return RAISE, KILL, GIVE_UP, or '' for nothing.

    A clock that jumped makes a heartbeat look old: it must also stand still for as long. Each time
    that a raised runner comes no further it is given twice as long. While its program lives
    nothing is given up: it may still come to its end.
    """
    timings = job.timings
    if seen.is_alive:
        raises = raises._replace(gone_since=None)
        if seen.beat is None or seen.age is None or seen.age <= timings.hung:
            return raises, ""
        if seen.beat != raises.beat:
            raises = raises._replace(beat=seen.beat, beat_at=now)
        return raises, KILL if now - raises.beat_at > timings.hung else ""
    since = now if raises.gone_since is None else raises.gone_since
    raises = raises._replace(gone_since=since)
    wait = timings.raise_after * 2 ** min(raises.count, 5)
    is_early = raises.raised_at is not None and now - raises.raised_at < wait
    if now - since < timings.raise_after or is_early:
        return raises, ""
    is_no_further = raises.count > 0 and seen.came_to == raises.came_to
    count = raises.count + 1 if is_no_further else 1
    raises = raises._replace(raised_at=now, count=count, came_to=seen.came_to)
    return raises, GIVE_UP if count > MOST_RAISES and not seen.has_program else RAISE
