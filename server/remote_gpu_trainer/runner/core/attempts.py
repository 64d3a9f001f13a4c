"""After an attempt: another one, or the end of the run, and why there is none."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import failures
from ..failures import entry_of
from .ends import outcome_of
from .model import DEADLINE, Exit, Verdict

LONGEST_WAIT = 300.0  # seconds for a network to come back, before another attempt
HOUR = 3600.0


class Original(NamedTuple):
    """The first failure of a chain of attempts that came no further."""

    failure: str = ""
    entry: str = ""
    reason: str = ""
    code: int | None = None
    newest: str = ""
    step: int | None = None


class Tries(NamedTuple):
    """What the attempts of a run came to so far.

    `used`: (class, retries) since one came further. `best`: the furthest step at which one has
    saved or failed. `failed`: how many failed after they had trained. `at`: when each ended.
    `last`: class, step and newest checkpoint of the last one, across all starts of the run.
    `began`: the checkpoint that the last one was given. `short_at`: the step at which one ended
    with 0 too early; -1 for none.
    """

    PARTS = {"first": Original}

    used: tuple[tuple[str, int], ...] = ()
    best: int | None = None
    failed: int = 0
    at: tuple[float, ...] = ()
    first: Original | None = None
    last: str = ""
    began: str = ""
    short_at: int | None = -1


class Again(NamedTuple):
    """Another attempt follows, after `wait` seconds; on a full disk once it has room, or after
    `for_room` seconds."""

    wait: float
    for_room: float


class Over(NamedTuple):
    """No other attempt follows. `code`: of the program, as it is told. `again`: why another start
    would fail too, one of failures.AGAIN, '' where nothing was tried."""

    verdict: Verdict
    code: int | None
    again: str


def judge_attempt(
    job: Any, tries: Tries, ended: Exit, asked: str, stalled: str, nan: str
) -> tuple[Tries, Verdict, bool]:
    """Return what an attempt came to, and whether it came to its end although it was asked to.

    `stalled`, `nan`: why it counted as stalled, and what is told of its losses; '' for neither.
    """
    if ended.again is not None:
        return tries, ended.evidence, outcome_of(ended.evidence) != "preempted"
    has_come = not ended.missing and bool(ended.owed)
    by_itself = ended.code == 0 and not stalled and (not asked or has_come)
    if ended.code == 0 and not ended.missing and ended.corrupt:
        reason = f"the program ended, but a result is broken: {ended.corrupt[0]}"
        return tries, Verdict("bug", "", reason), False
    if by_itself:
        is_gained, is_again = ended.newest != ended.began, tries.short_at == ended.step
        verdict = judge_zero_exit(job, ended, is_gained, is_again)
        if verdict.failure == "killed":
            tries = tries._replace(short_at=ended.step)
        if not verdict.failure and ended.remark:
            verdict = verdict._replace(reason=ended.remark)
    elif not asked and ended.unstarted:
        return tries, Verdict("setup", "", ended.unstarted), False
    elif stalled:
        verdict = Verdict("stall", entry_of(job, "stall"), stalled)
    elif asked:
        verdict = judge_asked(job, asked, ended.is_timelimit)
    else:
        verdict = ended.evidence
    if nan and job.on_nan == "stop" and (by_itself or not asked):
        return tries, Verdict("nan", "", nan), by_itself
    if nan and nan not in verdict.reason:
        verdict = verdict._replace(reason="; ".join(filter(None, (verdict.reason, nan))))
    return tries, verdict, by_itself


def judge_asked(job: Any, asked: str, is_timelimit: bool = False) -> Verdict:
    """Return what a run came to that was asked to end."""
    kind = "timelimit" if is_timelimit else "preempted"
    return Verdict("deadline" if asked == DEADLINE else "preempted", entry_of(job, kind), asked)


def judge_zero_exit(job: Any, ended: Exit, is_gained: bool, is_again: bool) -> Verdict:
    """Return what an end with 0 came to; class '' where all that is expected is there.

    Without its results, before its final step, or saying that a signal ended it, the program was
    cut short: many trainers end with 0 after a save. `is_gained`: there is a newer checkpoint. A
    program that saved, and whose output tells no step at all, can't be held to a final one.
    `is_again`: an attempt was cut short at this very step before; then what the log says of
    signals is no sign of one.
    """
    short, step, final = "", ended.step, job.final_step
    if ended.missing:
        short = f"without {ended.missing[0]}"
    elif final and (step or 0) < final and not (step is None and is_gained):
        short = f"at step {'none' if step is None else step} of {final}"
    elif not final and not job.results and ended.is_signalled:
        short, is_gained = "after a signal from outside", True
    if not short:
        return Verdict()
    if is_gained and not is_again:
        return Verdict("killed", entry_of(job, "killed"), f"cut short: it ended with 0 {short}")
    if ended.missing:
        return Verdict("bug", "", _say_missing(ended))
    return Verdict("bug", "", f"it ended with 0 {short}") if final else Verdict()


def _say_missing(ended: Exit) -> str:
    first = ended.missing[0]
    reason = (
        f"the program ended, but {len(ended.missing)} expected files are missing, first {first}"
    )
    if not ended.stale:
        return reason
    return (
        f"{reason}; {ended.stale[0]} is from before this run and was not written again"
        " (touch it if it is the result)"
    )


def after_exit(
    job: Any, tries: Tries, verdict: Verdict, ended: Exit, asked: str, now: float
) -> tuple[Tries, Again | Over]:
    """Return what follows an attempt that came to `verdict`. `asked`: who asked for an end."""
    failure = verdict.failure
    if not failure:
        return tries._replace(last=""), Over(verdict, ended.code, "")
    if asked or ended.again is not None:
        return tries, _over(tries, verdict, ended.code, "", ended.again or "")
    tries = tries._replace(first=_original(tries.first, verdict, ended))
    has_newer = bool(ended.newest) and ended.newest != ended.began
    reach = ended.saved_step if has_newer and ended.saved_step else ended.step
    # What lies between two attempts with the same beginning was of no use to the second.
    is_back = ended.is_anew or bool(ended.began and ended.began == tries.began)
    is_beyond = is_further(tries.best, reach, is_back)
    came_further = (has_newer or ended.has_copied or ended.has_saved) and is_beyond
    best = tries.best
    tries = tries._replace(best=max(best or 0, reach or 0), began=ended.began)
    if came_further:  # progress gives retries back
        tries = tries._replace(used=())
    is_peers = failure == "network" and job.nodes > 1  # the other node's failure
    if failure != "preempted" and not is_peers:
        last = f"{failure} {'none' if ended.step is None else ended.step} {ended.newest}"
        is_same, tries = last == tries.last, tries._replace(last=last)
        if is_same:
            more = "; the same failure at the same step twice, with no newer checkpoint between"
            return tries, _over(tries, verdict, ended.code, more, failures.TWICE)
    is_again = failure != "preempted" and tries.failed and not is_beyond
    # Before its first step a program loses nothing by another try.
    if is_again and ended.is_anew and reach:
        more = "; it begins anew at each attempt, and failed again"
        more += f" before it was further than step {best}" if best else ""
        return tries, _over(tries, verdict, ended.code, more, failures.ANEW)
    count = tries.failed + (failure != "preempted" and bool(reach))
    tries = tries._replace(failed=count, at=tuple(at for at in (*tries.at, now) if now - at < HOUR))
    if len(tries.at) > job.timings.tries_an_hour:
        more = f"; {job.timings.tries_an_hour} tries within an hour"
        return tries, _over(tries, verdict, ended.code, more, failures.USED_UP)
    used, most = dict(tries.used), _most_retries(job, failure, ended.code, came_further)
    used[failure] = used.get(failure, 0) + 1
    tries = tries._replace(used=tuple(sorted(used.items())))
    if used[failure] > most:
        more = f"; {most} retries are used up" if most else ""
        return tries, _over(tries, verdict, ended.code, more, failures.USED_UP if most else "")
    return tries, Again(
        _wait(job, failure, used[failure]), job.timings.room_wait if failure == "disk" else 0.0
    )


def is_further(best: int | None, reach: int | None, is_back: bool) -> bool:
    """Return whether an attempt that saved came further than all before it.

    `is_back`: it began where the one before had begun. Where no step is known, a newer checkpoint
    shows that it came further, unless it did so.
    """
    if best is None:
        return True
    if reach is None or not best:
        return not is_back
    return reach > best


def _most_retries(job: Any, failure: str, code: int | None, came_further: bool) -> int:
    """Return how often this class is tried again: as the job says, else as the table says."""
    if failure == "bug" and code == 0:
        return 0  # an end that came too early was tried again as one that was killed
    if came_further and failure in failures.MAY_PASS and failure not in job.retries:
        return 1
    return int(job.retries.get(failure, failures.RETRIES.get(failure, 0)))


def _wait(job: Any, failure: str, used: int) -> float:
    if failure == "preempted":
        return 0.0
    wait = float(job.timings.retry_wait)
    return min(wait * 4 * used, LONGEST_WAIT) if failure == "network" else wait


def _original(first: Original | None, verdict: Verdict, ended: Exit) -> Original | None:
    """Return the failure that a retry must not hide: the first since one came further."""
    if verdict.failure == "preempted" or ended.code == 0:
        return first
    if first and (ended.step or 0) <= (first.step or 0) and ended.newest == first.newest:
        return first
    return Original(*verdict, ended.code, ended.newest, ended.step)


def _over(tries: Tries, verdict: Verdict, code: int | None, more: str, again: str) -> Over:
    """Return the end of a run; a retry that fails in another way must not hide why the run failed
    at first."""
    verdict, first = verdict._replace(reason=verdict.reason + more), tries.first
    if not first or verdict.failure in ("", "preempted", "deadline", first.failure):
        return Over(verdict, code, again)
    entry = f" ({verdict.entry})" if verdict.entry else ""
    reason = f"{first.reason}; then {verdict.failure}{entry}: {verdict.reason}"
    return Over(Verdict(first.failure, first.entry, reason), first.code, again)
