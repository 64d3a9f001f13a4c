"""What is done about a program that lives: let it train, let it save and end, or kill it."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import stall, stop
from .model import Action, AwaitSave, Kill, Seen, Signal, Snapshot

STALL, NAN, LEASE, UNHEARD = "stall", "nan", "lease", "unheard"  # what it is killed for


class Watching(NamedTuple):
    """Of one attempt. `request`: to save and end; `stall`: when it showed signs of life; `stalled`:
    why it counts as stalled, '' while it doesn't; `checkpoint`: the id of the newest complete one
    that was seen while it lived."""

    request: stop.Request = stop.Request()
    stall: stall.Watch = stall.Watch()
    stalled: str = ""
    checkpoint: str = ""


def begin(now: float) -> Watching:
    """Return what is known of a program that starts at this moment."""
    return Watching(stall=stall.begin(now))


def watch_program(
    job: Any, watching: Watching, asked: str, seen: Seen, now: float
) -> tuple[Watching, list[Action]]:
    """Return what is due. `asked`: who asks for an end, '' for nobody. A program that was asked to
    end counts neither as stalled nor as lost to nan: it has its time, whatever it shows."""
    if asked:
        return _serve_request(job, watching, asked, seen, now)
    if watching.stalled:  # it was to be killed
        return watching, [Kill(STALL, watching.stalled)]
    if seen.signs is not None:
        watch, reason = stall.look(job, watching.stall, seen.signs, now)
        newest = seen.signs.checkpoint or watching.checkpoint
        watching = watching._replace(stall=watch, stalled=reason, checkpoint=newest)
        if reason:
            return watching, [Snapshot(reason), Kill(STALL, reason)]
    if seen.nan and job.on_nan == "stop":
        return watching, [Kill(NAN, seen.nan)]
    return watching, []


def _serve_request(
    job: Any, watching: Watching, asked: str, seen: Seen, now: float
) -> tuple[Watching, list[Action]]:
    if seen.has_lost_lease:
        return watching, [Kill(LEASE, asked)]
    before = watching.request
    request, do = stop.serve(job, before, asked, seen, now)
    watching = watching._replace(request=request)
    if do == stop.SIGNAL:
        return watching, [Signal(asked)]
    if do == stop.WAIT and before.signalled is None:
        return watching, [AwaitSave(seen.save.path)]
    if do == stop.KILL and before.signalled is not None:
        why = f"not ended {now - before.signalled:.0f} s after the save signal"
        return watching, [Kill(UNHEARD, why)]
    return watching, []
