"""The phases and ends of a run, as one table, and its exit codes. The reference shows both."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One line of the table: in this phase, on this, the run goes to that phase.

    `told`: what its user reads of it; `kept`: what of the run lasts; `code`: with which `run` exits
    then, '' where it doesn't.
    """

    source: str
    on: str
    target: str
    told: str
    kept: str
    code: str = ""


_ALL = "checkpoints, log and events of all starts"
_LAST = "what it left; its last copy begins"
_NOTHING = "all that was there"
_ASKED = "75, 76 by the deadline, 77 by stop"
TABLE = (
    Step("new", "start", "preflight", "the old end is forgotten", _ALL),
    Step(
        "preflight", "ready", "staging", "environment, data and checkpoints come to the box", _ALL
    ),
    Step("preflight", "only the copy is owed", "syncing", "it trained to its end earlier", _LAST),
    Step("preflight", "program found alive", "running", "its runner was killed; it goes on", _ALL),
    Step("preflight", "asked", "preempted", "nothing was started", _NOTHING, _ASKED),
    Step("preflight", "failed", "failed", "each refusal with its entry", _NOTHING, "78"),
    Step(
        "staging", "ready", "running", "the attempt and its checkpoint", "corrupt ones, moved aside"
    ),
    Step("staging", "asked", "preempted", "nothing was started", "what came to the box", _ASKED),
    Step("staging", "failed", "syncing", "class, entry and reason", "what came to the box"),
    Step(
        "running",
        "again",
        "running",
        "class of the failure, wait before the next attempt",
        "checkpoints; corrupt ones, moved aside",
    ),
    Step(
        "running",
        "asked",
        "saving",
        "who asked: stop, a signal, a notice, the deadline",
        "a save that goes on comes to its end",
    ),
    Step("running", "ended", "syncing", "all results are there", _LAST),
    Step("running", "failed", "syncing", "class, entry and reason", _LAST),
    Step("saving", "asked", "preempted", "who asked, and what the end cost", _LAST, _ASKED),
    Step("saving", "ended", "syncing", "the program came to its end by itself", _LAST),
    Step("saving", "failed", "syncing", "class, entry and reason", _LAST),
    Step("syncing", "verified", "done", "every result is where it belongs", "all, compared", "0"),
    Step(
        "syncing",
        "not verified",
        "unsaved",
        "it trained to its end; what it made is here only",
        "all, here; the copy is tried again",
        "74",
    ),
    Step(
        "syncing",
        "failed",
        "failed",
        "class, entry and reason",
        "what it left",
        "the program's, 1 in place of 0",
    ),
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
PHASES = ("new", *GOING, "done", "unsaved", "failed", "preempted")
