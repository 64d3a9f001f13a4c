"""What a run does next: one decision from what it was, what is seen of it, and the time.

Read it from top to bottom. `decide` takes one step of the table of phases at most. Whoever calls
it stores the state, does the actions in their order, looks again and asks again. An action may
fail, hang or be done twice: what came of it is seen, and never assumed.

`job` is what spec.py reads. `now` is in seconds, by a clock that only runs forward.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Tuple

from . import attempts, copying, ends, holding, resume, stop, watching
from .attempts import Tries
from .copying import Copying, Last
from .holding import Holding
from .model import (
    DEADLINE,
    Action,
    Begin,
    Check,
    Fetch,
    Kill,
    Mark,
    Note,
    NoteExit,
    Quarantine,
    Restore,
    Seen,
    SetAside,
    Stage,
    Start,
    Tell,
    Verdict,
)
from .phases import NEXT
from .resume import Doubt
from .stop import Window
from .supervise import KILL_SECONDS
from .watching import Watching

LONGEST_NAP = 600.0  # seconds between two decisions, whatever they say
ROUNDING = 0.001  # seconds by which a sum of times may miss the moment that it stands for
TAKEN_OVER = "another machine took this run over"


class State(NamedTuple):
    """Where a run is. `asked`: who asks for its end. `attempt`: the number of the last one;
    `source`: what it was given; `is_open`: its end wasn't judged yet. `retry_at`: when another one
    begins, on a full disk at `room_at` at the latest; or when what is refused is looked for again.
    `away_since`: since when the durable place, which alone has a complete checkpoint, doesn't
    answer. `doubt`: what was set aside after a crash.

    `is_refused`: a check spoke against the start, and nothing was begun.

    `outcome`: what the run came to, before its last copy, which `is_settled` once nothing more is
    expected of it; `verdict`, `code`, `again`: of that. `last_whole`: the newest complete
    checkpoint that was seen, '' for none.
    """

    phase: str = "new"
    asked: str = ""
    attempt: int = 0
    source: str = ""
    is_open: bool = False
    retry_at: float = 0.0
    room_at: float = 0.0
    away_since: float | None = None
    outcome: str = ""
    verdict: Verdict = Verdict()
    code: int | None = None
    again: str = ""
    is_settled: bool = False
    is_refused: bool = False
    last_whole: str = ""
    tries: Tries = Tries()
    doubt: Doubt = Doubt()
    window: Window = Window()
    watching: Watching = Watching()
    copying: Copying = Copying()
    holding: Holding = Holding()
    last: Last = Last()


Step = Tuple[State, List[Action]]


def is_over(state: State) -> bool:
    """Return whether nothing is left to do but what may follow an end: copies that are owed, and
    the end of the box."""
    return state.phase in ("done", "unsaved", "failed") or (
        state.phase == "preempted" and state.is_settled
    )


def take_up(
    state: State, lives: bool, has_left: bool, is_copying: bool, is_same_boot: bool
) -> State:
    """Return what a runner goes on with after one that was killed.

    `state`: as that stored it. `lives`, `has_left`: its program does, or has left its exit code.
    `is_copying`: its worker lives. Without its program the run begins again: a box that lost all
    its processes may lack more.
    """
    number = state.copying.number
    # What was told of copies that fail isn't told again; times are counted from the boot.
    copies = state.copying if is_same_boot else Copying(number)
    copies = copies._replace(taken=number - is_copying)
    kept = start_again(state)._replace(tries=state.tries, copying=copies)
    if state.outcome and not state.is_refused:  # its last copy begins again
        phase = state.phase if state.phase == "preempted" else "syncing"
        how_ended = {name: getattr(state, name) for name in ("outcome", "verdict", "code", "again")}
        return kept._replace(phase=phase, asked=state.asked, **how_ended)
    if state.phase in ("running", "saving") and (lives or has_left):
        if is_same_boot:
            return state._replace(copying=copies)
        if state.is_open:  # times are counted from the boot
            return kept._replace(
                phase=state.phase, asked=state.asked, source=state.source, is_open=True
            )
    if not lives:
        return kept
    # Nobody has asked it for a save, so it has its whole window, however late it is.
    return kept._replace(phase="preflight", window=Window(is_wide=True))


def start_again(state: State) -> State:
    """Return what another start begins with: of the one before it knows the last failure, and what
    became of the checkpoints."""
    return State(
        attempt=state.attempt,
        last_whole=state.last_whole,
        tries=Tries(last=state.tries.last),
        doubt=state.doubt,
    )


def decide(job: Any, state: State, seen: Seen, now: float) -> tuple[State, list[Action], float]:
    """Return the state after this moment, what to do, and when to ask again at the latest."""
    state, is_late = _note_request(job, state, seen, now)
    after, actions = _STEPS[state.phase](job, state, seen, now, is_late)
    if after.phase != state.phase:
        return after, actions, now
    return after, actions, _wake_at(job, after, seen, now)


def _note_request(job: Any, state: State, seen: Seen, now: float) -> tuple[State, bool]:
    """Note who asks for an end first, and return whether the deadline is over."""
    window, place = stop.look_at_deadline(state.window, seen.left, seen.save_seconds, now)
    asked = state.asked or seen.asked or stop.who_asks(place, seen.notice)
    asked = asked or (TAKEN_OVER if seen.has_lost_lease else "")
    last = seen.folder.whole.path if seen.folder.whole else state.last_whole
    if (window, asked, last) != (state.window, state.asked, state.last_whole):
        state = state._replace(window=window, asked=asked, last_whole=last)
    return state, place == stop.OVER


# Before the program.


def _begin(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    return _move(state, "start"), [Begin()]


def _check(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    if seen.is_alive:  # what was known of it was lost, and it goes on
        state = state._replace(attempt=seen.attempt, is_open=True, watching=watching.begin(now))
        return _move(state, "program found alive"), []
    if seen.marked in ("unsaved", "done"):  # its copy may have come through a moment ago
        return _move(state._replace(outcome="done"), "only the copy is owed"), []
    if state.asked:
        return _end(state, attempts.judge_asked(job, state.asked))
    if seen.refusals is None:
        return state, [Check()]
    if seen.refusals and seen.settles > 0:
        if not state.retry_at:
            wait = Note("boot", seen.refusals[0].reason)
            return state._replace(retry_at=now + job.timings.settle_wait), [wait]
        again = now >= state.retry_at
        return (state._replace(retry_at=0.0), [Check()]) if again else (state, [])
    if seen.refusals:
        state = state._replace(verdict=seen.refusals[0], outcome="failed", is_refused=True)
        state = _move(state, "failed")
        return state, [Mark("failed"), Tell("end", seen.refusals[0].reason)]
    return _move(state._replace(retry_at=0.0), "ready"), []


def _stage(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    if state.asked:
        return _end(state, attempts.judge_asked(job, state.asked))
    if seen.staged is None:
        return state, [Stage()]
    if seen.staged.failure:
        return _end(state, seen.staged)
    state, actions, then = _hold_before_attempt(job, state, seen, now)
    return _then_start(job, state, actions, then, seen, now)


def _hold_before_attempt(
    job: Any, state: State, seen: Seen, now: float
) -> tuple[State, list[Action], holding.Then]:
    """Hold what is complete here alone, before another attempt may write over it."""
    progress, copies, actions, then = holding.hold_before_attempt(
        job, state.holding, state.copying, seen, now
    )
    if then == holding.WAIT and state.holding.since is None:
        what = f"for a copy of {seen.unheld[0]}, which another attempt could write over"
        actions = [Note("hold", what), *actions]
    return state._replace(holding=progress, copying=copies), actions, then


def _then_start(
    job: Any, state: State, actions: list[Action], then: holding.Then, seen: Seen, now: float
) -> Step:
    if then == holding.WAIT:
        return state, actions
    state, more = _end(state, then) if isinstance(then, Verdict) else _start(job, state, seen, now)
    return state, [*actions, *more]


def _start(job: Any, state: State, seen: Seen, now: float) -> Step:
    """Begin an attempt from the best checkpoint that can be reached."""
    if resume.wants_fetch(job, seen.folder) and not seen.is_fetched:
        return state, [Fetch()]
    if seen.fetch.failure and seen.folder.whole is None:
        return _wait_for_place(job, state, seen, now)
    number = state.attempt + 1
    first = seen.is_first_node
    found = resume.choose_source(job, seen.folder, number, bool(state.last_whole), first)
    if isinstance(found, resume.Lost):
        return _end(state, found.verdict)
    copies = state.copying if state.attempt else copying.begin(job, state.copying, now)
    state = _move(state, "again" if state.phase == "running" else "ready")._replace(
        attempt=number,
        copying=copies,
        source=found.source,
        away_since=None,
        is_open=True,
        verdict=Verdict(),
        again="",
        code=None,
        watching=watching.begin(now),
        holding=Holding(number=state.holding.number, taken=state.holding.number),
    )
    moved: list[Action] = [Quarantine(path) for path in found.quarantined]
    return state, [*moved, Start(number, found.source, found.note)]


def _wait_for_place(job: Any, state: State, seen: Seen, now: float) -> Step:
    """Ask the durable place again, between two attempts; before the first one somebody is there."""
    since = now if state.away_since is None else state.away_since
    is_lost = seen.fetch.failure != "network"  # it answered, and has nothing complete
    if is_lost or not state.attempt or now - since >= job.timings.place_wait:
        return _end(state, seen.fetch)
    messages = [Tell("place", seen.fetch.reason)] if state.away_since is None else []
    state = state._replace(away_since=since, retry_at=now + job.timings.place_again)
    return state, [*messages, Fetch()]


# While there is a program.


def _train(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    """Watch an attempt, or wait for the next one."""
    if state.asked:
        return _move(state, "asked"), []
    if not state.is_open:
        state, actions, then = _hold_before_attempt(job, state, seen, now)
        is_early = not is_due(state, seen.is_full, now) and not isinstance(then, Verdict)
        return _then_start(job, state, actions, holding.WAIT if is_early else then, seen, now)
    if seen.attempt < state.attempt:  # whoever was to start it died before
        state, actions, then = _hold_before_attempt(job, state, seen, now)
        if then == holding.WAIT:
            return state, actions
        if isinstance(then, Verdict):
            state, more = _end(state, then)
            return state, [*actions, *more]
        return state, [*actions, Start(state.attempt, state.source)]
    if not seen.is_alive:
        return _judge_attempt(job, state, seen, now)
    copies, actions = copying.watch_round(job, state.copying, seen, now)
    if copying.wants_round(job, copies, seen, now):
        copies, start = copying.begin_round(copies, "quick", 0.0, now)
        actions = [*actions, start]
    watch, more = watching.watch_program(job, state.watching, "", seen, now)
    return state._replace(copying=copies, watching=watch), [*actions, *more]


def is_due(state: State, is_full: bool, now: float) -> bool:
    """Return whether the wait before the next attempt is over. `is_full`: a disk has no room."""
    return now >= state.retry_at and not (is_full and now < state.room_at)


def _save(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    """Let the program save, and end it."""
    if not state.is_open or seen.attempt < state.attempt:
        return _end(state, attempts.judge_asked(job, state.asked))
    if not seen.is_alive:
        return _judge_attempt(job, state, seen, now)
    if is_late:
        if state.window.end is not None and now >= state.window.end + KILL_SECONDS:
            return _end(state, attempts.judge_asked(job, DEADLINE))  # it hangs in the kernel
        return state, [Kill(DEADLINE, DEADLINE)]
    copies, actions = copying.watch_round(job, state.copying, seen, now)
    watch, more = watching.watch_program(job, state.watching, state.asked, seen, now)
    return state._replace(copying=copies, watching=watch), [*actions, *more]


def _judge_attempt(job: Any, state: State, seen: Seen, now: float) -> Step:
    """Judge how an attempt ended: another one, or the end of the run."""
    if seen.exit is None:
        return state, []
    ended, saved = seen.exit, state.watching.checkpoint
    if saved and saved != ended.began:  # whatever became of it: a full disk tears what it goes over
        ended = ended._replace(has_saved=True)
    tries, verdict, is_by_itself = attempts.judge_attempt(
        job, state.tries, ended, state.asked, state.watching.stalled, seen.nan
    )
    if is_by_itself and not seen.has_lost_lease:
        state = state._replace(asked="")
    state = state._replace(verdict=verdict, code=ended.code, is_open=False)
    actions: list[Action] = [NoteExit(verdict)]
    if verdict.failure and not state.asked:
        do = resume.doubt_checkpoint(job, verdict, ended, state.doubt)
        if do == resume.MOVE:
            doubt = Doubt(resume.path_of(ended.newest), ended.older)
            state = state._replace(tries=tries, doubt=doubt, retry_at=now, room_at=now)
            return state, [*actions, SetAside(*doubt)]
        actions += [Restore(state.doubt.path)] if do == resume.RESTORE else []
    tries, then = attempts.after_exit(job, tries, verdict, ended, state.asked, now)
    state = state._replace(tries=tries)
    if isinstance(then, attempts.Over):
        state, more = _end(state._replace(code=then.code, again=then.again), then.verdict)
        return state, [*actions, *more]
    actions[0] = NoteExit(verdict, then.wait)
    if seen.is_full and then.for_room > 0:
        actions.append(Tell("room", "no room left: waiting for it"))
    return state._replace(retry_at=now + then.wait, room_at=now + then.for_room), actions


# After the program.


def _end(state: State, verdict: Verdict) -> Step:
    """Note what the run came to; its last copy follows."""
    outcome = ends.outcome_of(verdict)
    state = state._replace(
        outcome=outcome, verdict=verdict, is_open=False, is_settled=False, last=Last()
    )
    if outcome == "preempted":
        # Its box may go at any moment, so its marker comes before the last copy.
        return _move(state, "asked"), [Mark("preempted")]
    return _move(state, "ended" if outcome == "done" else "failed"), []


def _copy(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    """Copy all for the last time."""
    state, actions = _settle(job, state, seen, now)
    if not state.is_settled:
        return state, actions
    state = _move(
        state, {"done": "verified", "unsaved": "not verified"}.get(state.outcome, "failed")
    )
    return state, [*actions, Mark(state.phase), Tell("end", state.verdict.reason)]


def _settle(job: Any, state: State, seen: Seen, now: float) -> Step:
    """Go on with the last copy; once it is over, the state says what the run came to."""
    is_verified, actions = True, []
    if job.durable.to:
        last = state.last._replace(is_whole=state.outcome == "done")
        copies, last, actions, found = copying.finish(job, state.copying, last, seen, now)
        state = state._replace(copying=copies, last=last)
        if found is None:
            return state, actions
        is_verified = found
    unverified = f"the last copy to {seen.durable} is not verified"
    outcome, verdict = ends.after_last_copy(state.outcome, state.verdict, is_verified, unverified)
    return state._replace(outcome=outcome, verdict=verdict, is_settled=True), actions


def _leave(job: Any, state: State, seen: Seen, now: float, is_late: bool) -> Step:
    """Copy all of a run that was asked to end. Its box may go meanwhile: it is marked before."""
    actions: list[Action] = [] if seen.marked == state.phase else [Mark(state.phase)]
    if seen.is_alive and state.attempt:  # whoever was to kill it died before
        actions.append(Kill(DEADLINE, state.asked))
    state, more = _settle(job, state, seen, now)
    actions += more
    if state.is_settled:
        actions.append(Mark(state.phase))
        actions += [Tell("over", DEADLINE)] if state.verdict.failure == DEADLINE else []
    return state, actions


_STEPS: dict[str, Callable[[Any, State, Seen, float, bool], Step]] = {
    "new": _begin,
    "preflight": _check,
    "staging": _stage,
    "running": _train,
    "saving": _save,
    "syncing": _copy,
    "preempted": _leave,
}


def _move(state: State, on: str) -> State:
    """Return the state in its next phase. Raises KeyError for a step that isn't in the table."""
    return state._replace(phase=NEXT[state.phase, on])


def _wake_at(job: Any, state: State, seen: Seen, now: float) -> float:
    """Return when to decide again although nothing that is seen has changed."""
    beat = now + job.timings.heartbeat
    times = [
        now + LONGEST_NAP,
        now + seen.left,
        now + seen.left + job.at_end.unproven_minutes * 60,
        state.window.end or 0.0,
        (state.window.end or 0.0) + KILL_SECONDS,
        state.watching.request.kill_at,
        state.retry_at,
        state.room_at,
        state.last.next_at,
        *holding.wakes(job, state.holding, state.copying),
    ]
    if state.phase in ("saving", "syncing") or seen.worker.is_going or seen.is_changed:
        times.append(beat)
    if state.window.end is None:
        times.append(now + seen.left - 2 * seen.save_seconds + ROUNDING)
    limits = job.stall
    if state.phase == "running" and seen.is_alive:
        is_watched = limits.log_minutes or limits.step_minutes or limits.idle_power_minutes
        times += [beat] if is_watched else []
    if seen.is_alive and state.phase not in ("running", "saving"):
        times.append(now + stop.KILL_AGAIN)
    if seen.is_changed and not seen.worker.is_going:
        times.append(copying.due_at(job, state.copying))
    return min(at for at in times if at > now)
