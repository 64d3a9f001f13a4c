"""The phases and ends of a run, as one table, and its exit codes. The reference shows both."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One line of the table: in this phase, on this, the run goes to that phase."""

    source: str
    on: str
    target: str
    told: str


TABLE = (
    Step("new", "start", "preflight", "the old end is forgotten"),
    Step("preflight", "ready", "staging", "environment, data and checkpoints come to the box"),
    Step("preflight", "only the copy is owed", "syncing", "it trained to its end earlier"),
    Step("preflight", "program found alive", "running", "its runner was killed; it goes on"),
    Step("preflight", "asked", "preempted", "nothing was started"),
    Step("preflight", "failed", "failed", "each refusal with its entry; exit 78"),
    Step("staging", "ready", "running", "the attempt and its checkpoint"),
    Step("staging", "asked", "preempted", "nothing was started"),
    Step("staging", "failed", "syncing", "class, entry and reason"),
    Step("running", "again", "running", "class of the failure, wait before the next attempt"),
    Step("running", "asked", "saving", "who asked: stop, a signal, a notice, the deadline"),
    Step("running", "ended", "syncing", "all results are there; the last copy begins"),
    Step("running", "failed", "syncing", "class, entry and reason; the last copy begins"),
    Step("saving", "asked", "preempted", "the marker, and then the last copy"),
    Step("saving", "ended", "syncing", "the program came to its end by itself"),
    Step("saving", "failed", "syncing", "class, entry and reason; the last copy begins"),
    Step("syncing", "verified", "done", "every result is where it belongs"),
    Step("syncing", "not verified", "unsaved", "it trained to its end; what it made is here only"),
    Step("syncing", "failed", "failed", "class, entry and reason"),
)
NEXT = {(step.source, step.on): step.target for step in TABLE}

# Exit codes of `run` and `start`. Of `run` any other is the code of the program.
EXITS = (
    (0, "done", "all that is expected is there and copied"),
    (1, "failed", "ended with 0, but too early; another verb failed"),
    (2, "usage", "an unknown verb or setting, or a file that can't be read"),
    (74, "unsaved", "trained to its end, but the last copy is not verified"),
    (75, "preempted", "saved, to be started again; or another run holds the lock"),
    (76, "deadline", "ended by its deadline"),
    (77, "stopped", "ended by stop"),
    (78, "refused", "nothing was started"),
)
REHEARSING = "rehearsing: "  # begins a line on stderr that says what a rehearsal does now
CODES = {name: code for code, name, _ in EXITS}
GOING = ("preflight", "staging", "running", "saving", "syncing")
