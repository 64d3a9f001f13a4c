"""A request to save and end: when it comes, how long it waits for a save, when it kills."""

from __future__ import annotations

from typing import Any, NamedTuple

from .model import DEADLINE, Seen

LEAST_WAIT = 60.0  # seconds that a stop gives a save, whatever the job says
LONGEST_WAIT = 600.0  # seconds that a stop gives a save that goes on growing
STILL = 1.0  # seconds without a change or an open file after which a save is over
MOST_BETWEEN = 2.0  # seconds between two files of one save
GREW = 10.0  # seconds in which a file that grows must grow again
KILL_AGAIN = 5.0  # seconds after which what wasn't killed is killed once more
# Seconds between a notice and the end: EC2's user guide, Compute Engine's and Azure's for spot.
NOTICE_SECONDS = {"aws": 120.0, "gcp": 30.0, "azure": 30.0}
LEAST_NOTICE = 15.0  # of a signal whose sender nobody knows: GKE gives its spot pods that long
BEFORE, SAVE, OVER = "", "save", "over"  # where a moment lies beside the window of the deadline
WAIT, SIGNAL, KILL = "wait", "signal", "kill"


class Window(NamedTuple):
    """The time before the deadline in which a save is asked for.

    `end`: when it is over, None before it began. `is_wide`: it is to have its whole length; None
    where nobody has looked yet.
    """

    end: float | None = None
    is_wide: bool | None = None


def who_asks(place: str, notice: str) -> str:
    """Return who asks for an end where nobody has: the deadline, or the provider's notice."""
    return DEADLINE if place != BEFORE else notice


def look_at_deadline(window: Window, left: float, save: float, now: float) -> tuple[Window, str]:
    """Return BEFORE the window, SAVE in it, and OVER behind it.

    `left`: seconds to the deadline by the clock that says less. `save`: seconds of a save: one may
    go on, and another is asked for. A clock that jumps over the whole window takes none of it
    away: it is then counted from where the jump was seen.
    """
    save = 2 * save
    is_wide = left > save if window.is_wide is None else window.is_wide
    if window.end is None and left > save:
        return Window(None, True), BEFORE
    end = now + (save if is_wide else left) if window.end is None else window.end
    return Window(end, is_wide), OVER if now >= end else SAVE


class Request(NamedTuple):
    """`begun`: when the request began; `signalled`: when the signal was sent; None before.
    `kill_at`: when what is left is killed."""

    begun: float | None = None
    signalled: float | None = None
    kill_at: float = 0.0


def serve(job: Any, request: Request, why: str, seen: Seen, now: float) -> tuple[Request, str]:
    """Return what a request that goes on does at this moment: WAIT for a save, SIGNAL, KILL, or ''
    for nothing."""
    begun = now if request.begun is None else request.begun
    request = request._replace(begun=begun)
    if request.signalled is None and seen.is_signalled:  # somebody else has asked
        request = note_signal(job, request, seen.save_seconds, now)
    is_first = request.signalled is None
    if not is_first and now < request.kill_at:
        return request, ""
    since = begun if is_first or is_short(why) else request.kill_at
    if seen.save.path and may_wait(job, why, now - since, seen, is_first):
        return request, WAIT
    if is_first:
        return note_signal(job, request, seen.save_seconds, now), SIGNAL
    return request._replace(kill_at=now + KILL_AGAIN), KILL


def note_signal(job: Any, request: Request, save_seconds: float, now: float) -> Request:
    """Return a request whose signal is sent at this moment."""
    grace = max(job.checkpoint.save_seconds, save_seconds)
    return request._replace(signalled=now, kill_at=now + grace)


def is_short(why: str) -> bool:
    """Return whether whoever asks takes the box away soon."""
    return why.startswith(("notice", "signal"))


def may_wait(job: Any, why: str, waited: float, seen: Seen, is_first: bool) -> bool:
    """Return whether the next step may wait longer for a save that goes on.

    `waited`: seconds so far. `is_first`: the signal is still to be sent, so that a save of the
    program's own may follow: one that handles it needs time for that. One that doesn't loses the
    less the later it ends. Of a notice the program and its copy need the rest. Where not one file
    has been open since the first look, the program saves again and again, and the save that went
    on at first is over after the time of one.
    """
    save, handles = seen.save_seconds, is_first and seen.handles
    if seen.left <= (save if handles else 0.0):
        return False
    if not seen.save.is_one and waited >= (
        STILL + MOST_BETWEEN if handles else max(GREW, 2 * save)
    ):
        return False
    if why == DEADLINE:
        return True
    if is_short(why):
        return waited < notice_seconds(job) / 2
    most = max(LEAST_WAIT, 2 * save)
    return waited < (max(most, LONGEST_WAIT) if seen.save.grows else most)


def notice_seconds(job: Any) -> float:
    """Return how long after its notice a box stays, as far as the provider says."""
    return NOTICE_SECONDS.get(job.rendered.notice, LEAST_NOTICE)
