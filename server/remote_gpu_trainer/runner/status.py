"""The verb status: what the folder tells of a run. It reads only."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

from ..text.masking import strip_controls
from . import (
    backstop,
    child,
    content,
    deadline,
    elsewhere,
    end_words,
    failures,
    history,
    log,
    procs,
    safe,
    saved_elsewhere,
    saving,
    why,
)
from .collectors import least_room
from .context import Run
from .copies.records import SAFE
from .core.phases import GOING
from .folder import ATTEMPT
from .state import StateFile

MOST_LOG = 16 << 20  # bytes of the log's end in which saves are looked for
TAIL = 4000  # bytes of the log's end
LAST = 12  # lines with which an attempt that failed ended
_SHOWN = (
    "name", "box", "phase", "alive", "runner_alive", "elsewhere", "host", "attempt", "step", "exit",
    "class", "entry", "reason", "decision", "heartbeat_age", "log_age", "stalled", "waits",
    "saving", "gpu", "disk_free_mb", "checkpoint", "cost", "note", "probe", "last_sync",
    "deadline", "supervisor_alive", "backstop", "log",
)  # fmt: skip


# What only a runner's last heartbeat tells.
_HEARTBEAT = ("gpu", "stalled", "reading", "progress", "course", "gpus", "disk_free", "disk_total")


def status(run: Run, as_json: bool) -> int:
    """Print the state; 2 where the folder can't be read."""
    if run.folder.is_closed():
        print(f"can't read {run.folder.path}; ask as its owner, or as root")
        return 2
    reply = look(run)
    if as_json:
        print(json.dumps(reply))
        return 0
    for name in _SHOWN:
        value = reply[name]
        if name == "decision" and value:
            value = failures.in_words(value)
        if not isinstance(value, str):
            value = "" if value is None else json.dumps(value)
        print(f"{name:<14} {strip_controls(value)}")
    print(reply["tail"], end="")
    return 0


def look(run: Run) -> dict[str, Any]:
    """Return all keys of `status --json`."""
    state = StateFile(run)
    state.read()
    written = run.folder.json("state.json")
    end = run.folder.ended()
    if end == "done" or (end and state.phase != "syncing"):
        state.phase = end
        _take_marker(state, run.folder.json(f".{end}"))
    reply = {**state.as_dict(), **{k: written[k] for k in _HEARTBEAT if k in written}}
    updated = written.get("updated", 0)
    pid = procs.alive(run.folder, "runner")
    train = bool(procs.alive(run.folder, "train"))
    is_supervised = bool(procs.alive(run.folder, "supervisor"))
    reply.update(
        updated=updated,
        alive=bool(pid or train),
        runner_alive=bool(pid),
        supervisor_alive=is_supervised,
        backstop=backstop.VERB if is_supervised or backstop.is_there(run.folder.path) else "",
        expect_missing=written.get("expect_missing", []),
        boot_id=written.get("boot_id") or procs.boot_id(),
        billed=run.spec.rendered.billed,
    )
    if not reply["alive"]:
        found = elsewhere.look(run, state)
        if found is not None:
            reply.update(alive=found.fresh, runner_alive=found.fresh, elsewhere=True)
            reply.update(host=found.host, supervisor_alive=None)
    if not reply["alive"] and state.phase == "new" and end:
        reply["phase"] = end
    now = time.time()
    beat = max(procs.beat_of(run.folder) or 0, updated or 0)
    reply["heartbeat_age"] = int(now - beat) if beat else None
    _add_log(run, reply, now)
    reply["saving"] = run.folder.read(saving.FILE).strip() if reply["alive"] else ""
    reply["box"] = "" if run.folder.has("quiet") else _still_on(run)
    reply["signs"] = signs(run, reply["checkpoint"]) if train else {}
    first = deadline.first_start(run)
    reply["first_start"] = int(first) if first else None
    at = run.folder.number(deadline.FILE)
    reply["deadline"] = int(at) if at else reply["deadline"]
    waits = bool(pid) and reply["phase"] == "running" and run.folder.has(why.WAITS)
    reply["disk_free_mb"] = written.get("disk_free_mb")
    if not reply["elsewhere"] and (waits or not pid or reply["disk_free_mb"] is None):
        free = _free(run)
        reply["disk_free_mb"] = reply["disk_free_mb"] if free is None else free
    if waits:
        _add_wait(run, reply, now)
    limit = run.spec.stall.log_minutes * 60
    if reply["alive"] and reply["phase"] == "running" and 0 < limit < (reply["log_age"] or 0):
        reply["stalled"] = True
    state.phase = reply["phase"]
    if not reply["alive"] and state.phase in GOING:
        state.phase, state.failure = "failed", state.failure or "killed"
    step = reply["signs"].get("step")
    if not (pid or end or reply["elsewhere"]):  # nobody wrote down what came since
        reply["checkpoint"] = safe.newest_here(run) or reply["checkpoint"]
        step = content.find_furthest(_newest_step(run), reply["checkpoint"])
    reply["checkpoint"] = state.checkpoint = safe.name_if_usable(run, reply["checkpoint"])
    reply["saved_elsewhere"] = _saved_elsewhere(run) if end and not reply["alive"] else []
    reply["decision"] = None if reply["alive"] else state.decision()
    reply["safe"] = run.folder.json(SAFE) or None
    _add_course(run, reply, now, step)
    return reply


def _add_course(run: Run, reply: dict[str, Any], now: float, step: int | None) -> None:
    """Add what the numbers of the log tell: `numbers`, `progress`, `course` and `attempts`.

    `step`: of the log at this moment.
    """
    reading = reply.pop("reading")
    reading = reading if isinstance(reading, dict) else {}
    newest = reading.get("newest")
    reply["numbers"] = dict(newest) if isinstance(newest, dict) else {}
    if isinstance(reading.get("best"), dict):
        reply["numbers"]["best_val_loss"] = reading["best"]
    epoch = reading.get("epoch")
    if epoch is not None:
        reply["numbers"]["epoch"] = {
            "value": epoch,
            "step": reading.get("step"),
            "t": reply["updated"],
        }
    progress = reply["progress"] if isinstance(reply["progress"], dict) else {}
    age = max(now - (reply["updated"] or now), 0.0)
    for name in ("seconds_left", "seconds_left_low", "seconds_left_high"):
        if name in progress:
            progress[name] = max(round(progress[name] - age), 0)
    if not reply["alive"] or reply["phase"] != "running":
        kept = ("step", "total", "percent")
        progress = {name: progress[name] for name in kept if name in progress}
    reply["progress"] = progress
    if not reply["alive"]:
        reply["gpus"] = []
    # Newer than the last heartbeat, and of the run as that one's was.
    total = progress.get("total")
    if step is not None and (reading.get("is_printed") or reading.get("step") is None):
        reply["step"] = step
        if step >= progress.get("step", step + 1) and (not total or step <= total):
            progress["step"] = step
            progress.update({"percent": round(100.0 * step / total, 1)} if total else {})
    named = content.step_of(reply["checkpoint"]) if reply["checkpoint"] else None
    reply["checkpoint_step"] = reply["checkpoint_step"] if named is None else named
    reply["checkpoint_step_is_named"] = named is not None  # else it is the log's when it was saved
    reply["asked"] = run.folder.read("asked").strip() if reply["alive"] else ""
    events = run.folder.read("events.jsonl")
    reply["attempts"], reply["failed_attempt"] = (
        history.attempts(events),
        _failed_attempt(run, events),
    )


def _saved_elsewhere(run: Run) -> list[list[Any]]:
    """Return [path, bytes] of what the log of a run that ended says was saved outside of it."""
    kept = [run.durable] if run.durable.startswith("/") else []
    kept += [run.checkpoints] if run.durable and run.checkpoints else []
    with suppress(OSError, ValueError):
        return saved_elsewhere.find(run.base, run.work, kept, MOST_LOG)
    return []


def _failed_attempt(run: Run, events: str) -> dict[str, Any] | None:
    """Return {"attempt", "reason", "lines"} of the newest attempt that ended with an error, with
    the last lines of its log; None for none."""
    found = history.last_failure(events)
    if not found:
        return None
    first, following, lines = found.pop("from"), found.pop("before"), []
    if isinstance(first, int):
        end = (following, 0) if isinstance(following, int) else None
        lines = _lines(log.tail(run, first, TAIL, end))[-LAST:]
    return {**found, "lines": lines}


def _lines(text: bytes) -> list[str]:
    """Return the lines that aren't empty, each state of a bar as one."""
    lines = text.decode("utf-8", "replace").replace("\r", "\n").split("\n")
    return [line for line in map(strip_controls, lines) if line.strip()]


def _still_on(run: Run) -> str:
    """Return why the box is still on although it was to end, '' where nothing says so."""
    text = run.folder.json(end_words.RECORD).get("text")
    return text if isinstance(text, str) else ""


def signs(run: Run, checkpoint: str) -> dict[str, Any]:
    """Return what shows that this attempt trains: a step in its own log, a checkpoint that it made,
    and the seconds of CPU time that its processes have used."""
    began = str(run.folder.json(ATTEMPT).get("checkpoint") or "")
    is_new = bool(checkpoint) and not began.startswith(f"{checkpoint} ")
    pids = procs.of_program(run.folder, procs.alive(run.folder, "train"))
    return {
        "step": _newest_step(run),
        "checkpoint": checkpoint if is_new else "",
        "cpu_seconds": round(procs.cpu_seconds(pids), 1),
    }


def _newest_step(run: Run) -> int | None:
    """Return the step that the attempt's own log tells at this moment."""
    first = run.folder.json(ATTEMPT).get("log_first")
    return log.find_step(run, log.tail(run, first, 65536)) if isinstance(first, int) else None


def _take_marker(state: StateFile, marker: dict[str, Any]) -> None:
    """Take over what the marker says, where a full disk kept an older state."""
    names = {"class": "failure", "entry": "entry", "reason": "reason", "again": "again",
             "exit": "exit", "step": "step", "attempt": "attempt",
             "checkpoint": "checkpoint", "is_nan": "is_nan",
             "before_nan": "before_nan"}  # fmt: skip
    for key, name in names.items():
        if key in marker:
            setattr(state, name, marker[key])


def _add_log(run: Run, reply: dict[str, Any], now: float) -> None:
    """Add the newest log file, its age, and its last lines."""
    files = log.files(run)
    reply["log"], reply["log_age"], reply["tail"] = files[-1] if files else "", None, ""
    if not files:
        return
    with suppress(OSError):
        reply["log_age"] = int(max(now - os.stat(files[-1]).st_mtime, 0))
        with open(files[-1], "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - 4 * TAIL, 0))
            lines = _lines(file.read())[-40:]
        shown = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        reply["tail"] = shown[-TAIL:].decode("utf-8", "ignore")


def _add_wait(run: Run, reply: dict[str, Any], now: float) -> None:
    """Add what a runner waits for before the next attempt: for a copy, which it wrote down, or for
    room, of which it couldn't, and which a person may have to make."""
    if text := run.folder.read(why.WAITS).strip():
        reply["waits"] = text
        return
    full, reply["stalled"] = why.full_folder(run), True
    left = run.spec.timings.room_wait - (now - run.folder.changed(why.WAITS))
    reply["waits"] = f"for room, {max(left, 0) / 60:.0f} minutes more at most, then tries again"
    reply["class"], reply["entry"] = "disk", failures.entry_of(run.spec, "disk")
    reply["reason"] = f"no room left in {full}" if full else "there is room again"


def _free(run: Run) -> int | None:
    """Return the least free megabytes beside run and checkpoints; a mount that hangs says
    nothing."""
    folders = [run.folder.path] + ([run.checkpoints] if run.checkpoints else [])
    code, said = child.ask(run, 1, None, ["df", "-Pk", "--", *folders])
    return None if code is None else least_room(said)
