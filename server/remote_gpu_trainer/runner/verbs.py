"""The verbs that a person or an agent calls: start, stop, save and what they wait for."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from . import (
    checkpoints,
    child,
    content,
    elsewhere,
    ending,
    killing,
    log,
    procs,
    program,
    saving,
    state,
    stopping,
)
from .context import Run, say
from .core.phases import CODES, GOING
from .doing import BOOTED
from .locks import RunLock, try_lock
from .runner import end_if_over, is_leaving, keep_script

BILLED = "the box stays on, and billed if you rent it"


def start(run: Run, again: bool, words: list[str]) -> int:
    """Start the run detached: it goes on without the login. Return when it is past its checks."""
    run.folder.make()
    lock = -1
    with suppress(OSError):  # the run's own lock says why it can't be had
        lock = try_lock(run.folder.at("own/start.lock"))
    if lock is None:
        say(f"{run.spec.name}: another start is under way")
        return CODES["preempted"]
    try:
        return _start(run, again, words)
    finally:
        if lock >= 0:
            os.close(lock)


def _start(run: Run, again: bool, words: list[str]) -> int:
    lock = RunLock(run)
    if refusal := lock.take(wait=5 if is_leaving(run) else 0):
        say(refusal)
        return CODES["preempted"]
    noted = run.folder.changed("lock")
    lock.release()
    over = end_if_over(run, again) if not run.spec.queue.cells else None
    if over is not None:
        return over
    keep_script(run)
    run.folder.remove(".refused")
    try:
        output = child.scratch()  # on a full disk no file says why nothing began
    except OSError:
        output = child.NULL
    verb = "queue" if run.spec.queue.cells else "resume-run" if again else "run"
    runner = child.Command([*run.self_command(verb), *words], output=output, folder="/")
    log = run.folder.at("log", "runner.log")

    def has_begun() -> bool:
        return run.folder.changed("lock") != noted  # the runner noted its pid

    _within(run, 20, lambda: has_begun() or runner.poll())
    if not has_begun():
        if not runner.code and run.folder.has(".done"):
            return end_if_over(run, False) or 0  # its copy came through at this very moment
        lines = _said(output)[-20:]
        for line in lines:
            say(line)
        # A setting that can't be read is refused too.
        code = CODES["refused"] if runner.code == CODES["usage"] else runner.code or 1
        # What it refuses, it says.
        if not lines or code not in (CODES["refused"], CODES["preempted"]):
            say(f"{run.spec.name} did not start; see {log}; rgt pull BOX log/runner.log brings it")
        return code
    _within(run, 45, lambda: _is_past_checks(run))
    if run.folder.has(".refused"):
        _say_refusals(run, output)
        return CODES["refused"]
    script = run.folder.at("run.sh")
    print(
        f"started {run.spec.name} in {run.folder.path}; watch: bash {script} status".replace(
            "\n", " "
        )
    )
    reason = str(run.folder.json("state.json").get("reason", ""))
    if reason.startswith(BOOTED):
        print(reason)
    if sentence := ending.sentence(run):
        print(sentence)
    return 0


def _is_past_checks(run: Run) -> bool:
    # On a full disk the state is still that of an earlier start, which may have ended.
    phase = run.folder.json("state.json").get("phase", "new")
    return (
        (phase in GOING and phase != "preflight")
        or bool(run.folder.ended())
        or not procs.alive(run.folder, "runner")
    )


def _say_refusals(run: Run, output: int) -> None:
    for line in [line for line in _said(output) if line.startswith("refused ")][-20:]:
        say(line)
    if run.spec.rendered.end.command and "deadline" in run.spec.at_end.when:
        script = run.folder.at("run.sh")
        say(f"the end command still runs at the deadline; bash {script} stop calls it off")


def _said(output: int) -> list[str]:
    """Return the lines that the runner has printed so far."""
    if output < 0:
        return []
    text = os.pread(output, 1 << 20, 0).decode("utf-8", "replace")
    return [line for line in text.splitlines() if line.strip()]


def stop(run: Run) -> int:
    """Save now, then end. The box stays as it is."""
    name = run.spec.name
    if run.folder.is_closed():
        say(f"can't read {run.folder.path}; call it as its owner, or as root")
        return 2
    if not _is_here(run):
        found = _elsewhere(run)
        if found:
            say(found)
            return 1
        quiet = _quiet_alarm(run)
        print(f"{name} is not running{quiet}")
        return 0
    run.folder.write("asked", "asked\n")
    before = len(run.folder.read("events.jsonl"))
    pid = procs.alive(run.folder, "runner")
    if pid:
        procs.send([pid], signal.SIGTERM)
    else:
        stopping.wait_for_save(run, "asked", run.spec.checkpoint.save_seconds)
        program.ask_to_save(run, "asked")
    if not _until_stopped(run):
        if procs.alive(run.folder, "runner"):
            say(f"{name} is still saving or syncing; the deadline still applies")
            return 1
        # Nobody is there to do it: the program has had its time for a save.
        if killing.kill_program(run.folder):
            run.event("killed", why="not ended after the save signal, and no runner there")
    if not run.folder.ended():
        now = state.StateFile(run)
        now.read()
        now.failure, now.reason, now.entry, now.exit = "preempted", "asked", "", None
        now.mark("preempted")  # first: a folder that hangs may take minutes to look at
        found = checkpoints.newest(run)
        now.checkpoint = found.path if found else now.checkpoint
        step = content.find_furthest(log.find_step(run, log.tail(run, 0, 65536)), now.checkpoint)
        now.step = now.step if step is None else step
        now.phase = "preempted"
        now.mark("preempted")
        now.write()
    killed = _killed(run, run.folder.read("events.jsonl")[before:])
    cost = str(run.folder.json("state.json").get("cost") or "")
    print("; ".join(filter(None, (killed or f"{name} has stopped", cost, _billed(run)))))
    return 0


def _until_stopped(run: Run) -> bool:
    """Wait until a run has stopped, and say what it waits for. False where it goes on."""
    last_wait, until = "", run.up + run.spec.checkpoint.save_seconds + 30

    def is_over() -> bool:
        nonlocal last_wait, until
        waits = run.folder.read(saving.FILE).strip()
        if waits:
            until = run.up + run.spec.checkpoint.save_seconds + 30
        if waits and waits != last_wait:
            last_wait = waits
            print(f"{run.spec.name}: {waits}", flush=True)
        return bool(run.folder.ended()) and not _is_here(run)

    while not _within(run, max(until - run.up, 0.1), is_over):
        if run.up >= until:
            return False
    return True


def _killed(run: Run, events: str) -> str:
    """Say that the program was killed, and what it leaves, '' where it wasn't, by new events."""
    kills = [json.loads(line) for line in events.splitlines() if '"event": "killed"' in line]
    if not kills:
        return ""
    now = run.folder.json("state.json")
    saved = "" if now.get("cost") else ", without a save"  # the cost says so itself
    if any(event.get("saved") for event in kills):
        saved = f", and had saved {now.get('checkpoint')} since"
    signal_name, seconds = run.spec.save_signal, run.spec.checkpoint.save_seconds
    return f"{run.spec.name} was killed {seconds:g} s after {signal_name} asked it to end{saved}"


def _billed(run: Run) -> str:
    """Say that a stop ends no box, where somebody may rent it out."""
    return BILLED if run.spec.rendered.billed else ""


def save(run: Run) -> int:
    """Save now, then go on."""
    if not procs.alive(run.folder, "train"):
        say(_elsewhere(run) or f"{run.spec.name} is not running")
        return 1
    before = checkpoints.newest(run)
    program.ask_to_save(run, "save")

    def is_new() -> bool:
        found = checkpoints.newest(run)
        return found is not None and (before is None or found.id != before.id)

    came = _within(run, run.spec.checkpoint.save_seconds, is_new)
    run.folder.remove("save-now")
    if not came:
        say(f"no new checkpoint within {run.spec.checkpoint.save_seconds:g} s")
        return 1
    found = checkpoints.newest(run)
    print(f"saved {found.path if found else ''}")
    return 0


def _is_here(run: Run) -> bool:
    return bool(procs.alive(run.folder, "runner") or procs.alive(run.folder, "train"))


def _elsewhere(run: Run) -> str:
    """Return why this can't be done here where the run may be on another machine, else ''."""
    now = state.StateFile(run)
    now.read()
    found = elsewhere.look(run, now)
    return elsewhere.refusal(run, found) if found is not None else ""


def _quiet_alarm(run: Run) -> str:
    """After the end of a run, and after its deadline, `stop` keeps the box: nothing ends it or
    calls for somebody who does."""
    deadline = run.folder.number("deadline")
    is_late = bool(deadline) and run.now >= deadline
    if not is_late and not (run.folder.ended() and procs.alive(run.folder, "supervisor")):
        return ""
    run.folder.touch("quiet")
    return "; ".join(filter(None, ("; its alarm and its end command are off", _billed(run))))


def _within(run: Run, seconds: float, is_true: Callable[[], bool]) -> bool:
    until = run.up + seconds
    while not is_true():
        if run.up >= until:
            return False
        run.clock.nap(0.1)
    return True
