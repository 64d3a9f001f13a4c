"""What the program's parent does: start it, read its output into the log, reap it, keep its code.

The supervisor is that parent; a rehearsal, which has none, forks one. The program holds its output
pipe open for reading too, so nothing that happens to its parent ends it by a broken pipe: another
parent takes the pipe over by /proc/PID/fd/1.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import traceback
from contextlib import suppress
from typing import Any

from . import child, log, procs, secrets
from .context import Run
from .folder import ATTEMPT, RC
from .log import Writer
from .secrets import Mask

PR_SET_CHILD_SUBREAPER = 36
F_SETPIPE_SZ, PIPE_BYTES = 1031, 1 << 20  # so that a parent that looks elsewhere holds nobody up
CHUNK = 1 << 16
LONGEST_CODE = 80  # bytes of the file with the exit code
LONGEST_ATTEMPT = 1000  # of attempt.json, to be written over on a full disk


class ProgramProcess:
    """A program and its output, until nobody can write there any more."""

    def __init__(self, run: Run, source: int, pid: int, number: int, writer: Writer, mask: Mask):
        self.run, self.source, self.pid, self.number = run, source, pid, number
        self._writer, self._mask = writer, mask
        self._has_ended = False
        self._code: int | None = None
        self._noted: dict[str, Any] = {}

    def pump(self) -> None:
        """Move what is there to the log."""
        while self.source >= 0:
            try:
                data = os.read(self.source, CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                os.close(self.source)
                self.source = -1
                self._writer.write(self._mask.flush())
                self._writer.close()
                return
            self._writer.write(self._mask.feed(data))

    def is_over(self) -> bool:
        """Return whether it has ended, its log is complete, and both are noted."""
        if not self._has_ended:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
                self._code = code(status)
            except ChildProcessError:  # another process's child: its code stays unknown
                ended, self._code = int(procs.stat(self.pid) is None), None
            self._has_ended = bool(ended)
        if not self._has_ended:
            return False
        record = {"number": self.number, "code": self._code, "is_logged": self.source < 0}
        # Where not even its own bytes can be written over, it waits for room.
        if record != self._noted and self.run.folder.overwrite(RC, json.dumps(record) + "\n"):
            self._noted = record
        return self.source < 0 and record == self._noted


def begin(run: Run, asked: dict[str, Any]) -> ProgramProcess:
    """Start the program of an attempt. Raises OSError.

    `asked`: its words, env, folder and umask; number, of the attempt; first, of its first log file;
    noted: what attempt.json says of it.
    """
    source, sink = os.pipe()
    output = os.open(f"/proc/self/fd/{sink}", os.O_RDWR)
    os.close(sink)
    _widen(output)
    words, folder, env = asked["words"], asked["folder"], asked["env"]
    run.folder.overwrite(ATTEMPT, json.dumps(asked["noted"]).ljust(LONGEST_ATTEMPT) + "\n")
    begun = run.folder.changed(ATTEMPT)  # by the clock that stamps what the program saves, too
    try:
        pid = os.fork()
    except OSError:
        os.close(source)
        os.close(output)
        raise
    if pid == 0:
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for sign in range(1, signal.NSIG):
                with suppress(OSError, ValueError):
                    signal.signal(sign, signal.SIG_DFL)
            procs.protect(False)
            os.umask(asked["umask"])
            null = os.open(os.devnull, os.O_RDONLY)
            for at, file in enumerate((null, output, output)):
                os.dup2(file, at)
            os.closerange(3, 4096)
            os.chdir(folder)
            os.execvpe(words[0], words, env)
        except BaseException as error:  # noqa: B036
            failed = 127 if isinstance(error, FileNotFoundError) else 126
            why = error.strerror if isinstance(error, OSError) else str(error)
            name = folder if isinstance(error, NotADirectoryError) else words[0]
            os.write(2, f"{name}: {why}\n".encode("utf-8", "surrogateescape"))
            os._exit(failed)
    os.close(output)
    os.set_blocking(source, False)
    procs.note_program(run.folder, pid, begun=begun)
    run.folder.write(RC, " " * LONGEST_CODE)  # to be written over on a full disk
    return _make_process(run, source, pid, asked["number"], asked["first"], env)


def take_over(run: Run) -> ProgramProcess | None:
    """Return a program whose own parent is gone: its log goes on, its code stays unknown."""
    pid, number = procs.alive(run.folder, "train"), run.folder.attempt() or 0
    try:
        source = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    # Where an older version had started it, its pid and its beginning have files of their own.
    procs.note_program(run.folder, pid, begun=run.folder.attempt_begun())
    run.event("log-taken-over")
    env = {**os.environ, **secrets.load(run)}
    return _make_process(run, source, pid, number, log.next_number(run), env)


def _make_process(
    run: Run, source: int, pid: int, number: int, first: int, env: dict[str, str]
) -> ProgramProcess:
    mask = Mask([env[name] for name in secrets.names(run.spec) if env.get(name)])
    return ProgramProcess(run, source, pid, number, Writer(run, first), mask)


def _widen(pipe: int) -> None:
    import fcntl

    with suppress(OSError):
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)


def inherit_orphans() -> None:
    """Have what the program leaves behind become children of this process."""
    with suppress(Exception):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(own: set[int]) -> None:
    """Reap the children that nobody waits for. `own`: those that somebody does."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return
    if found is None:
        return
    kept = own | child.awaited()
    for pid, process in procs.read_table().items():
        if process.parent == os.getpid() and not process.lives and pid not in kept:
            with suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def start_apart(run: Run, asked: dict[str, Any]) -> tuple[int, int]:
    """Fork a parent for a program; return the program's pid and start. Raises OSError."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        os.close(read_end)
        try:
            _detach(write_end)
            inherit_orphans()
            program = begin(run, asked)
            procs.note_pid(run.folder, "supervisor", os.getpid())
            os.write(write_end, f"{program.pid} {start_of(program.pid)}\n".encode())
            os.close(write_end)
            while not program.is_over():
                if program.source >= 0:
                    select.select([program.source], [], [], 0.2)
                else:
                    select.select([], [], [], 0.2)
                program.pump()
                reap_orphans({program.pid})
        except BaseException:  # noqa: B036 - whatever it is, this process must not go on
            run.folder.append("log/runner.log", traceback.format_exc())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as file:
        line = file.read().split()
    if len(line) != 2:
        raise OSError("the program's parent did not start")
    return int(line[0]), int(line[1])


def _detach(keep: int) -> None:
    """Leave the session, files and signals of this process behind; `keep` stays open."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    quiet = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
    for sign in quiet:
        signal.signal(sign, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        if number != keep:
            os.dup2(null, number)
    os.closerange(3, keep)
    os.closerange(keep + 1, 4096)


def start_of(pid: int) -> int:
    """Return when a process started, as the kernel tells it; 0 where it is gone."""
    process = procs.stat(pid)
    return process.start if process else 0


def code(status: int) -> int:
    """Return a wait status as a shell tells it: 128 and the signal's number for a kill."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
