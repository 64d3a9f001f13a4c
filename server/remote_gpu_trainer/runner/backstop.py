"""The line to the shell behind the supervisor, deadman.sh: who hears it knows that the supervisor
lives, and what to do once no Python answers."""

from __future__ import annotations

import fcntl
import os
from typing import NamedTuple

from ..text.proc import read_table, read_words
from . import child
from .context import Run

VERB = "deadman"
TAKES_OUTPUT = "--line"  # behind the verb supervisor: its standard output is the line
OVER = "over"  # nothing is left to do
NEVER = 1e12  # seconds since 1970
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
LIVES = 20.0  # seconds behind the deadline and its save in which a supervisor does all itself


class Plan(NamedTuple):
    """What the shell does without a supervisor: from `at` on, in seconds since 1970, it ends the
    program, a process by `pid` and `start`; then `do` (core/box.py: plan_unheard), from `end_at`
    on."""

    at: float
    pid: int
    start: int
    do: str
    end_at: float


def is_there(folder: str) -> bool:
    """Return whether a run has such a shell; of interest where its supervisor is gone."""
    mark = f"\0{VERB}\0{folder}\0".encode("utf-8", "surrogateescape")
    return any(mark in read_words(pid) for pid in read_table())


class Backstop:
    """The supervisor's end of the line. `line`: its descriptor, -1 while there is none."""

    def __init__(self, run: Run):
        self.run, self.line = run, -1
        self._told_at = -1e9
        self._plan: Plan | None = None
        self._shell: child.Command | None = None

    def take_output(self) -> None:
        """Take standard output for the line: the shell at its other end raised this process."""
        self.line = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
        os.set_blocking(self.line, False)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)

    def is_due(self) -> bool:
        """Return whether the shell is to hear of this supervisor again."""
        return self.run.up >= self._told_at + self.run.spec.timings.deadman

    def tell(self, plan: Plan) -> None:
        """Tell the shell, and start one where nobody listens."""
        self._told_at, self._plan = self.run.up, plan
        text = " ".join(map(str, (int(plan.at), plan.pid, plan.start, plan.do, int(plan.end_at))))
        if not self._say(text):
            self._start(text)

    def note_program(self, pid: int, start: int) -> None:
        """Tell the shell at once which program is to be ended."""
        if self._plan is not None:
            self.tell(self._plan._replace(pid=pid, start=start))

    def dismiss(self) -> None:
        """Send the shell away."""
        self._say(OVER)

    def _say(self, text: str) -> bool:
        """Return False where nobody listens."""
        try:
            os.write(self.line, f"{text}\n".encode())
        except BlockingIOError:
            return True  # it was paused, and has lines to read
        except OSError:
            if self.line >= 0:
                os.close(self.line)
            self.line = -1
            return False
        return True

    def _start(self, text: str) -> None:
        run = self.run
        if self._shell is not None and not self._shell.poll():
            return
        raising = run.self_command("supervisor", TAKES_OUTPUT)
        hears, self.line = os.pipe()
        os.set_blocking(self.line, False)
        self._say(text)  # before it begins, so that it never knows nothing
        try:
            output = os.open(run.folder.at("log", "supervisor.log"), _APPEND, 0o640)
        except OSError:
            output = os.open(os.devnull, os.O_WRONLY)
        try:
            words = [*run.self_command(VERB), run.folder.path, *raising]
            self._shell = child.Command(words, source=hears, output=output, folder="/")
        except OSError as error:
            run.log(f"can't start {VERB}: {error.strerror}")
        finally:
            os.close(hears)
            os.close(output)
