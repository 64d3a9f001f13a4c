"""What happens to the box after a run: the job's own command, or word that the box is still on."""

from __future__ import annotations

import fcntl
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

    def step(self, end: str, passed: bool, whole: bool) -> bool:
        """Do what is due; True when nothing is left to do for this box.

        `end`: the run's marker, '' for none. `passed`: its deadline is over. `whole`: the last copy
        is verified.
        """
        run, spec = self.run, self.run.spec
        if self._child is not None:
            self._look(self._what(end))
            return False
        if not end and not passed:
            return False
        marker = run.folder.json(f".{end}") if end else {}
        if run.folder.has("quiet") or _is_stopped(end, marker):
            return True
        cases = _cases(run, end, passed, whole, marker) & set(spec.end_when)
        if spec.end_do != "run":
            cases = set()
        # Until the deadline a copy that is owed is tried again; what is lost then was named.
        if cases and (whole or passed and "unsaved" in spec.end_when):
            self._try(self._what(end), sorted(cases)[0])
            return False
        if cases:
            self._tell_unsaved(self._what(end))
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

    def _tell_unsaved(self, what: str) -> None:
        where = mask(self.run.durable) or "the durable place"
        text = f"{what}, but the last copy to {where} is not verified: what it made is on this"
        text += " box only. The box stays on, and is ended once the copy is verified"
        text += " or its deadline passes" if "unsaved" in self.run.spec.end_when else ""
        text += "; make room"
        self._tell("unsaved", f"{text} there, or copy it yourself and end the box.")

    def _tell_billed(self, what: str, passed: bool) -> None:
        spec = self.run.spec
        if spec.end_do == "run":
            why = f"its end command is for {_listed(spec.end_when)} only"
        else:
            why = f"the job names no end command ({HOW})"
        silence = f"; bash {self.run.folder.at('run.sh')} stop ends this message" if passed else ""
        text = f"{what}. The box is still on and billed, and {why}: end it yourself{silence}."
        self._tell("late" if passed else "billed", text, again=passed)

    def _try(self, what: str, case: str) -> None:
        """Start the end command, unless one runs or the last try was a moment ago."""
        run = self.run
        if run.up < self._next:
            return
        if self._answered:
            self._answered = False
            run.log("the end command was accepted, but the box is still on")
            self._tell_failed(what, "it is still on after its end command was accepted")
        env = _environment(run)
        need = run.spec.end_needs
        if need and not env.get(need.partition("=")[0]):
            self._put_off()
            self._tell_failed(what, f"the credential {mask(need)} is missing on the box")
            return
        lock = _lock(run)
        if lock is None:
            self._next = run.up + 1  # another keeper's command still runs
            return
        run.event("end-command", case=case)
        run.log(f"{what}: running the end command")
        try:
            self._output = scratch()
        except OSError:
            self._output = -1  # to end the box matters more than what the command says
        words = run.spec.end_command
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
        self._tell(
            "failed", f"{what}, but the box is {billed}: {why}. Tried again; or end it yourself."
        )

    def _put_off(self) -> None:
        self._next = self.run.up + self._wait
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def _said(self) -> str:
        """Return the command's last words; nothing where a credential may stand among them."""
        if self._output < 0 or self.run.spec.end_needs:
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
    saved = "only when" if "unsaved" not in spec.end_when else "whether or not"
    named = {"done": "done", "failed": "failed", "deadline": "at its deadline"}
    cases = _listed([text for case, text in named.items() if case in spec.end_when])
    cases = cases or "trained to its end"
    return f"once the run is {cases}, {saved} the results are verified, this box runs: {mask(line)}"


def _cases(run: Run, end: str, passed: bool, whole: bool, marker: dict[str, Any]) -> set[str]:
    """Return what this end is called in `end_when`."""
    found = set()
    if passed or _is_late(marker):
        found.add("deadline")
    if end == "done" or (end == "unsaved" and whole):
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


def _environment(run: Run) -> dict[str, str]:
    """Return what the end command is given: secrets, its credential, and what a login lacks of the
    variables of the container's first process."""
    env = {**procs.environ(1), **os.environ}
    env = {name: value for name, value in env.items() if not name.startswith("RGT_")}
    env.update(secrets.load(run), RGT_BOX_ID=run.spec.box_id)
    name, has_file, path = run.spec.end_needs.partition("=")
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
