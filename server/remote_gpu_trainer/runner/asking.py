"""Questions with a limit to what may hang: a mount, a name service, nvidia-smi.

Waits are measured by the real clock, since they wait for real processes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, Sequence

from .context import Run

Beat = Callable[[], bool]


class Failed(Exception):
    """There is no answer, or a copy failed; the text says why."""


class Job:
    """A function in a forked child; its value must be one that JSON can hold.

    Of this process's files the child has none but the one that it is to `keep`.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any, keep: int = -1):
        told, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _work(tell, keep, function, arguments)
        os.close(tell)
        self._told, self._text = told, b""
        self.is_open = True

    def poll(self, seconds: float = 0.0) -> bool:
        """Wait so long at most; return whether the child has answered or died."""
        until = time.monotonic() + seconds
        while self.is_open:
            left = max(until - time.monotonic(), 0)
            if not select.select([self._told], [], [], left)[0]:
                return False
            piece = os.read(self._told, 65536)
            self._text += piece
            if not piece:
                self.give_up()
        return True

    def give_up(self) -> None:
        """Kill the child; one that hangs in the kernel is left behind."""
        if self.is_open:
            os.close(self._told)
        self.is_open = False
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        # A killed child is gone within a moment, but for one that hangs.
        for _ in range(20):
            with suppress(OSError):
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    time.sleep(0.001)
                    continue
            return

    def value(self) -> Any:
        """Return what the function returned. Raises Failed."""
        try:
            value, error = json.loads(self._text.decode("utf-8", "surrogateescape"))
        except ValueError:
            raise Failed("the process that was to look was killed") from None
        if error:
            raise Failed(error)
        return value


def _work(tell: int, keep: int, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """Run the function, write its value, and leave. Never returns."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(sign, signal.SIG_DFL)
        # The run's lock among them: a child that hangs must not keep it.
        kept = sorted({2, tell, keep, 4096} - {-1})
        for before, behind in zip(kept, kept[1:]):
            os.closerange(before + 1, behind)
        try:
            answer = [function(*arguments), ""]
        except Failed as error:
            answer = [None, str(error)]
        except OSError as error:
            answer = [None, error.strerror or str(error)]
        except Exception as error:
            answer = [None, repr(error)]
        with os.fdopen(tell, "wb") as file:
            file.write(json.dumps(answer).encode("utf-8", "surrogateescape"))
    finally:
        os._exit(0)


def call(run: Run, limit: float, beat: Beat | None, function: Callable[..., Any], *of: Any) -> Any:
    """Return what the function returns. Raises Failed after `limit` seconds, or when asked."""
    try:
        job = Job(function, *of)
    except OSError as error:
        raise Failed(error.strerror or str(error)) from None
    until = time.monotonic() + limit
    while not job.poll(min(run.spec.timings.tick, max(until - time.monotonic(), 0.001))):
        if (beat is not None and beat()) or time.monotonic() >= until:
            job.give_up()
            raise Failed(run.asked or f"no answer within {limit:g} s")
    return job.value()


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
    output = -1
    try:
        output = scratch()
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=folder,
            env=env,
        )
        code = _wait(run, child, limit, beat)
        os.lseek(output, 0, os.SEEK_SET)
        return code, os.read(output, 1 << 20).replace(b"\0", b"").decode("utf-8", "replace")
    except OSError as error:
        return 127, f"{error.filename or words[0]}: {error.strerror}"
    finally:
        if output >= 0:
            os.close(output)


def scratch() -> int:
    """Return a file that lies in memory, where this Python can make one. Raises OSError."""
    try:
        return os.memfd_create("scratch", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        file, path = tempfile.mkstemp()
        os.unlink(path)
        return file


def _wait(run: Run, child: subprocess.Popen[bytes], limit: float, beat: Beat | None) -> int | None:
    until = time.monotonic() + limit
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(min(run.spec.timings.tick, max(until - time.monotonic(), 0.001)))
        if (beat is not None and beat()) or time.monotonic() >= until:
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(0.1)
            return None
