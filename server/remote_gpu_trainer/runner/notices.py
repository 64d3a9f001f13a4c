"""Messages to the user, by the job's own command."""

from __future__ import annotations

from ..text.masking import mask
from . import child, failures, procs, secrets
from .context import Run, plain_environment
from .state import StateFile

LIMIT = 30.0  # seconds for the command
PAUSES = (5.0, 30.0, 120.0)  # seconds before each further try of one that failed
LONGEST = 2000  # characters
TOLD = "told"  # in a marker: its user was sent word of this end


def notify(run: Run, text: str) -> None:
    """Tell the user: an event, and the job's command with the text in RGT_MESSAGE and on its
    standard input. Nobody waits for it."""
    values = secrets.load(run)
    shown = secrets.Mask(values.values()).text(mask(text))[:LONGEST]
    message = f"{run.spec.name} on {procs.host()}: {shown}"
    run.event("notify", message=message)
    if not run.spec.notify:
        return
    env = {**plain_environment(), **values, "RGT_MESSAGE": message}
    words, line = list(run.spec.notify), message + "\n"
    if child.start_guarded(words, LIMIT, env, text=line, pauses=PAUSES) is None:
        run.log(f"can't start the command of notify: {run.spec.notify[0]}")


def tell_end(run: Run, end: str, text: str) -> None:
    """Tell the user how the run ended, and note in its marker that this was told."""
    notify(run, text)
    note_told(run, end)


def note_told(run: Run, end: str) -> None:
    """Note in the marker of an end that nobody has to be told of it any more."""
    if run.folder.has(f".{end}"):
        run.folder.mark(end, {**run.folder.json(f".{end}"), TOLD: True})


def at_end(now: StateFile) -> str:
    """Return what is told of a run that ended, with what to do next where it isn't done."""
    text = now.phase + (f": {now.reason}" if now.reason else "")
    decision = now.decision()
    if decision is None or now.phase == "done":
        return text
    return f"{text}. Decision: {failures.in_words(decision)}"


def at_deadline(by: str, step: int | None, cost: str = "") -> str:
    """Return what is told of a run that `by` ended, its deadline or its budget.

    `cost`: what that cost.
    """
    where = "" if step is None else f" at step {step}"
    more = "a later deadline" if by == "its deadline" else "a larger one"
    text = f"ended by {by}{where}; with {more} it goes on"
    return f"{text}; {cost}" if cost else f"{text} from there"
