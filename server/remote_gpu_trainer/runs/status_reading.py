"""The answer of a run's own script to a state. Pure. Nothing in it is trusted: types are checked, texts are cut, cleaned and masked.

States: alive, finished, failed, preempted, stalled; nothing (no run there); unreachable (no answer from the box); unknown (an answer
that can't be read).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field

from ..numbers import finite
from ..text.masking import shown, shown_lines

ENDED = {"done": "finished", "failed": "failed", "preempted": "preempted"}
GOING = ("preflight", "staging", "running", "saving", "syncing")
BAD = ("failed", "stalled", "preempted", "nothing")
SILENT = 600  # seconds without a heartbeat after which a runner hangs; to read a large checkpoint takes minutes
_ENTRY = re.compile(r"[A-Z][A-Z0-9]{0,9}\Z")


@dataclass
class Status:
    """What is known about a run. `evidence`: what the state is judged by, shown texts. `matches`: entries that explain it, id and title."""

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
    heartbeat_age: float | None = None
    log: str = ""
    evidence: list[str] = field(default_factory=list)
    matches: list[dict] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    waited: float | None = None
    ceiling: bool = False
    numbers: str = ""  # why a run that goes on or ended well makes nothing of worth

    def as_dict(self) -> dict:
        return asdict(self)

    @property
    def code(self) -> int:
        """The exit code: 0 alive or finished, 1 bad or with a loss that is nan, 2 could not tell."""
        return (
            int(bool(self.numbers))
            if self.state in ("alive", "finished")
            else 1
            if self.state in BAD
            else 2
        )


def read(name: str, reply: str, cut: bool, run: str, now: float, errors: str = "") -> Status:
    """What the program's reply says. Pure."""
    head, found, body = reply.partition("\nrgt-status\n")
    told = [line.partition(" ") for line in head.splitlines()]
    runs = [shown(value, 100) for kind, _, value in told if kind == "rgt-run"]
    place = shown(next((value for kind, _, value in told if kind == "rgt-dir"), ""), 300)
    status = Status("unknown", name, place, runs=runs)
    if not found:
        wanted = f"a run script in {place}" if run else "a run under ~/runs"
        status.state, status.text = (
            "nothing",
            f"found no run on {name}, expected {wanted}; do: start one, or name its folder with --run",
        )
        return status
    try:
        data = json.loads(body[body.index("{") : body.rindex("}") + 1])
    except (ValueError, RecursionError):
        last = next(iter(shown_lines(errors or body, 1, 160)), "nothing")
        what = "a reply over 4 MB" if cut else "a reply that isn't JSON"
        status.why, status.text = (
            "unreadable",
            f"found {what} from {place}/run.sh status ({last}), expected one JSON object; do: look at the script there",
        )
        return status
    _fill(status, data)
    _judge(status, data, now)
    if status.state in ("alive", "finished"):
        _hear(status)
    return status


def _hear(status: Status) -> None:
    """Whether the numbers at the end of the log say that the loss is lost: every further hour of such a run is paid for nothing."""
    from ..numbers import curves, metric_series  # only where a run seems well

    for finding in curves.findings(
        metric_series.of_rows([(at, line.encode()) for at, line in enumerate(status.tail, 1)])
    ):
        if finding.lost:
            status.numbers, status.entry = (
                f"by the end of the log {finding.said}",
                status.entry or finding.entry,
            )
            status.evidence.insert(
                0,
                f"{status.numbers}: what it makes is worth nothing; do: remote-gpu-trainer lookup --id {finding.entry}",
            )
            return


def _fill(status: Status, data: dict) -> None:
    status.phase, status.failure, status.reason = (
        shown(_text(data, key), 300) for key in ("phase", "class", "reason")
    )
    status.step, status.attempt, status.exit = (
        _whole(data, key) for key in ("step", "attempt", "exit")
    )
    status.deadline, status.heartbeat_age = (
        _number(data, "deadline"),
        _number(data, "heartbeat_age"),
    )
    status.log = shown(_text(data, "log"), 300)
    status.tail = shown_lines(_text(data, "tail"), 40, 300)
    entry = _text(data, "entry")
    status.entry = entry if _ENTRY.match(entry) else ""


def _judge(status: Status, data: dict, now: float) -> None:
    """The state, and the lines it is judged by, most telling first."""
    alive, stalled, said = data.get("alive") is True, data.get("stalled") is True, status.evidence
    where = f"phase {status.phase or 'not given'}, attempt {_or_none(status.attempt)}, step {_or_none(status.step)}"
    log_age = _number(data, "log_age")
    if status.phase in ENDED:
        status.state = ENDED[status.phase]
    elif status.phase == "new" and not alive:
        status.state, status.text = (
            "nothing",
            f"found the run in {status.dir} not started, expected a started one; do: bash run.sh start there",
        )
    elif status.phase in GOING or status.phase == "new":
        lost = _lost_runner(data, status.heartbeat_age) if alive else ""
        status.state = "stalled" if alive and (stalled or lost) else "alive" if alive else "failed"
        said += [lost] if lost else []
        if data.get("elsewhere") is True:
            said.append(
                f"the run is on {shown(_text(data, 'host'), 80) or 'another machine'}, judged by its heartbeat alone: its processes can't be seen from here"
            )
        if not alive:
            said.append(
                "no process of the run is there, and it left no word: killed, or the box was started again"
            )
            status.failure = status.failure or "killed"
    else:
        status.why, status.text = (
            "unreadable",
            f"found phase {status.phase!r} from {status.dir}, expected one of {', '.join((*ENDED, 'new', *GOING))}",
        )
    said.append(f"{where}, heartbeat {_ago(status.heartbeat_age)}, log {_ago(log_age)}")
    if status.exit is not None or status.failure:
        said.append(
            f"exit {_or_none(status.exit)}{', class ' + status.failure if status.failure else ''}{', entry ' + status.entry if status.entry else ''}"
        )
    if status.reason:
        said.append(f"reason: {status.reason}")
    _warn(status, data, now)
    if status.state in ("failed", "stalled"):
        said += [f"log: {line}" for line in status.tail[-6:]]


def _lost_runner(data: dict, beat: float | None) -> str:
    """Why nobody looks after a program that lives on; '' where somebody does."""
    if data.get("runner_alive") is False:
        return "the runner is gone or stopped, its program is not: no copies, no retries, no test for a stall; do: bash run.sh start"
    if beat is not None and beat > SILENT:
        return f"the runner has not moved for {beat:.0f} s: no copies, no retries; do: look whether a disk there hangs"
    return ""


def _warn(status: Status, data: dict, now: float) -> None:
    """What a reader should know whatever the state is."""
    said, going = status.evidence, status.state in ("alive", "stalled")
    if status.deadline:  # 0 before the first start
        hours = (status.deadline - now) / 3600
        said.append(
            f"deadline in {hours:.1f} h" if hours > 0 else f"deadline passed {-hours:.1f} h ago"
        )
        if going and data.get("keeper_alive") is False:
            said.append("the deadline's keeper is not alive: nothing on the box ends the run")
    sync = data.get("last_sync")
    if isinstance(sync, dict):
        t = _number(sync, "t")
        said.append(
            f"last sync {_outcome(sync)}, {_ago(None if t is None else now - t)}, to {shown(sync.get('to', ''), 120)}"
        )
    missing = data.get("expect_missing")
    if isinstance(missing, list) and missing and not going:
        said.append(
            "expected results missing: " + ", ".join(shown(path, 100) for path in missing[:10])
        )
    free = _number(data, "disk_free_mb")
    if free is not None and free < 2000:
        said.append(f"disk: {free:.0f} MB free")
    if _text(data, "gpu"):
        said.append(f"gpu: {shown(data['gpu'], 120)}")


def _outcome(sync: dict) -> str:
    absent = sync.get("absent")
    absent = (
        ", ".join(shown(item, 60) for item in absent[:5])
        if isinstance(absent, list) and absent
        else ""
    )
    if sync.get("ok") is not True:
        return f"not verified (not there: {absent})" if absent else "not verified"
    if absent:
        return (
            f"verified (but not there: {absent})"
            if _number(sync, "copied")
            else f"copied nothing (not there: {absent})"
        )
    return "verified"


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
