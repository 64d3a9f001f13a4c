"""What happens to the box after an end or the deadline: what ends it, and what is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...text.masking import mask
from ..end_words import HOW
from ..failures import is_by_stop
from .model import Action, Command, EndBox, Kept, Note, Seen, Tell

LONGEST_WAIT = 600.0  # seconds between two tries of the end command
LIMIT = 60.0  # seconds for the end command; the third hand gives it as long
TOO_LONG, NO_START = 124, -1  # codes of a command that was killed at its limit, or never began
RUN, STOP, STAY, LEAVE = "run", "stop", "stay", "leave"


class End(NamedTuple):
    """How a run ended. `name`: of its marker, '' for none. `is_refused`: nothing was started.
    `is_told`: its user has been sent word of it."""

    name: str = ""
    failure: str = ""
    reason: str = ""
    is_refused: bool = False
    is_told: bool = False

    @property
    def is_late(self) -> bool:
        """Return whether the deadline ended it."""
        return self.failure == "deadline"

    @property
    def is_stopped(self) -> bool:
        """Return whether its user ended it by `stop`, which ends no box."""
        return self.name == "preempted" and not self.is_late and is_by_stop(self.reason)

    @property
    def owes_word(self) -> bool:
        """Return whether its user is sent word of it: whoever stops a run knows, and one that was
        given notice goes on elsewhere."""
        return not self.is_told and (self.is_late or self.name in ("done", "unsaved", "failed"))


class Box(NamedTuple):
    """`number`: of end commands that were started; `taken`: the last one whose end was judged.
    `is_accepted`: that was accepted, and the box is still here. `next_at`: of the next try, None
    for at once; `wait`: before the one after. `told`: (kind, when) of messages."""

    number: int = 0
    taken: int = 0
    is_accepted: bool = False
    next_at: float | None = None
    wait: float = 0.0
    told: tuple[tuple[str, float], ...] = ()


def end_box(
    job: Any, box: Box, end: End, late: float, is_safe: bool, seen: Seen, now: float
) -> tuple[Box, list[Action], bool]:
    """Return what is due for the box, and whether nothing is left to do for it.

    `late`: seconds since the deadline, below 0 before it. `is_safe`: see `is_all_kept`.
    """
    box = box._replace(wait=box.wait or job.timings.end_retry)
    what = say_end(end)
    box, actions, is_running = _take_command(job, box, what, seen.command, now)
    passed = late >= 0
    if is_running or (not end.name and not passed):
        return box, actions, False
    if seen.has_quiet or end.is_stopped:
        return box, actions, True
    cases = cases_of(end, passed, is_safe) & set(job.at_end.when)
    if job.rendered.end.command and cases:
        do = choose_end(job, is_safe, late)
        if do == STAY:
            text = _say_unsaved(job, what, late, seen)
            box, messages = _tell(job, box, Tell("unsaved", text), True, now)
            return box, [*actions, Note("unsafe", text), *messages], False
        box, more = _try(job, box, what, sorted(cases)[0], do, seen, now)
        return box, [*actions, *more], False
    if job.rendered.end.command and "deadline" in job.at_end.when and not passed:
        if not job.rendered.billed:
            return box, actions, False
        # Billed until then: worth a word, once.
        text = f"{what}; the box stays on until its deadline, where its end command runs"
        box, messages = _tell(job, box, Tell("waits", text), False, now)
        return box, [*actions, *messages], False
    if not job.rendered.billed or end.is_refused:
        return box, actions, True
    tell = Tell("late" if passed else "billed", _say_billed(job, what, passed, seen))
    box, messages = _tell(job, box, tell, passed, now)
    return box, [*actions, *messages], not job.notify  # nobody would hear it again


def choose_end(job: Any, is_safe: bool, late: float) -> str:
    """Return what to do about a box that is to end: RUN its command, STOP it by the platform's
    command that keeps the disk, or STAY. `late`: seconds since the deadline, below 0 before it."""
    agreed = "unsaved" in job.at_end.when
    if job.durable.to and is_safe:
        return RUN
    if not job.durable.to and (job.rendered.end.keeps_disk or agreed):
        return RUN
    # Until the deadline a copy that is owed is tried again; what is lost then was agreed to.
    if agreed and late >= 0:
        return RUN
    if late >= job.at_end.unproven_minutes * 60 and job.rendered.end.keeps_disk:
        return RUN
    if late >= job.at_end.unproven_minutes * 60 and job.rendered.stop.command:
        return STOP
    return STAY


def plan_unheard(job: Any, end: End, is_safe: bool, is_called_off: bool) -> tuple[str, float]:
    """Return what a shell does about the box where no Python answers at the deadline, and how many
    seconds behind it: RUN, STOP, STAY for word that it is still on, or LEAVE for nothing.

    `is_called_off`: `stop` was asked, which ends no box.
    """
    if is_called_off or end.is_stopped or end.is_refused:
        return LEAVE, 0.0
    if job.rendered.end.command and "deadline" in job.at_end.when:
        for late in (0.0, job.at_end.unproven_minutes * 60):
            do = choose_end(job, is_safe, late)
            if do != STAY:
                return do, late
        return STAY, 0.0
    return (STAY if job.rendered.billed else LEAVE), 0.0


def cases_of(end: End, passed: bool, is_safe: bool) -> set[str]:
    """Return what this end is called in `at_end.when`."""
    found = {"deadline"} if passed or end.is_late else set()
    if end.name == "done" or (end.name == "unsaved" and is_safe):
        found.add("done")
    elif end.name == "unsaved":
        found |= {"done", "unsaved"}
    elif end.name == "failed" and not end.is_refused:
        found.add("failed")  # but where nothing was started, somebody sits there and mends it
    return found


def is_all_kept(job: Any, end: str, kept: Kept) -> bool:
    """Return whether nothing that this end leaves would be lost with the box.

    A run that came to its end owes a copy of all that `durable.what` names, too; so does one of
    which no checkpoint and no result is proven. One that failed, or was ended, makes no results any
    more.
    """
    is_cut = end not in ("done", "unsaved")
    if not job.durable.to or not (kept.is_whole or (is_cut and kept.has_proof)):
        return False
    return kept.is_all_safe or (is_cut and kept.is_newest_safe and not kept.has_left)


def say_end(end: End) -> str:
    """Say how a run ended: the beginning of every message."""
    if end.name == "preempted":
        return "the deadline ended the run" if end.is_late else f"preempted ({end.reason})"
    if not end.name:
        return "the deadline has passed"
    texts = {"done": "the run is done", "unsaved": "the run trained to its end"}
    return texts.get(end.name, f"the run failed ({end.reason})" if end.reason else "the run failed")


def _take_command(
    job: Any, box: Box, what: str, command: Command, now: float
) -> tuple[Box, list[Action], bool]:
    """Return what became of the end command, and whether it still runs."""
    if not box.number or box.taken == box.number or command.number != box.number:
        return box, [], False
    if command.code is None:
        return box, [], True
    box = _put_off(box._replace(taken=box.number), now)
    if command.code == 0:
        at = max(box.next_at or now, now + job.timings.end_wait)
        return box._replace(is_accepted=True, next_at=at), [], False
    how = {TOO_LONG: f"took longer than {LIMIT:.0f} s", NO_START: "can't be started"}
    fault = how.get(command.code, f"failed with exit status {command.code}")
    box, actions = _tell_failed(job, box, what, f"its end command {fault}{command.said}", now)
    return box, actions, False


def _try(
    job: Any, box: Box, what: str, case: str, do: str, seen: Seen, now: float
) -> tuple[Box, list[Action]]:
    """Return the next end command, unless the last try was a moment ago."""
    actions: list[Action] = []
    if box.next_at is not None and now < box.next_at:
        return box, actions
    if box.is_accepted:
        why = "it is still on after its end command was accepted"
        box, actions = _tell_failed(job, box._replace(is_accepted=False), what, why, now)
    wanted = job.rendered.end if do == RUN else job.rendered.stop
    if wanted.needs in seen.command.lacks:
        why = f"the credential {mask(wanted.needs)} is missing on the box"
        box, messages = _tell_failed(job, _put_off(box, now), what, why, now)
        return box, [*actions, *messages]
    if seen.command.is_elsewhere:
        return box._replace(next_at=now + 1), actions
    # Whoever was to start it may die before: then it is tried again all the same.
    box = box._replace(number=box.number + 1, next_at=now + LIMIT + 1)
    return box, [*actions, EndBox(box.number, do, case)]


def _put_off(box: Box, now: float) -> Box:
    return box._replace(next_at=now + box.wait, wait=min(box.wait * 2, LONGEST_WAIT))


def _tell(job: Any, box: Box, tell: Tell, again: bool, now: float) -> tuple[Box, list[Action]]:
    """Return a message of this kind, the first time and, `again`, every `notify_every` seconds."""
    told_at = dict(box.told)
    last = told_at.get(tell.key)
    if last is not None and not (again and now - last >= job.timings.notify_every):
        return box, []
    told_at[tell.key] = now
    return box._replace(told=tuple(sorted(told_at.items()))), [tell]


def _tell_failed(job: Any, box: Box, what: str, why: str, now: float) -> tuple[Box, list[Action]]:
    billed = "still on and billed" if job.rendered.billed else "still on and may be billed"
    text = f"{what}, but the box is {billed}: {why}. Tried again; or end it yourself."
    box, messages = _tell(job, box, Tell("failed", text), True, now)
    return box, [Note("failed", text), *messages]


def _say_unsaved(job: Any, what: str, late: float, seen: Seen) -> str:
    """Say why the box stays on, and until when."""
    where = seen.durable or "a durable place, since the job names none"
    billed = " and billed" if job.rendered.billed else ""
    text = f"{what}, but nothing proves that all it made is safe at {where}"
    text += f" ({seen.unsafe})" if seen.unsafe else ""
    text += f". The box stays on{billed}, and is ended once that is proven"
    can_stop = job.rendered.end.keeps_disk or job.rendered.stop.command
    if "unsaved" in job.at_end.when and late < 0:
        text += " or its deadline passes"
    elif can_stop:
        minutes = f"{job.at_end.unproven_minutes:g} minutes"
        text += f"; {minutes} after the deadline its disk is kept and it is stopped all the same"
    return text + ". Make room there, or copy it yourself and end the box."


def _say_billed(job: Any, what: str, passed: bool, seen: Seen) -> str:
    if job.rendered.end.command:
        why = f"its end command is for {_listed(job.at_end.when)} only"
    else:
        why = f"the job names no end command ({HOW})"
    silence = f"; bash {seen.script} stop ends this message" if passed else ""
    return f"{what}. The box is still on and billed, and {why}: end it yourself{silence}."


def _listed(words: list[str]) -> str:
    """Return 'a', 'a or b', 'a, b or c'."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
