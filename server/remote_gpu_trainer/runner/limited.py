"""A command of the job beside the run: with a limit that holds when whoever started it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

# A small process waits for the command. What the command leaves in the background neither holds
# the pipes and locks that this process was given, nor keeps anybody waiting.
_PROGRAM = """\
import os, signal, subprocess, sys
try:
    child = subprocess.Popen(sys.argv[2:], start_new_session=True)
except OSError as error:
    os.write(2, f"{sys.argv[2]}: {error.strerror}\\n".encode("utf-8", "surrogateescape"))
    sys.exit(127)
try:
    code = child.wait(float(sys.argv[1]))
except subprocess.TimeoutExpired:
    os.killpg(child.pid, signal.SIGKILL)
    code = 124
sys.exit(code if code >= 0 else 128 - code)
"""
TOO_LONG = 124  # the exit status of a command that was killed at its limit

_started: list[subprocess.Popen[bytes]] = []


def start(
    words: list[str],
    seconds: float,
    env: dict[str, str],
    text: str = "",
    output: int = -1,
    lock: int = -1,
) -> subprocess.Popen[bytes] | None:
    """Start a command and don't wait for it; None where nothing can be started.

    `text`: of its standard input, at most what a pipe holds. `output`: a file for what it says;
    `lock`: one that stays open until the command has ended or was killed.
    """
    _started[:] = [child for child in _started if child.poll() is None]
    reader, writer = os.pipe()
    with suppress(OSError):
        os.set_blocking(writer, False)
        os.write(writer, text.encode("utf-8", "surrogateescape"))
    os.close(writer)
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(seconds), *words],
            stdin=reader,
            stdout=output if output >= 0 else subprocess.DEVNULL,
            stderr=output if output >= 0 else subprocess.DEVNULL,
            pass_fds=[lock] if lock >= 0 else [],
            start_new_session=True,
            cwd="/",
            env=env,
        )
    except (OSError, ValueError):
        return None
    finally:
        os.close(reader)
    _started.append(child)
    return child
