"""How a run on a box is: one ssh call to the run's own script, its answer judged, and a wait.

States: alive, finished, unsaved (trained to its end, and the last copy isn't verified), failed,
preempted, stalled; nothing (no run there); unreachable (no answer from the box); unknown (an answer
that can't be read). Nothing in an answer is trusted: types are checked, texts are cut, cleaned and
masked.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from ..boxes import box as boxes
from ..boxes.box import Box
from ..numbers import finite
from ..text.masking import shown, shown_lines

LIMIT = 30  # seconds for one question
INTERVAL = 30.0  # seconds between questions
MOST_PAUSE = 60.0  # seconds between questions while the box doesn't answer, at most
LOST = 900.0  # seconds without an answer after which the box counts as unreachable
FOR_GOOD = ("host-key-unknown", "host-key-changed", "restricted", "no-ssh")  # waiting doesn't help
AT_FIRST = ("name", "auth")  # nor here, unless the box has answered before

ENDED = {"done": "finished", "failed": "failed", "preempted": "preempted", "unsaved": "unsaved"}
GOING = ("preflight", "staging", "running", "saving", "syncing")
BAD = ("failed", "stalled", "preempted", "nothing", "unsaved")
SILENT = 600  # seconds without a heartbeat: the runner hangs. Reading a large checkpoint: minutes
_ENTRY = re.compile(r"[A-Z][A-Z0-9]{0,9}\Z")

# Runs on the box. A folder's name may hold anything; a line break in it becomes '?'.
ASK = r"""
main() {
  set -u
  local want=$1 dir='' best='' one mark count=0
  tell() { printf '%s %s\n' "$1" "$(printf '%s' "$2" | tr '\n\r' '??')"; }
  case $want in
    '~/'*) dir=$HOME/${want#'~/'} ;;
    /*) dir=$want ;;
    */*) dir=$HOME/$want ;;
    ?*) dir=$HOME/runs/$want ;;
    *)
      for one in "$HOME"/runs/*/; do
        one=${one%/}
        [ -f "$one/run.sh" ] || continue
        count=$((count + 1))
        [ "$count" -gt 100 ] || tell rgt-run "${one##*/}"
        mark=$one/state.json
        [ -e "$mark" ] || mark=$one/run.sh
        if [ -z "$dir" ] || [ "$mark" -nt "$best" ]; then dir=$one best=$mark; fi
      done
      ;;
  esac
  tell rgt-dir "$dir"
  [ -n "$dir" ] && [ -f "$dir/run.sh" ] || return 0
  printf 'rgt-status\n'
  bash "$dir/run.sh" status --json </dev/null
}
main "$@"
"""


@dataclass
class Status:
    """What is known about a run.

    `evidence`: the lines that the state follows from. `matches`: entries that explain it, as
    `explanations` gives them. `numbers`: why a run that goes on, or ended well, is
    worthless; else ''.
    `deadline`: seconds since 1970. `heartbeat_age`, `waited`: seconds. `ceiling`: the wait ended
    because its time was over.
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
    heartbeat_age: float | None = None
    log: str = ""
    evidence: list[str] = field(default_factory=list)
    matches: list[dict] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    waited: float | None = None
    ceiling: bool = False
    numbers: str = ""

    def as_dict(self) -> dict:
        """All fields, as `status --json` prints them."""
        return asdict(self)

    @property
    def code(self) -> int:
        """The exit code: 0 alive or finished, 1 bad or with a loss of nan, 2 could not tell."""
        if self.state in ("alive", "finished"):
            return int(bool(self.numbers))
        return 1 if self.state in BAD else 2


def ask(box: Box, run: str = "", *, accept_new: bool = False, now: float | None = None) -> Status:
    """The state of a run, by one call.

    `run`: a name under ~/runs, or a folder on the box; '' for the newest run.
    """
    reply = boxes.run(box, ASK, args=(run,), limit=LIMIT, accept_new=accept_new)
    name = shown(box.name, 80)
    if reply.outcome == "unreachable":
        return Status("unreachable", name, why=reply.why, text=reply.text)
    if reply.outcome == "overtime":
        text = f"{reply.text}; check whether a disk there hangs"
        return Status("unknown", name, why="overtime", text=text)
    out, now = reply.out.decode("utf-8", "replace"), time.time() if now is None else now
    return read(name, out, reply.cut, run, now, reply.errors)


def wait(
    question: Callable[[], Status],
    *,
    most: float,
    interval: float = INTERVAL,
    lost: float = LOST,
    clock=time.monotonic,
    sleep=time.sleep,
) -> Status:
    """Ask until the run isn't alive any more, its loss is nan, or `most` seconds are over.

    A box that doesn't answer is asked again, for `lost` seconds: it doesn't mean that the run died.
    """
    began, silent_since, tries, reached = clock(), None, 0, False
    while True:
        status = question()
        now = clock()
        status.waited = now - began
        if status.state in ("unreachable", "unknown"):
            silent_since, tries = now if silent_since is None else silent_since, tries + 1
            if status.why in FOR_GOOD or (not reached and status.why in AT_FIRST):
                return status
            if now - silent_since >= lost:
                before = "" if reached else ", and none before"
                status.evidence.append(
                    f"no answer for {(now - silent_since) / 60:.0f} min{before}; "
                    "the run may still be alive"
                )
                return status
            pause = min(5.0 * 2 ** min(tries - 1, 9), MOST_PAUSE, lost - (now - silent_since))
        else:
            silent_since, tries, reached, pause = None, 0, True, interval
            if status.state != "alive" or status.numbers:
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
    if status.state not in ("failed", "stalled", "preempted") and not status.numbers:
        return
    from ..lookup.explanations import explanations

    by = "the numbers at the log's end" if status.numbers else "the run's own script"
    further = status.state != "preempted" and not status.numbers
    status.matches += explanations(status.tail, status.entry, by, status.reason, further)
    if not any(match["by"] == by for match in status.matches):
        status.entry = ""  # none of this catalogue


def as_text(status: Status) -> str:
    """The status for a terminal."""
    at_ceiling = " (unchanged when the wait ended)" if status.ceiling else ""
    out = [f"{status.state}: {status.dir or status.box}{at_ceiling}"]
    out += [f"    {status.text}"] if status.text else []
    out += [f"    {line}" for line in status.evidence]
    for match in status.matches:
        out.append(f"    {match['id']}  {match['title']} ({match['by']})")
        told = (("cause in the", "domain"), ("another try", "retry"), ("shown by", "proof"))
        said = [f"{name}: {match[key]}" for name, key in told if match[key]]
        out += [f"        {line}" for line in [*said, f"check: {match['check']}"]]
    if len(status.runs) > 1:
        out.append(f"    runs there: {', '.join(status.runs)}; pick one with --run")
    return "\n".join(out)


def read(name: str, reply: str, cut: bool, run: str, now: float, errors: str = "") -> Status:
    """The state that a reply of ASK tells. `now`: seconds since 1970. Pure."""
    head, found, body = reply.partition("\nrgt-status\n")
    told = [line.partition(" ") for line in head.splitlines()]
    runs = [shown(value, 100) for kind, _, value in told if kind == "rgt-run"]
    place = shown(next((value for kind, _, value in told if kind == "rgt-dir"), ""), 300)
    status = Status("unknown", name, place, runs=runs)
    if not found:
        missing = f"no run script in {place}" if run else "no run under ~/runs"
        status.state = "nothing"
        status.text = f"{missing} on {name}; start one, or name its folder with --run"
        return status
    try:
        data = json.loads(body[body.index("{") : body.rindex("}") + 1])
    except (ValueError, RecursionError):
        last = next(iter(shown_lines(errors or body, 1, 160)), "nothing")
        what = "more than 4 MB" if cut else "no JSON"
        status.why = "unreadable"
        status.text = f"{place}/run.sh status printed {what} ({last}); look at the script there"
        return status
    _fill(status, data)
    _judge(status, data, now)
    if status.state in ("alive", "finished"):
        _check_numbers(status)
    return status


def _check_numbers(status: Status) -> None:
    """Note a loss of nan at the end of the log: each further hour of such a run is wasted."""
    from ..numbers import curves, metric_series  # only where a run seems well

    rows = [(at, line.encode()) for at, line in enumerate(status.tail, 1)]
    for finding in curves.findings(metric_series.of_rows(rows)):
        if finding.lost:
            status.numbers = f"at the end of the log {finding.said}"
            status.entry = status.entry or finding.entry
            status.evidence.insert(
                0,
                f"{status.numbers}: the result is worthless; see rgt lookup --id {finding.entry}",
            )
            return


def _fill(status: Status, data: dict) -> None:
    status.phase, status.failure, status.reason = (
        shown(_text(data, key), 300) for key in ("phase", "class", "reason")
    )
    status.step, status.attempt, status.exit = (
        _whole(data, key) for key in ("step", "attempt", "exit")
    )
    status.deadline = _number(data, "deadline")
    status.heartbeat_age = _number(data, "heartbeat_age")
    status.log = shown(_text(data, "log"), 300)
    status.tail = shown_lines(_text(data, "tail"), 40, 300)
    entry = _text(data, "entry")
    status.entry = entry if _ENTRY.match(entry) else ""


def _judge(status: Status, data: dict, now: float) -> None:
    """Set the state and its evidence, the most telling line first."""
    alive, stalled, said = data.get("alive") is True, data.get("stalled") is True, status.evidence
    if status.phase in ENDED:
        status.state = ENDED[status.phase]
        missing = data.get("expect_missing") or None
        if status.state == "finished" and (status.exit or status.failure or missing):
            status.state = "failed"
            said.append("the run calls itself done, and what it left says otherwise: see below")
        if status.state == "unsaved":
            said.append(
                "what the run made is on that box only: keep it, run bash run.sh sync there, or "
                "bring it home with rgt release"
            )
    elif status.phase == "new" and not alive:
        status.state = "nothing"
        status.text = f"the run in {status.dir} has not been started; run bash run.sh start there"
    elif status.phase in GOING or status.phase == "new":
        lost = _lost_runner(data, status.heartbeat_age) if alive else ""
        status.state = "stalled" if alive and (stalled or lost) else "alive" if alive else "failed"
        said += [lost] if lost else []
        if data.get("elsewhere") is True:
            host = shown(_text(data, "host"), 80) or "another machine"
            said.append(
                f"the run is on {host}, whose processes can't be seen from here: "
                "only its heartbeat is judged"
            )
        if not alive:
            said.append(
                "the run's processes are gone and left no end state: "
                "they were killed, or the box restarted"
            )
            status.failure = status.failure or "killed"
    else:
        status.why = "unreadable"
        status.text = (
            f"{status.dir}/run.sh status tells an unknown phase, {status.phase!r}; "
            "look at the script there"
        )
    said.append(
        f"phase {status.phase or 'not given'}, attempt {_or_none(status.attempt)}, "
        f"step {_or_none(status.step)}, heartbeat {_ago(status.heartbeat_age)}, "
        f"log {_ago(_number(data, 'log_age'))}"
    )
    if status.exit is not None or status.failure:
        failure = f", class {status.failure}" if status.failure else ""
        entry = f", entry {status.entry}" if status.entry else ""
        said.append(f"exit {_or_none(status.exit)}{failure}{entry}")
    if status.reason:
        said.append(f"reason: {status.reason}")
    _warn(status, data, now)
    if status.state in ("failed", "stalled"):
        said += [f"log: {line}" for line in status.tail[-6:]]


def _lost_runner(data: dict, beat: float | None) -> str:
    """Why no runner looks after a program that is alive; '' where one does."""
    if data.get("runner_alive") is False:
        return (
            "the program is alive but its runner is gone or stopped: no copies, no retries, "
            "no stall detection; run bash run.sh start"
        )
    if beat is not None and beat > SILENT:
        return (
            f"the runner gave no sign of life for {beat:.0f} s: no copies, no retries; "
            "check whether a disk there hangs"
        )
    return ""


def _warn(status: Status, data: dict, now: float) -> None:
    """Add what a reader should know in any state."""
    said, going = status.evidence, status.state in ("alive", "stalled")
    if status.deadline:  # 0 before the first start
        hours = (status.deadline - now) / 3600
        said.append(
            f"deadline in {hours:.1f} h" if hours > 0 else f"deadline passed {-hours:.1f} h ago"
        )
        if going and data.get("keeper_alive") is False:
            last = shown(_text(data, "backstop"), 40)
            then = f"only {last} ends the program" if last else "nothing on the box ends the run"
            said.append(f"the keeper is gone: {then} at the deadline")
    sync = data.get("last_sync")
    if isinstance(sync, dict):
        t = _number(sync, "t")
        when, to = _ago(None if t is None else now - t), shown(sync.get("to", ""), 120)
        said.append(f"last sync {_outcome(sync)}, {when}, to {to}")
    missing = data.get("expect_missing")
    if isinstance(missing, list) and missing and not going:
        said.append("missing results: " + ", ".join(shown(path, 100) for path in missing[:10]))
    free = _number(data, "disk_free_mb")
    if free is not None and free < 2000:
        said.append(f"disk: {free:.0f} MB free")
    if _text(data, "gpu"):
        said.append(f"gpu: {shown(data['gpu'], 120)}")


def _outcome(sync: dict) -> str:
    absent = sync.get("absent")
    absent = ", ".join(shown(item, 60) for item in absent[:5]) if isinstance(absent, list) else ""
    if sync.get("ok") is not True:
        return f"not verified (missing: {absent})" if absent else "not verified"
    if absent:
        copied = _number(sync, "copied")
        return f"{'verified, but incomplete' if copied else 'copied nothing'} (missing: {absent})"
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
