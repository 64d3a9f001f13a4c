"""What happens to the box after a run: the job's own command, or word that the box is still on."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress

from ..text.masking import mask
from . import child, end_words, locks, notices, procs, secrets
from .child import scratch
from .context import Run, home
from .core import box
from .core.model import Action, Command, EndBox, Note, Seen, Tell
from .end_words import HOW, RECORD

SAID = 300  # characters of the command's last words


class Ending:
    """The edge of what becomes of the box: what is seen of it, and what is done."""

    def __init__(self, run: Run):
        self.run = run
        self._command: child.Command | None = None
        self._ended = Command()  # how the last one ended
        self._output = -1

    def do(self, action: Action, end: box.End) -> None:
        """Do what the core wants for the box. `end`: how the run ended."""
        run = self.run
        if isinstance(action, Tell):
            run.log(action.text)
            notices.notify(run, action.text)
        elif isinstance(action, Note):
            self._record(action)
        elif isinstance(action, EndBox):
            self._start(action, box.say_end(end))

    def look(self, next_at: float | None) -> Seen:
        """Return what bears on the box. `next_at`: when another try of its end is due, None for at
        once."""
        run = self.run
        last = run.folder.json("own/last-sync") if run.durable else {}
        return Seen(
            unsafe=str(last.get("why") or next(iter(last.get("notes") or []), "")),
            has_quiet=run.folder.has("quiet"),
            command=self._look_at_command(next_at),
            durable=mask(run.durable),
            script=run.folder.at("run.sh"),
        )

    def _look_at_command(self, next_at: float | None) -> Command:
        """Return what became of the end command, and whether another one may start."""
        run, number = self.run, self._ended.number
        if self._command is not None and self._command.is_open:
            return Command(number, None)
        if self._command is not None:
            code = self._command.code
            self._ended = Command(number, code, self._said())
            self._close()
            run.event("end-command-ended", code=code)
            if code == 0:
                run.log("the end command was accepted")
        if next_at is not None and run.up < next_at:
            return self._ended
        needs = {run.spec.rendered.end.needs, run.spec.rendered.stop.needs} - {""}
        lacks = [need for need in needs if not _environment(run, need).get(need.partition("=")[0])]
        lock = _lock(run)
        if lock is not None and lock >= 0:
            os.close(lock)
        return self._ended._replace(lacks=tuple(lacks), is_elsewhere=lock is None)

    def _record(self, note: Note) -> None:
        """Leave for every `status` why the box is still on."""
        if self.run.folder.json(RECORD).get("text") != note.text:
            record = {"t": int(self.run.now), "kind": note.kind, "text": note.text}
            self.run.folder.write(RECORD, json.dumps(record) + "\n")

    def _start(self, action: EndBox, what: str) -> None:
        """Start what ends the box. `what`: how the run ended."""
        run = self.run
        lock = _lock(run)
        if lock is None:
            return  # another supervisor's command began a moment ago
        run.event("end-command", case=action.case)
        is_own = action.how == box.RUN
        how = "the end command" if is_own else "the platform's stop, which keeps the disk"
        run.log(f"{what}: running {how}")
        try:
            self._output = scratch()
        except OSError:
            self._output = -1  # to end the box matters more than what the command says
        wanted = run.spec.rendered.end if is_own else run.spec.rendered.stop
        words, env = wanted.command, _environment(run, wanted.needs)
        words = ["bash", "-c", words] if isinstance(words, str) else list(words)
        self._command = child.start_guarded(words, box.LIMIT, env, output=self._output, lock=lock)
        if lock >= 0:
            os.close(lock)  # the command's own process holds it now
        self._ended = Command(action.number, box.NO_START)
        if self._command is None:
            self._close()

    def _said(self) -> str:
        """Return the command's last words; nothing where a credential may stand among them."""
        if (
            self._output < 0
            or self.run.spec.rendered.end.needs
            or self.run.spec.rendered.stop.needs
        ):
            return ""
        with suppress(OSError):
            size = os.lseek(self._output, 0, os.SEEK_END)
            text = os.pread(self._output, SAID, max(size - SAID, 0)).decode("utf-8", "replace")
            text = secrets.Mask(secrets.load(self.run).values()).text(mask(text))
            return ": " + " ".join(text.split()) if text.strip() else ""
        return ""

    def _close(self) -> None:
        self._command = None
        if self._output >= 0:
            os.close(self._output)
            self._output = -1


def sentence(run: Run) -> str:
    """Say what will be done with the box and when, for whoever starts the job."""
    spec = run.spec
    words = spec.rendered.end.command
    line = words if isinstance(words, str) else " ".join(map(shlex.quote, words))
    text = end_words.of_box(spec, mask(line))
    return text if not text or spec.rendered.end.command else f"{text}; {HOW} would"


def end_of(run: Run, end: str) -> box.End:
    """Return how a run ended, as its marker says it; `end`: that one's name, '' for none."""
    marker = run.folder.json(f".{end}") if end else {}
    failure, reason = str(marker.get("class") or ""), str(marker.get("reason") or "")
    is_told = marker.get(notices.TOLD) is True
    return box.End(end, failure, reason, marker.get("refused") is True, is_told)


def _environment(run: Run, needs: str) -> dict[str, str]:
    """Return what the end command is given: secrets, its credential, and what a login lacks of the
    variables of the container's first process."""
    env = {**procs.environ(1), **os.environ}
    env = {name: value for name, value in env.items() if not name.startswith("RGT_")}
    env.update(secrets.load(run), RGT_BOX_ID=run.spec.at_end.box_id or "", RGT_OWN="1")
    name, has_file, path = needs.partition("=")
    if has_file:
        env.pop(name, None)
        with suppress(OSError), open(home(path), "rb") as file:
            env[name] = os.fsdecode(file.read().replace(b"\0", b"").strip())
    return env


def _lock(run: Run) -> int | None:
    """Return a descriptor of the lock that one end command holds; None while another has it.

    -1 where the run folder can't be written, or takes no locks: to end the box matters more.
    """
    try:
        return locks.try_lock(run.folder.at("own/end.lock"))
    except OSError:
        return -1
