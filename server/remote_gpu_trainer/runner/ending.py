"""What happens to the box after a run: the job's own command, or word that the box is still on."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from contextlib import suppress
from typing import Any

from ..text.masking import mask
from . import limited, notices, procs, secrets
from .asking import scratch
from .context import Run, home

LIMIT = 60.0  # seconds for the end command; the third hand gives it as long
LONGEST_WAIT = 600.0  # seconds between two tries
SAID = 300  # characters of the command's last words
HOW = "at_end: {do: run, command: [...]}"
RECORD = "end.json"  # in the run folder: why the box is still on although it was to end
RUN, STOP, STAY = "run", "stop", "stay"  # what `judge` finds


class Ending:
    """Made by the keeper. `step` is called once a second after an end or after the deadline."""

    def __init__(self, run: Run):
        self.run = run
        self._child: Any = None
        self._output = -1
        self._answered = False  # the last try was accepted, and the box is still here
        self._next = -1e9  # when to try again, by run.up
        self._wait = run.spec.timings.end_retry
        self._told: dict[str, float] = {}  # kind of message: when it was sent last, by run.up

    def step(self, end: str, late: float, is_safe: bool) -> bool:
        """Do what is due; True when nothing is left to do for this box.

        `end`: the run's marker, '' for none. `late`: seconds since its deadline, below 0 before it.
        `is_safe`: its newest complete checkpoint and its results are safe elsewhere.
        """
        run, spec, passed = self.run, self.run.spec, late >= 0
        if self._child is not None:
            self._look(self._what(end))
            return False
        if not end and not passed:
            return False
        marker = run.folder.json(f".{end}") if end else {}
        if run.folder.has("quiet") or _is_stopped(end, marker):
            return True
        cases = _cases(run, end, passed, is_safe, marker) & set(spec.end_when)
        if spec.end_do != "run":
            cases = set()
        if cases:
            what = self._what(end)
            do = judge(spec, is_safe, late)
            if do == STAY:
                self._tell_unsaved(what, late)
            else:
                self._try(what, sorted(cases)[0], do)
            return False
        if spec.end_do == "run" and "deadline" in spec.end_when and not passed:
            # Billed until then: worth a word, once.
            if spec.billed:
                told = "the box stays on until its deadline, where its end command runs"
                self._tell("waits", f"{self._what(end)}; {told}", again=False)
            return False
        if not spec.billed or _never_began(run, end):
            return True
        self._tell_billed(self._what(end), passed)
        return not spec.notify  # nobody would hear it again

    def _what(self, end: str) -> str:
        """Say how this run ended: the beginning of every message."""
        marker = self.run.folder.json(f".{end}") if end else {}
        reason = str(marker.get("reason") or "")
        if end == "preempted":
            return "the deadline ended the run" if _is_late(marker) else f"preempted ({reason})"
        if end:
            told = {"done": "the run is done", "unsaved": "the run trained to its end"}
            return told.get(end, f"the run failed ({reason})" if reason else "the run failed")
        return "the deadline has passed"

    def _tell(self, kind: str, text: str, again: bool = True) -> None:
        """Send a message of this kind, and again every `notify_every` seconds."""
        last = self._told.get(kind)
        if last is not None and not (
            again and self.run.up - last >= self.run.spec.timings.notify_every
        ):
            return
        self._told[kind] = self.run.up
        self.run.log(text)
        notices.notify(self.run, text)

    def _tell_unsaved(self, what: str, late: float) -> None:
        """Say why the box stays on, and until when."""
        spec = self.run.spec
        where = mask(self.run.durable) or "a durable place, since the job names none"
        billed = " and billed" if spec.billed else ""
        last = self.run.folder.json("last-sync") if self.run.durable else {}
        why = last.get("why") or next(iter(last.get("notes") or []), "")
        text = f"{what}, but nothing proves that all it made is safe at {where}"
        text += f" ({why})" if why else ""
        text += f". The box stays on{billed}, and is ended once that is proven"
        can_stop = spec.end_keeps_disk or spec.end_stop
        if "unsaved" in spec.end_when and late < 0:
            text += " or its deadline passes"
        elif can_stop:
            minutes = f"{spec.end_limit_seconds / 60:g} minutes"
            text += (
                f"; {minutes} after the deadline its disk is kept and it is stopped all the same"
            )
        text += ". Make room there, or copy it yourself and end the box."
        self._record("unsafe", text)
        self._tell("unsaved", text)

    def _record(self, kind: str, text: str) -> None:
        """Leave for every `status` why the box is still on."""
        if self.run.folder.json(RECORD).get("text") != text:
            told = {"t": int(self.run.now), "kind": kind, "text": text}
            self.run.folder.write(RECORD, json.dumps(told) + "\n")

    def _tell_billed(self, what: str, passed: bool) -> None:
        spec = self.run.spec
        if spec.end_do == "run":
            why = f"its end command is for {_listed(spec.end_when)} only"
        else:
            why = f"the job names no end command ({HOW})"
        silence = f"; bash {self.run.folder.at('run.sh')} stop ends this message" if passed else ""
        text = f"{what}. The box is still on and billed, and {why}: end it yourself{silence}."
        self._tell("late" if passed else "billed", text, again=passed)

    def _try(self, what: str, case: str, do: str) -> None:
        """Start the end command, unless one runs or the last try was a moment ago. `do`: RUN for
        the job's own, STOP for the platform's that keeps the disk."""
        run = self.run
        if run.up < self._next:
            return
        if self._answered:
            self._answered = False
            run.log("the end command was accepted, but the box is still on")
            self._tell_failed(what, "it is still on after its end command was accepted")
        need = run.spec.end_needs if do == RUN else run.spec.end_stop_needs
        env = _environment(run, need)
        if need and not env.get(need.partition("=")[0]):
            self._put_off()
            self._tell_failed(what, f"the credential {mask(need)} is missing on the box")
            return
        lock = _lock(run)
        if lock is None:
            self._next = run.up + 1  # another keeper's command still runs
            return
        run.event("end-command", case=case)
        how = "the end command" if do == RUN else "the platform's stop, which keeps the disk"
        run.log(f"{what}: running {how}")
        try:
            self._output = scratch()
        except OSError:
            self._output = -1  # to end the box matters more than what the command says
        words = run.spec.end_command if do == RUN else run.spec.end_stop
        words = ["bash", "-c", words] if isinstance(words, str) else list(words)
        self._child = limited.start(words, LIMIT, env, output=self._output, lock=lock)
        if lock >= 0:
            os.close(lock)  # the command's own process holds it now
        if self._child is None:
            self._close()
            self._put_off()
            self._tell_failed(what, "its end command can't be started")

    def _look(self, what: str) -> None:
        """See what became of the end command."""
        code = self._child.poll()
        if code is None:
            return
        said = self._said()
        self._close()
        self._put_off()
        self.run.event("end-command-ended", code=code)
        if code == 0:
            self.run.log("the end command was accepted")
            self._answered = True
            self._next = max(self._next, self.run.up + self.run.spec.timings.end_wait)
            return
        how = f"took longer than {LIMIT:.0f} s" if code == limited.TOO_LONG else ""
        self._tell_failed(what, f"its end command {how or f'failed with exit status {code}'}{said}")

    def _tell_failed(self, what: str, why: str) -> None:
        billed = "still on and billed" if self.run.spec.billed else "still on and may be billed"
        text = f"{what}, but the box is {billed}: {why}. Tried again; or end it yourself."
        self._record("failed", text)
        self._tell("failed", text)

    def _put_off(self) -> None:
        self._next = self.run.up + self._wait
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _said(self) -> str:
        """Return the command's last words; nothing where a credential may stand among them."""
        if self._output < 0 or self.run.spec.end_needs or self.run.spec.end_stop_needs:
            return ""
        with suppress(OSError):
            size = os.lseek(self._output, 0, os.SEEK_END)
            text = os.pread(self._output, SAID, max(size - SAID, 0)).decode("utf-8", "replace")
            text = secrets.Mask(secrets.load(self.run).values()).text(mask(text))
            return ": " + " ".join(text.split()) if text.strip() else ""
        return ""

    def _close(self) -> None:
        self._child = None
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def sentence(run: Run) -> str:
    """Say what will be done with the box and when, for whoever renders or starts the job."""
    spec = run.spec
    if spec.end_do != "run":
        told = f"nothing ends this box: it stays on and billed until you end it; {HOW} would"
        return told if spec.billed else ""
    words = spec.end_command
    line = words if isinstance(words, str) else " ".join(map(shlex.quote, words))
    named = {"done": "done", "failed": "failed", "deadline": "at its deadline"}
    cases = _listed([text for case, text in named.items() if case in spec.end_when])
    cases = cases or "trained to its end"
    if spec.durable and "unsaved" not in spec.end_when:
        when = "and only when its newest complete checkpoint and its results are safe elsewhere"
    elif spec.durable:
        when = "at its deadline whether or not the results are safe elsewhere"
    elif spec.end_keeps_disk:
        when = "with nothing copied elsewhere, for the disk is kept"
    else:
        when = "with nothing copied elsewhere: what is on the box may be lost"
    return f"once the run is {cases}, {when}, this box runs: {mask(line)}"


def judge(spec: Any, is_safe: bool, late: float) -> str:
    """Return what to do about a box that is to end: RUN, STOP or STAY. Pure.

    `late`: seconds since the deadline, below 0 before it.
    """
    if spec.durable and is_safe:
        return RUN
    if not spec.durable and (spec.end_keeps_disk or "unsaved" in spec.end_when):
        return RUN
    # Until the deadline a copy that is owed is tried again; what is lost then was agreed to.
    if "unsaved" in spec.end_when and late >= 0:
        return RUN
    if late >= spec.end_limit_seconds and spec.end_keeps_disk:
        return RUN
    if late >= spec.end_limit_seconds and spec.end_stop:
        return STOP
    return STAY


def _cases(run: Run, end: str, passed: bool, is_safe: bool, marker: dict[str, Any]) -> set[str]:
    """Return what this end is called in `end_when`."""
    found = set()
    if passed or _is_late(marker):
        found.add("deadline")
    if end == "done" or (end == "unsaved" and is_safe):
        found.add("done")
    elif end == "unsaved":
        found |= {"done", "unsaved"}
    elif end == "failed" and not _never_began(run, end):
        found.add("failed")  # but where nothing was started, somebody sits there and mends it
    return found


def _never_began(run: Run, end: str) -> bool:
    """Return whether the checks refused the start."""
    marker = run.folder.json(f".{end}")
    return end == "failed" and (marker.get("class") == "preflight" or run.folder.has(".refused"))


def _is_late(marker: dict[str, Any]) -> bool:
    return marker.get("class") == "deadline"


def _is_stopped(end: str, marker: dict[str, Any]) -> bool:
    """Return whether the user ended the run by `stop`, which ends no box."""
    return end == "preempted" and not _is_late(marker) and marker.get("reason") == "asked"


def _environment(run: Run, needs: str) -> dict[str, str]:
    """Return what the end command is given: secrets, its credential, and what a login lacks of the
    variables of the container's first process."""
    env = {**procs.environ(1), **os.environ}
    env = {name: value for name, value in env.items() if not name.startswith("RGT_")}
    env.update(secrets.load(run), RGT_BOX_ID=run.spec.box_id)
    name, has_file, path = needs.partition("=")
    if has_file:
        env.pop(name, None)
        with suppress(OSError), open(home(path), "rb") as file:
            env[name] = os.fsdecode(file.read().replace(b"\0", b"").strip())
    return env


def _lock(run: Run) -> int | None:
    """Return a descriptor of the lock that one end command holds; None while another has it.

    -1 where the run folder can't be written: to end the box matters more.
    """
    try:
        lock = os.open(run.folder.at("end.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError:
        return -1
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    except OSError:
        pass  # a file system without locks
    return lock


def _listed(words: list[str]) -> str:
    """Return 'a', 'a or b', 'a, b or c'."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
