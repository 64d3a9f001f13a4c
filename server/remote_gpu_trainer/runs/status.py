"""Ask a box for the state of its run, by its own script, once or until it ends.

`status_reply` judges the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..boxes.box import Box
from ..text.masking import shown
from ..text.spans import shown_seconds
from . import calling, status_words
from .status_reply import Status, status_from

LIMIT = 30  # seconds for one question
INTERVAL = 30.0  # seconds between questions
TOLD = 30.0  # seconds after which a step that moved is told, although the state is the same
MOST_PAUSE = 60.0  # seconds between questions while the box doesn't answer, at most
LOST = 900.0  # seconds without an answer after which the box counts as unreachable
FOR_GOOD = ("host-key-unknown", "host-key-changed", "restricted", "no-ssh")  # waiting doesn't help
AT_FIRST = ("name", "auth")  # nor here, unless the box has answered before


def ask(
    box: Box,
    run: str = "",
    *,
    accept_new: bool = False,
    now: float | None = None,
    limit: float = LIMIT,
) -> Status:
    """Return the state of a run, by one call.

    `run`: a name under ~/runs, or a folder on the box; '' for the newest run. `now`: seconds since
    1970, for tests.
    """
    reply = calling.call(box, run, "status", "--json", limit=limit, accept_new=accept_new)
    name = shown(box.name, 80)
    if reply.outcome == "unreachable":
        return Status("unreachable", name, why=reply.why, text=reply.text)
    if reply.outcome == "overtime":
        text = f"{reply.text}; check whether a disk there hangs"
        return Status("unknown", name, why="overtime", text=text)
    out, now = reply.out.decode("utf-8", "replace"), time.time() if now is None else now
    return status_from(name, out, reply.cut, run, now, reply.errors)


def wait(
    question: Callable[[], Status],
    *,
    most: float,
    interval: float = INTERVAL,
    lost: float = LOST,
    until: Callable[[Status], bool] = lambda _: False,
    tell: Callable[[Status], None] = lambda _: None,
    tells_steps: bool = False,
    clock=time.monotonic,
    sleep=time.sleep,
) -> Status:
    """Ask until the run isn't alive any more, its loss is nan, or `most` seconds are over.

    `until` says of a run that is alive whether that is enough. `tell` gets the first state, and
    each one that differs from the one before; with `tells_steps` also, after TOLD seconds, one
    that only has another step. A box that doesn't answer is asked again for `lost`
    seconds, because the run may go on.
    """
    began, silent_since, tries, reached, last_shown = clock(), None, 0, False, ()
    told_at, told_step = began, None
    while True:
        asked_at = clock()
        status = question()
        now, step = clock(), status.progress.get("step", status.step)
        is_moved = tells_steps and step != told_step and asked_at - told_at >= TOLD
        if last_shown != (last_shown := status.shows) or is_moved:
            tell(status)
            told_at, told_step = asked_at, step
        status.waited = now - began
        if status.state in ("unreachable", "unknown"):
            silent_since, tries = now if silent_since is None else silent_since, tries + 1
            if status.why in FOR_GOOD or (not reached and status.why in AT_FIRST):
                return status
            if now - silent_since >= lost:
                before = "" if reached else ", and none before"
                status.evidence.append(
                    f"no answer for {shown_seconds(now - silent_since)}{before}; "
                    "the run may still be alive"
                )
                return status
            pause = min(5.0 * 2 ** min(tries - 1, 9), MOST_PAUSE, lost - (now - silent_since))
        else:
            silent_since, tries, reached = None, 0, True
            pause = max(interval - (now - asked_at), min(interval, 1.0))
            if status.state != "alive" or until(status) or status.worthless:
                return status
        left = most - (now - began)
        if left <= 0:
            status.ceiling = True
            return status
        sleep(min(pause, left))


def explain(status: Status) -> None:
    """Add the entries that explain a run that failed, stalls or trains on nan to `matches`.

    They come from the look-up over the end of the log.
    """
    if status.state not in ("failed", "stalled", "preempted", "deadline") and not status.worthless:
        return
    from ..lookup.explanations import explanations  # loads NumPy and the entries

    by = "the loss that the runner saw" if status.worthless else "the run's own script"
    further = status.state not in ("preempted", "deadline") and not status.worthless
    status.matches += explanations(status.tail, status.entry, by, status.reason, further)
    if not any(match["by"] == by for match in status.matches):
        status.entry = ""  # none of this catalogue


def in_a_line(status: Status) -> str:
    """Return the state, and what changes it, in one line."""
    words = [status.state]
    if status.state in ("unreachable", "unknown", "nothing"):
        return f"{status.state}: {status.text}"
    if status.phase and status.phase != "running" and status.state in ("alive", "stalled"):
        words.append(status.phase)
    if (status.attempt or 1) > 1:
        words.append(f"attempt {status.attempt}")
    words += status_words.place_in_words(status)
    words += [status_words.newest_loss(status)] if status.state in ("alive", "stalled") else []
    if status.failure and status.failure != status.state:
        words.append(f"class {status.failure}")
    if status.reason and status.reason != status.state:
        words.append(status.reason)
    rest = ", ".join(filter(None, words[1:]))
    return f"{words[0]}: {rest}" if rest else words[0]


def as_text(status: Status) -> str:
    """Return the status for a terminal."""
    at_ceiling = " (unchanged when the wait ended)" if status.ceiling else ""
    out = [f"{status.state}: {status.dir or status.box}{at_ceiling}"]
    out += [f"    {status.text}"] if status.text else []
    out += [f"    {line}" for line in status_words.in_words(status)]
    out += [f"    {line}" for line in status.evidence]
    for match in status.matches:
        out.append(f"    {match['id']}  {match['title']} ({match['by']})")
        labels = (("cause in the", "domain"), ("another try", "retry"), ("shown by", "proof"))
        lines = [f"{name}: {match[key]}" for name, key in labels if match[key]]
        out += [f"        {line}" for line in [*lines, f"check: {match['check']}"]]
    if len(status.runs) > 1:
        out.append(f"    runs there: {', '.join(status.runs)}; pick one with --run")
    return "\n".join(out)
