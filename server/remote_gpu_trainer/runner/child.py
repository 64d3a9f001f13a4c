"""The one way to run what may hang: a function or a command in a child process with a limit.

A mount, a name service, nvidia-smi or a program that copies may hang. A child has a session and a
process group of its own, and is killed with all that it started; what hangs in the kernel is left
behind. Limits are measured by the real clock, since they are for real processes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, Sequence

from . import procs
from .context import Run

Beat = Callable[[], bool]  # does what a heartbeat needs; True when the run is asked to end

NULL = -3  # as subprocess.DEVNULL
MOST_OUTPUT = 1 << 28  # bytes that a child may answer with or print; beyond that it is killed
PROGRESS = None  # in the place of a limit: as long as the child makes progress
LOOK_SECONDS = 1.0  # between two looks at a child's progress
REAP_SECONDS = 0.02  # for a killed child to be gone, but for one that hangs in the kernel
TOO_LONG = 124  # the exit status of a guarded command that was killed at its limit

_unreaped: set[int] = set()  # forked children that may be left behind
_unawaited: list[Command] = []  # guarded commands, which nobody waits for
_commands: set[int] = set()  # those whose end was not seen yet


class Failed(Exception):
    """There is no answer, or a copy failed; the text says why."""


class Asked(Failed):
    """The run was asked to end before there was an answer."""


class Child:
    """A process that may hang. `pid`: it leads a session and a group unless it says otherwise."""

    def __init__(self, pid: int):
        self.pid = pid

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether it has ended, or a function has answered."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Return whether it still runs; what hangs in the kernel does so after its kill too."""
        return not self.poll()

    def kill(self, seconds: float = REAP_SECONDS) -> None:
        """Kill it with all that it started; wait so long for its end, then leave it behind.

        Where it has ended, what it left in the background goes on.
        """
        if self.poll():
            return
        # Before the group: of a dead parent nothing tells what it started elsewhere.
        pids = procs.tree(self.pid)
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        procs.send(pids, signal.SIGKILL)
        self.poll(seconds)

    def finish(self, seconds: float) -> bool:
        """Wait for its end, and kill it after so many seconds; return whether it came to it."""
        if self.poll(seconds):
            return True
        self.kill()
        return False

    def progress(self) -> tuple[int, int]:
        """Return what changes while it goes on: the bytes that it and its descendants have read
        and written, 0 where that is hidden, and the clock ticks that they have computed."""
        pids = procs.children([self.pid], procs.table())
        return sum(map(procs.bytes_moved, pids)), sum(map(procs.cpu_ticks, pids))


class Function(Child):
    """A function in a forked child; its value must be one that JSON can hold.

    Of this process's files the child has its standard ones and the one that it is to `keep`.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any, keep: int = -1):
        """Fork. Raises OSError."""
        for pid in list(_unreaped):
            _reap(pid)
        reader, writer = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if pid == 0:
            _answer(writer, keep, function, arguments)
        os.close(writer)
        _unreaped.add(pid)
        self._reader, self._pieces, self._size = reader, [b""], 0
        self._has_answered = False
        super().__init__(pid)

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether it has answered or died."""
        until = time.monotonic() + seconds
        while self._reader >= 0:
            left = max(until - time.monotonic(), 0)
            if not select.select([self._reader], [], [], left)[0]:
                return False
            piece = os.read(self._reader, 1 << 16)
            self._pieces.append(piece)
            self._size += len(piece)
            if not piece or self._size > MOST_OUTPUT:
                self._has_answered = True
                self._close()
                if self.pid in _unreaped:  # else its number may be another one's by now
                    os.kill(self.pid, signal.SIGKILL)
                _reap(self.pid, REAP_SECONDS)
        return self._has_answered or _reap(self.pid)

    def kill(self, seconds: float = REAP_SECONDS) -> None:
        """Kill it, as any child."""
        if self.pid in _unreaped:
            super().kill(seconds)
        self._close()

    def value(self) -> Any:
        """Return what the function returned. Raises Failed."""
        try:
            value, error = json.loads(b"".join(self._pieces).decode("utf-8", "surrogateescape"))
        except ValueError:
            raise Failed("the process that was to look was killed") from None
        if error:
            raise Failed(error)
        return value

    def _close(self) -> None:
        if self._reader >= 0:
            os.close(self._reader)
        self._reader = -1


def _reap(pid: int, seconds: float = 0.0) -> bool:
    """Return whether a forked child is gone, within so many seconds."""
    until = time.monotonic() + seconds
    while pid in _unreaped:
        try:
            is_gone = os.waitpid(pid, os.WNOHANG)[0] != 0
        except OSError:
            is_gone = True  # another process's child
        if is_gone:
            _unreaped.discard(pid)
        elif time.monotonic() >= until:
            return False
        else:
            time.sleep(0.001)
    return True


class Command(Child):
    """A command. What it prints lies in memory until it has ended, a full disk notwithstanding."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        folder: str | None = None,
        source: Any = NULL,
        output: Any = None,
        errors: Any = None,
        keep: Sequence[int] = (),
        is_leader: bool = True,
    ):
        """Start it in a folder. Raises OSError, and ValueError for words with a zero byte.

        `source`: its standard input. `output`: a file for what it prints, None for one in memory;
        `errors`: one for its standard error, None for the same. `keep`: further files that it has.
        `is_leader`: False for one that stays in this process's session, to end with it.
        """
        import subprocess

        self._memory = -1
        if output is None:
            output = self._memory = scratch()
        try:
            self._process = subprocess.Popen(
                words,
                stdin=source,
                stdout=output,
                stderr=output if errors is None else errors,
                pass_fds=keep,
                start_new_session=is_leader,
                cwd=folder,
                env=env,
            )
        except BaseException:
            self._forget()
            raise
        self.output = b""  # what it printed, once it has ended or was killed
        _commands.add(self._process.pid)
        super().__init__(self._process.pid)

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether it has ended. One that prints too much is killed."""
        import subprocess

        if seconds > 0:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        has_ended = self._process.poll() is not None
        if has_ended:
            _commands.discard(self.pid)
            self._take_output()
        elif self._memory >= 0 and os.fstat(self._memory).st_size > MOST_OUTPUT:
            self._take_output()
            self.kill()
        return has_ended

    def kill(self, seconds: float = REAP_SECONDS) -> None:
        """Kill it, as any child."""
        super().kill(seconds)
        self._take_output()

    def send(self, sign: int) -> None:
        """Signal it and what is in its group."""
        with suppress(OSError):
            os.killpg(self.pid, sign)

    @property
    def code(self) -> int | None:
        """Return its exit status, 128 and more for a signal, as a shell does; None before its
        end."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def text(self, most: int = 1 << 20) -> str:
        """Return what it printed, at most so many bytes of it."""
        return self.output[:most].replace(b"\0", b"").decode("utf-8", "replace")

    def _take_output(self) -> None:
        if self._memory >= 0:
            self.output = os.pread(self._memory, MOST_OUTPUT, 0)
            self._forget()

    def _forget(self) -> None:
        if self._memory >= 0:
            os.close(self._memory)
        self._memory = -1


def awaited() -> set[int]:
    """Return the children of this process that are waited for here."""
    return _unreaped | _commands


class Found(Child):
    """A process that another one started, such as a worker of a runner that is gone."""

    def __init__(self, pid: int, start: int):
        self._start = start
        super().__init__(pid)

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether it has ended."""
        until = time.monotonic() + seconds
        while procs.is_same_process(self.pid, self._start):
            if time.monotonic() >= until:
                return False
            time.sleep(0.01)
        return True


def _answer(writer: int, keep: int, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Run the function, write its value, and leave. Never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sign, signal.SIG_DFL)
        # The run's lock among them: a child that hangs must not keep it.
        kept = sorted({2, writer, keep, 4096} - {-1})
        for before, behind in zip(kept, kept[1:]):
            os.closerange(before + 1, behind)
        try:
            pair = [function(*arguments), ""]
        except Failed as error:
            pair = [None, str(error)]
        except OSError as error:
            pair = [None, error.strerror or str(error)]
        except Exception as error:
            pair = [None, repr(error)]
        with os.fdopen(writer, "wb") as file:
            file.write(json.dumps(pair).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(0)


class Stillness:
    """For how long something has not moved. `up`: now, by a clock that nobody sets."""

    def __init__(self, up: float):
        self._value: object = None
        self._moved_at = up

    def seconds(self, value: object, up: float) -> float:
        """Return for how long this value, which changes with each move, has been the same."""
        if value != self._value:
            self._value, self._moved_at = value, up
        return up - self._moved_at


def wait(
    run: Run,
    child: Child,
    limit: float | None = PROGRESS,
    beat: Beat | None = None,
    progress: Callable[[], object] | None = None,
) -> None:
    """Wait until a child has ended; the heartbeat goes on meanwhile. Otherwise kill it and raise.

    Failed after `limit` seconds; for PROGRESS after `copy_quiet` seconds without `progress`, by
    default that of its processes. Asked where `beat` tells that the run is to end.
    """
    begun = looked = time.monotonic()
    timings, still = run.spec.timings, Stillness(begun)
    left = seconds = timings.copy_quiet if limit is None else limit
    try:
        while not child.poll(min(timings.tick, left)):
            now = time.monotonic()
            if beat is not None and beat():
                raise Asked(run.asked or "asked to end")
            if limit is not None:
                left = begun + limit - now
                if left <= 0:
                    raise Failed(run.asked or f"no answer within {limit:g} s")
            elif now - looked >= min(LOOK_SECONDS, seconds / 4):
                looked = now
                if still.seconds((progress or child.progress)(), now) >= seconds:
                    raise Failed(f"no progress for {seconds:g} s")
    finally:
        child.kill()


def start(function: Callable[..., Any], *arguments: Any) -> Function:
    """Start a function in a child. Raises Failed where there can be none."""
    try:
        return Function(function, *arguments)
    except OSError as error:
        raise Failed(error.strerror or str(error)) from None


def call(
    run: Run,
    function: Callable[..., Any],
    *arguments: Any,
    limit: float | None = PROGRESS,
    beat: Beat | None = None,
) -> Any:
    """Return what a function returns that may hang. Raises Failed, and Asked, as `wait` does."""
    child = start(function, *arguments)
    wait(run, child, limit, beat)
    return child.value()


def ask(
    run: Run,
    limit: float,
    beat: Beat | None,
    words: Sequence[str],
    env: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> tuple[int | None, str]:
    """Run a command, in a folder; return its exit code, None for one that was given up, and what it
    said."""
    try:
        child = Command(words, env=env, folder=folder)
    except OSError as error:
        return 127, f"{error.filename or words[0]}: {error.strerror}"
    try:
        wait(run, child, limit, beat)
    except Failed:
        return None, child.text()
    return child.code, child.text()


def answer(words: Sequence[str], seconds: float) -> str | None:
    """Return what a command prints, whatever its exit code; None where it can't be started or
    doesn't end in so many seconds. Its language is that of programs."""
    try:
        child = Command(words, env={**os.environ, "LC_ALL": "C"}, errors=NULL)
    except (OSError, ValueError):
        return None
    return child.text(MOST_OUTPUT) if child.finish(seconds) else None


# A small process waits for the command. What the command leaves in the background neither holds
# the pipes and locks that this process was given, nor keeps anybody waiting.
_GUARD = """\
import os, signal, subprocess, sys, time
limit, pauses, words = float(sys.argv[1]), sys.argv[2].split(), sys.argv[3:]
text = sys.stdin.buffer.read() if pauses else b""  # for each try

def run():
    try:
        child = subprocess.Popen(words, start_new_session=True, stdin=-1 if pauses else None)
    except OSError as error:
        os.write(2, f"{words[0]}: {error.strerror}\\n".encode("utf-8", "surrogateescape"))
        sys.exit(127)
    try:
        child.communicate(text if pauses else None, limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        return 124
    return child.returncode if child.returncode >= 0 else 128 - child.returncode

code = run()
for pause in pauses:
    if code == 0:
        break
    time.sleep(float(pause))
    code = run()
sys.exit(code)
"""


def start_guarded(
    words: list[str],
    seconds: float,
    env: dict[str, str],
    text: str = "",
    output: int = -1,
    lock: int = -1,
    pauses: Sequence[float] = (),
) -> Command | None:
    """Start a command of the job whose limit holds when this process is gone, and don't wait for
    it; None where nothing can be started. Its exit code is TOO_LONG after the limit.

    `text`: of its standard input, at most what a pipe holds. `output`: a file for what it says;
    `lock`: one that stays open until the command has ended or was killed. `pauses`: seconds before
    each further try of a command that failed.
    """
    _unawaited[:] = [child for child in _unawaited if child.is_open]
    waits = " ".join(map(str, pauses))
    reader, writer = os.pipe()
    with suppress(OSError):
        os.set_blocking(writer, False)
        os.write(writer, text.encode("utf-8", "surrogateescape"))
    os.close(writer)
    try:
        child = Command(
            [sys.executable, "-I", "-S", "-c", _GUARD, str(seconds), waits, *words],
            source=reader,
            output=output if output >= 0 else NULL,
            keep=[lock] if lock >= 0 else [],
            folder="/",
            env=env,
        )
    except (OSError, ValueError):
        return None
    finally:
        os.close(reader)
    _unawaited.append(child)
    return child


def scratch() -> int:
    """Return a file that lies in memory, where this Python can make one. Raises OSError."""
    try:
        return os.memfd_create("scratch", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        import tempfile

        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        file, path = tempfile.mkstemp(dir=memory)
        os.unlink(path)
        return file
