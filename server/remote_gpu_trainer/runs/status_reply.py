"""Read the state of a run from what its script prints. Pure.

States: alive, finished, unsaved (trained to its end, and the last copy isn't verified), failed,
stopped (by its user), deadline (ended by it), preempted, stalled; nothing (no run there);
unreachable (no answer from the box); unknown (an answer that can't be read). Nothing in an answer
is trusted: types are checked, texts are cut, cleaned and masked.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from ..numbers import finite
from ..runner import failures
from ..runner.probing import LOOKING
from ..text.masking import shown, shown_lines
from ..text.spans import shown_seconds
from . import status_facts

ENDED = {"done": "finished", "failed": "failed", "preempted": "preempted", "unsaved": "unsaved"}
GOING = ("preflight", "staging", "running", "saving", "syncing")
SILENT_SECONDS, SILENT_STEPS = 60.0, 20  # at least, and of its steps, until silence is worth a look
BAD = ("failed", "stalled", "preempted", "deadline", "nothing", "unsaved")
NO_RUNNER = "no-runner"  # `Status.why` of a program that outlived its runner
SILENT = 600  # seconds without a heartbeat: the runner hangs. Reading a large checkpoint: minutes
SUPERVISOR = "the supervisor starts another within a minute, and if it doesn't, "
NAN_ENTRY = "P9"  # the entry about a loss that becomes nan
_CARD = re.compile(r" \d+%")  # of what the runner says of the cards: the name stands before it
_ENTRY = re.compile(r"[A-Z][A-Z0-9]{0,9}\Z")
_RUNNER = {row.name: row.runner for row in failures.FAILURES}
# The ends of these states, as `runner.failures` has them; a failed run has its class.
_ENDS = {"finished": "done", **{s: s for s in ("unsaved", "stopped", "deadline", "preempted")}}


@dataclass(frozen=True)
class Signs:
    """What shows that an attempt trains: a step in its own log, a checkpoint that it made, and the
    seconds of CPU time that its processes have used."""

    step: int | None = None
    checkpoint: str = ""
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class FailedAttempt:
    """The newest attempt that ended with an error. `lines`: the last ones of its log."""

    attempt: int
    reason: str
    lines: list[str]


@dataclass
class Status:
    """What is known about a run.

    `evidence`: the lines that the state follows from. `matches`: entries that explain it, as
    `answer.explanations` gives them. `worthless`: why a run that goes on, or ended well, is
    of no use; else ''.
    `progress`, `numbers`, `course`, `gpus`, `attempts`: as `status_facts` reads them. `disk_free`:
    bytes. `saved_elsewhere`: what the log of a run that ended says was saved outside of it.
    `checkpoint`: the newest complete one. `wanted`: what the job asked for; `asked`: why the
    run was asked to end. `cost`: as `status_cost.add` finds it, None where no price is known.
    `decision`: what to do next, as `runner.failures.as_answer` gives it; None for a run that goes
    on, and where nothing is known.
    `probe`: what the probe said of the first steps; '' without it. `box_on`: why the box is still
    on, and may be billed, although it was to end; ''.
    `cells`: how many its queue has, 0 for a run without one.
    `deadline`, `first_start`: seconds since 1970. `heartbeat_age`, `waited`: seconds. `ceiling`:
    the wait ended because its time was over. `silent`: seconds without a line where a step takes a
    small part of that, else 0.
    """

    state: str
    box: str
    dir: str = ""
    text: str = ""
    why: str = ""
    phase: str = ""
    step: int | None = None
    attempt: int | None = None
    exit: int | None = None
    failure: str = ""
    entry: str = ""
    reason: str = ""
    deadline: float | None = None
    first_start: float | None = None
    heartbeat_age: float | None = None
    log: str = ""
    probe: str = ""
    box_on: str = ""
    evidence: list[str] = field(default_factory=list)
    matches: list[dict] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    waited: float | None = None
    ceiling: bool = False
    worthless: str = ""
    progress: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, dict] = field(default_factory=dict)
    course: list[float] = field(default_factory=list)
    gpus: list[dict[str, float]] = field(default_factory=list)
    gpu_name: str = ""
    disk_free: float | None = None
    attempts: list[str] = field(default_factory=list)
    saved_elsewhere: list[dict] = field(default_factory=list)
    checkpoint: str = ""
    checkpoint_step: int | None = None
    checkpoint_step_is_named: bool = True
    wanted: str = ""
    asked: str = ""
    cost: dict | None = None
    signs: Signs = Signs()
    failed_attempt: FailedAttempt | None = None
    decision: dict | None = None
    cells: int = 0
    silent: float = 0.0

    def as_dict(self) -> dict:
        """Return all fields, as `status --json` prints them."""
        return asdict(self)

    @property
    def shows(self) -> tuple[object, ...]:
        """Return what a change of the state is seen by; steps go on all the time."""
        state = (self.state, self.phase, self.attempt, self.failure, self.reason, self.why)
        return (*state, self.box_on, self.probe if self.probe != LOOKING else "")

    @property
    def code(self) -> int:
        """Return the exit code.

        0 alive, finished or stopped by its user, 1 bad, a loss of nan, or a box that is still on
        although it was to end, 2 unknown.
        """
        if self.state in ("alive", "finished", "stopped"):
            return int(bool(self.worthless or self.box_on))
        return 1 if self.state in BAD else 2


class Parts(NamedTuple):
    """A reply of `calling.call` in its parts. `body`: what run.sh printed; None without a run."""

    runs: list[str]
    living: list[str]
    folder: str
    body: str | None

    def without_run(self, name: str, run: str) -> str:
        """Return why there is no `body`. `name`: the box; `run`: the run in question."""
        missing = f"no run script in {self.folder}" if run else "no run under ~/runs"
        return f"{missing} on {name}; start one, or name its folder with --run"


def parts_of(reply: str) -> Parts:
    """Take a reply apart: the runs on the box, those alive, the folder, what run.sh printed."""
    head, marked, body = reply.partition("\nrgt-status\n")
    words = [line.partition(" ") for line in head.splitlines()]
    runs = [shown(value, 100) for kind, _, value in words if kind == "rgt-run"]
    living = [shown(value, 100) for kind, _, value in words if kind == "rgt-live"]
    folder = shown(next((value for kind, _, value in words if kind == "rgt-dir"), ""), 300)
    return Parts(runs, living, folder, body if marked else None)


def status_from(name: str, reply: str, cut: bool, run: str, now: float, errors: str = "") -> Status:
    """Return the state of a run by a reply of `calling.call`. Pure.

    `run` is the run in question, `now` seconds since 1970, `cut` whether the reply was too long.
    """
    parts = parts_of(reply)
    place, body = parts.folder, parts.body
    status = Status("unknown", name, place, runs=parts.runs)
    if body is None:
        status.state, status.text = "nothing", parts.without_run(name, run)
        return status
    try:
        data = json.loads(body[body.index("{") : body.rindex("}") + 1])
    except (ValueError, RecursionError):
        last = next(iter(shown_lines(errors or body, 1, 160)), "nothing")
        what = "more than 4 MB" if cut else "no JSON"
        status.why = "unreadable"
        status.text = (
            f"{place}/run.sh status printed {what} ({last}); look at the script there with rgt ssh"
        )
        return status
    _fill(status, data)
    _set_state(status, data, now)
    if status.state in ("alive", "finished"):
        _tell_nan(status, data)
    _decide(status, data)
    if status.box_on:
        status.evidence.insert(0, f"the box: {status.box_on}")
        end = "rgt stop ends this message, once you have ended the box or want it on"
        status.evidence.insert(1, end)
    return status


def _decide(status: Status, data: dict) -> None:
    """Say what to do about a run that ended, first of all its evidence."""
    end = status.failure or "unknown" if status.state == "failed" else _ENDS.get(status.state, "")
    if status.state == "finished" and status.worthless:
        end = "nan"
    given = _text(data, "again")
    again = given if given in failures.AGAIN else failures.USED_UP if given else ""
    decision = failures.decide(end, status.entry, again, status.exit)
    # What was saved after a loss became nan holds nothing to go on from.
    newest = "before_nan" if data.get("is_nan") is True else "checkpoint"
    checkpoint = shown(_text(data, newest), 300)
    status.decision = failures.as_answer(decision, checkpoint)
    if status.decision:
        status.evidence.insert(1, f"decision: {failures.in_words(status.decision)}")


def _tell_nan(status: Status, data: dict) -> None:
    """Note a loss that the runner saw become nan: each further hour of such a run is wasted."""
    if data.get("is_nan") is not True:
        return
    status.worthless = status.reason if "nan" in status.reason else "the loss is nan"
    status.entry = status.entry or NAN_ENTRY
    text = f"{status.worthless}: the result is worthless; see rgt lookup --id {NAN_ENTRY}"
    status.evidence.insert(0, text)


def _fill(status: Status, data: dict) -> None:
    status.phase, status.failure, status.reason = (
        shown(_text(data, key), 300) for key in ("phase", "class", "reason")
    )
    status.step, status.attempt, status.exit = (
        _whole(data, key) for key in ("step", "attempt", "exit")
    )
    status.deadline = _number(data, "deadline")
    status.first_start = _number(data, "first_start")
    status.heartbeat_age = _number(data, "heartbeat_age")
    status.log = shown(_text(data, "log"), 300)
    status.probe = shown(_text(data, "probe"), 400)
    status.box_on = shown(_text(data, "box"), 600)
    signs = data.get("signs")
    if isinstance(signs, dict):
        made = shown(_text(signs, "checkpoint"), 300)
        status.signs = Signs(_whole(signs, "step"), made, _number(signs, "cpu_seconds") or 0.0)
    failed = data.get("failed_attempt")
    number = _whole(failed, "attempt") if isinstance(failed, dict) else None
    if isinstance(failed, dict) and number is not None:
        lines = failed.get("lines")
        text = "\n".join(map(str, lines)) if isinstance(lines, list) else ""
        reason = shown(_text(failed, "reason"), 300)
        status.failed_attempt = FailedAttempt(number, reason, shown_lines(text, 12, 300))
    status.tail = shown_lines(_text(data, "tail"), 40, 300)
    status.progress, status.numbers = status_facts.progress_of(data), status_facts.numbers_of(data)
    status.course, status.gpus = status_facts.course_of(data), status_facts.gpus_of(data)
    status.gpu_name = next(iter(cards_named(data.get("gpu"))), "")
    status.attempts = status_facts.attempts_of(data)
    status.saved_elsewhere = status_facts.saved_of(data)
    status.disk_free = _number(data, "disk_free")
    status.checkpoint = shown(_text(data, "checkpoint"), 300)
    status.checkpoint_step = _whole(data, "checkpoint_step")
    status.checkpoint_step_is_named = data.get("checkpoint_step_is_named") is not False
    status.asked = shown(_text(data, "asked"), 100)
    cells = data.get("cells")
    status.cells = (_whole(cells, "total") or 0) if isinstance(cells, dict) else 0
    entry = _text(data, "entry")
    status.entry = entry if _ENTRY.match(entry) else ""


def _set_state(status: Status, data: dict, now: float) -> None:
    """Set the state and its evidence, the most telling line first."""
    alive = data.get("alive") is True
    if status.phase in ENDED:
        _set_ended(status, data)
    elif status.phase == "new" and not alive:
        status.state = "nothing"
        status.text = f"the run in {status.dir} has not been started; run bash run.sh start there"
    elif status.phase in GOING or status.phase == "new":
        _set_going(status, data, alive)
    else:
        status.why = "unreadable"
        status.text = (
            f"{status.dir}/run.sh status tells an unknown phase, {status.phase!r}; "
            "look at the script there with rgt ssh"
        )
    _say_where_it_is(status, data)
    _warn(status, data, now)
    if status.state in ("failed", "stalled"):
        status.evidence += [f"log: {line}" for line in status.tail[-6:]]


def ended_as(end: str, failure: object, reason: object) -> str:
    """Return the state of a run by the marker of its end, with that one's class and reason."""
    if end == "preempted" and failures.is_by_stop(str(reason or "")):
        return "stopped"
    if end == "preempted" and failure == "deadline":
        return "deadline"
    return ENDED.get(end, "unknown")


def _set_ended(status: Status, data: dict) -> None:
    """Judge a run that left an end state. One that calls itself done must have its results."""
    status.state = ended_as(status.phase, status.failure, status.reason)
    missing = data.get("expect_missing") or None
    if status.state == "finished" and (status.exit or status.failure or missing):
        status.state = "failed"
        status.evidence.append(
            "the run calls itself done, and what it left says otherwise: see below"
        )
    if status.state == "stopped":
        status.failure, status.reason = "", ""
        billed = (
            "" if data.get("billed") is False else "the box stays on, and billed if you rent it; "
        )
        status.evidence.append(
            f"stopped as asked: {billed}"
            "rgt resume goes on from the newest whole checkpoint, if there is one"
        )
    if status.state == "deadline":
        status.evidence.append(
            "ended by its deadline: with a later one it goes on from the newest whole checkpoint, "
            "if there is one"
        )
    if status.state == "unsaved":
        status.evidence.append(
            "what the run made is on that box only: keep it, run bash run.sh sync there, or "
            "bring it home with rgt release"
        )


def _set_going(status: Status, data: dict, alive: bool) -> None:
    """Judge a run without an end state: it goes on, stalls, or was killed."""
    lost = _lost_runner(data, status.heartbeat_age) if alive else ""
    waits = shown(_text(data, "waits"), 200) if alive else ""
    status.why = NO_RUNNER if alive and data.get("runner_alive") is False else ""
    stalled = data.get("stalled") is True or lost
    status.state = "failed" if not alive else "stalled" if stalled else "alive"
    status.silent = 0.0 if waits or not alive else _find_silence(status, data)
    status.evidence += [f"the runner waits {waits}"] if waits else []
    if status.silent:
        status.evidence.append(
            f"no new line for {shown_seconds(status.silent)}, {SILENT_STEPS} times as long as a "
            "step or more: rgt snapshot shows where each rank stands"
        )
    status.evidence += [lost] if lost else []
    if data.get("elsewhere") is True:
        host = shown(_text(data, "host"), 80) or "another machine"
        status.evidence.append(
            f"the run is on {host}, whose processes can't be seen from here: "
            "only its heartbeat is judged"
        )
    if not alive:
        status.evidence.append(
            "the run's processes are gone and left no end state: "
            "they were killed, or the box restarted"
        )
        status.failure = status.failure or "killed"


def _find_silence(status: Status, data: dict) -> float:
    """Return the age of the newest line where that is many times a step's, else 0."""
    age, rate = _number(data, "log_age") or 0.0, status.progress.get("steps_per_second") or 0.0
    is_silent = rate > 0 and age > max(SILENT_SECONDS, SILENT_STEPS / rate)
    return age if is_silent and status.phase == "running" and not _text(data, "saving") else 0.0


def _say_where_it_is(status: Status, data: dict) -> None:
    """Add the phase, the step, the ages, and how the last attempt ended."""
    phase = status.state if status.state in ("stopped", "deadline") else status.phase
    words = [f"phase {phase or 'not given'}"]
    words += [] if status.attempt is None else [f"attempt {status.attempt}"]
    words += [] if status.step is None else [f"step {status.step}"]
    words += [f"heartbeat {_ago(status.heartbeat_age)}", f"log {_ago(_number(data, 'log_age'))}"]
    status.evidence.append(", ".join(words))
    if status.exit is not None or status.failure:
        failure = f", class {status.failure}" if status.failure else ""
        entry = f", entry {status.entry}" if status.entry else ""
        status.evidence.append(f"exit {_or_none(status.exit)}{failure}{entry}")
        if status.failure in _RUNNER and status.state == "failed":
            does = _RUNNER[status.failure]
            if status.failure == "bug" and status.exit == 0:
                does = "doesn't retry a program that ended with 0: it saw no error itself"
            status.evidence.append(f"{status.failure}: the runner {does}")
    if status.reason:
        status.evidence.append(f"reason: {status.reason}")


def _lost_runner(data: dict, beat: float | None) -> str:
    """Return why a live program has no runner that looks after it; '' if it has."""
    if data.get("runner_alive") is False:
        return (
            "the program is alive but its runner is gone: no copies, no retries, "
            "no stall detection; "
            + (SUPERVISOR if data.get("supervisor_alive") is True else "")
            + "rgt resume goes on with the program"
        )
    if beat is not None and beat > SILENT:
        return (
            f"the runner gave no sign of life for {beat:.0f} s: no copies, no retries; "
            "check whether a disk there hangs"
        )
    return ""


def _warn(status: Status, data: dict, now: float) -> None:
    """Add warnings that matter in any state."""
    evidence, going = status.evidence, status.state in ("alive", "stalled")
    over = status.state in ("finished", "stopped")  # nothing happens at its deadline any more
    if status.deadline and not over:  # 0 before the first start
        left = shown_seconds(abs(status.deadline - now))
        is_ahead = status.deadline > now
        evidence.append(f"deadline in {left}" if is_ahead else f"deadline passed {left} ago")
        if going and data.get("supervisor_alive") is False:
            last = shown(_text(data, "backstop"), 40)
            then = f"only {last} ends the program" if last else "nothing on the box ends the run"
            evidence.append(f"the supervisor is gone: {then} at the deadline")
    sync = data.get("last_sync")
    if isinstance(sync, dict):
        t = _number(sync, "t")
        when, to = _ago(None if t is None else now - t), shown(sync.get("to", ""), 120)
        evidence.append(f"last sync {_outcome(sync)}, {when}, to {to}")
        evidence += _safe(data.get("safe"), sync, now)
    missing = data.get("expect_missing")
    if isinstance(missing, list) and missing and not going:
        evidence.append("missing results: " + ", ".join(shown(path, 100) for path in missing[:10]))
    free = _number(data, "disk_free_mb")
    if free is not None and free < 2000:
        evidence.append(f"disk: {free:.0f} MB free")
    if _text(data, "saving"):
        evidence.append(f"it ends after a save: {shown(data['saving'], 300)}")
    if _text(data, "cost"):
        evidence.append(f"the end: {shown(data['cost'], 300)}")
    if _text(data, "note"):
        evidence.append(f"note: {shown(data['note'], 600)}")
    if status.probe:
        evidence.append(f"probe: {status.probe}")
    if _text(data, "gpu") and not status.gpus:
        evidence.append(f"gpu: {shown(data['gpu'], 120)}")


def _safe(safe: object, sync: dict, now: float) -> list[str]:
    """Say how old the checkpoint is that is safe at the durable place, and what isn't there."""
    notes = sync.get("notes")
    lines = [shown(note, 200) for note in notes[:5]] if isinstance(notes, list) else []
    if isinstance(safe, dict) and _text(safe, "verified"):
        saved, step = _number(safe, "saved"), _number(safe, "step")
        about = "" if safe.get("named") else "about "
        at = "" if step is None else f"{about}step {step:.0f}, "
        when = _ago(None if saved is None else now - saved)
        lines.insert(0, f"safe checkpoint: {at}saved {when}, {shown(safe['verified'], 200)}")
    return lines


def _outcome(sync: dict) -> str:
    absent = sync.get("absent")
    absent = ", ".join(shown(item, 60) for item in absent[:5]) if isinstance(absent, list) else ""
    if sync.get("ok") is not True:
        return f"not verified (missing: {absent})" if absent else "not verified"
    # While a run goes on, new files are copied; verified, by their content, they are at its end.
    word = "copied" if sync.get("verified") is False else "verified"
    if absent:
        copied = _number(sync, "copied")
        return f"{f'{word}, but incomplete' if copied else 'copied nothing'} (missing: {absent})"
    return word


def _text(data: dict, key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _number(data: dict, key: str) -> float | None:
    return finite(data.get(key))


def _whole(data: dict, key: str) -> int | None:
    value = _number(data, key)
    return None if value is None else int(value)


def _or_none(value: int | None) -> str:
    return "none" if value is None else str(value)


def _ago(seconds: float | None) -> str:
    return "never" if seconds is None else f"{max(0.0, seconds):.0f} s ago"


def cards_named(cards: object) -> list[str]:
    """Return the name of each card in what the runner says of a box's cards."""
    names = [_CARD.split(shown(one, 120))[0].strip() for one in str(cards or "").split(";")]
    return [name for name in names if name]
