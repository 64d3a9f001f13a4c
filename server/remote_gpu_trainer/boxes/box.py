"""Run a program on a machine, here or over ssh. Only this module starts ssh.

`run` returns the program's reply, or why there is none. The program's text goes over
stdin, and its arguments are quoted for the shell there; nothing that comes back reaches a shell
here. Options come from the user's own ssh configuration, except those in ALWAYS.

Limits: a reply is cut at `most` bytes, and the program is ended then. If the box has no `timeout`
command, a program that runs too long stays there.
"""

from __future__ import annotations

import base64
import math
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Literal

from ..text.masking import shown, shown_lines
from . import calls
from .ssh import BadBox, Box, Trouble, parse, trouble
from .streaming import Stream

__all__ = [
    "BASH", "PYTHON", "BadBox", "Box", "NotStarted", "Reply", "Stream", "Trouble", "address",
    "interactive", "parse", "run", "stream", "trouble_of",
]  # fmt: skip

MOST = 4 << 20  # bytes of a reply
MOST_ERRORS = 64 << 10
NO_SSH = (
    "ssh isn't installed on this machine, or isn't on the PATH; install the OpenSSH client, or add "
    "it to the PATH, also to that of a timer"
)
TO_BEGIN = 30.0  # seconds until a streaming program must have begun
BASH = ("bash", "-s", "--")
PYTHON = ("python3", "-I", "-")  # -I: don't import from the folder it starts in
ALWAYS = (
    "-a", "-x", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "ControlMaster=no",
    "-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "RemoteCommand=none",
)  # fmt: skip
UNATTENDED = ("-T", "-o", "BatchMode=yes")  # nobody is asked for a password
# Prints a mark when the login has reached a shell, runs the program, and prints its exit code. So
# a program's exit 255 isn't taken for ssh's.
_WRAP = (
    r"""n=$1; t=$2; shift 2; printf '%s\n' "$n"; """
    r"""if command -v timeout >/dev/null 2>&1; then timeout -k 5 "$t" "$@"; else "$@"; fi; """
    r"""printf '\n%s %s\n' "$n" "$?" """
)


@dataclass(frozen=True)
class Reply:
    """How a program ended.

    `ok`: it ran and ended with `code`, None if the reply was cut. `unreachable`: it didn't run;
    `why` is a reason of `ssh.Trouble`. `overtime`: it ran longer than `limit`. `out` and `errors`
    are its stdout and stderr, `text` is a sentence for people unless the outcome is ok.
    """

    outcome: Literal["ok", "unreachable", "overtime"]
    code: int | None = None
    out: bytes = b""
    errors: str = ""
    cut: bool = False
    why: str = ""
    text: str = ""


def run(
    box: Box,
    program: str | bytes | IO[bytes],
    *,
    interpreter: tuple[str, ...] = BASH,
    args: tuple[str, ...] = (),
    limit: float = 30,
    most: int = MOST,
    accept_new: bool = False,
    ssh_config: str = "",
) -> Reply:
    """Run a program's text on the box, for at most `limit` seconds and `most` bytes of output.

    `program` is what the interpreter reads from standard input: a text, bytes or an open file; an
    interpreter that has its program among its own words gets the program's input there.
    `accept_new` stores an unknown host key; a changed key is never accepted. `ssh_config` is the
    ssh configuration to use instead of the user's.
    """
    if box.local:
        return _run_here(box, program, interpreter, args, limit, most)
    mark = secrets.token_hex(12)
    command = shlex.join(
        ["sh", "-c", _WRAP, "rgt", mark, str(math.ceil(limit)), *interpreter, *args]
    )
    done = _start(
        [*_ssh(box, accept_new, ssh_config), "--", box.host, command],
        _given(program),
        limit,
        most + 4096,
    )
    if done.missing:
        return Reply(
            "unreachable",
            why="no-ssh",
            text=NO_SSH,
        )
    before, begun, rest = done.out.partition(mark.encode() + b"\n")
    if begun:
        reply = _program_reply(box, done, mark, rest, limit, most)
        if reply:
            return reply
    reason = _why_no_reply(box, done, before, bool(begun), limit, ssh_config)
    return Reply(
        "unreachable", done.code, rest[:most], done.errors, why=reason.why, text=reason.text
    )


def _given(program: str | bytes | IO[bytes]) -> bytes | IO[bytes]:
    return program.encode() if isinstance(program, str) else program


def _run_here(
    box: Box,
    program: str | bytes | IO[bytes],
    interpreter: tuple[str, ...],
    args: tuple[str, ...],
    limit: float,
    most: int,
) -> Reply:
    """Run a program on this machine. Without a `python3` here, this Python runs it."""
    no_python = interpreter[0] == "python3" and not shutil.which("python3")
    first = sys.executable if no_python else interpreter[0]
    done = _start([first, *interpreter[1:], *args], _given(program), limit, most)
    if done.missing:
        return Reply(
            "unreachable",
            why="other",
            text=f"{interpreter[0]} isn't installed here; install it, or add it to the PATH",
        )
    if done.late:
        return _overtime(box, limit, done)
    return Reply("ok", None if done.cut else done.code, done.out, done.errors, done.cut)


def _program_reply(
    box: Box, done: _Done, mark: str, rest: bytes, limit: float, most: int
) -> Reply | None:
    """Return the reply of a program that began on a box; None if the connection broke.

    `rest` is what came after the first mark.
    """
    body, ended, last = rest.rpartition(b"\n" + mark.encode() + b" ")
    if ended and last.strip().isdigit():
        code = int(last)
        # `timeout` ends with 124, or with 137 if it had to kill. The program itself may end so too.
        if code in (124, 137) and done.seconds >= limit:
            return _overtime(box, limit, done)
        return Reply("ok", code, body[:most], done.errors, len(body) > most)
    if done.cut:
        return Reply("ok", None, rest[:most], done.errors, True)
    return _overtime(box, limit, done) if done.late else None


def _why_no_reply(
    box: Box, done: _Done, before: bytes, begun: bool, limit: float, ssh_config: str
) -> Trouble:
    """Return why a program on a box didn't run to its end. `before`: what the login printed."""
    if done.late:
        return Trouble(
            "timeout",
            f"no answer from {shown(box.name, 80)} within {limit:g} s; check in the provider's "
            "console that the box runs",
        )
    if begun:  # stderr may contain the program's output
        return Trouble(
            "lost",
            f"the connection to {shown(box.name, 80)} broke before the program ended; try again",
        )
    login_output = before.decode("utf-8", "replace")
    return trouble(box, done.code, done.errors, login_output, _keys(box, done, ssh_config))


@contextmanager
def stream(
    box: Box,
    words: tuple[str, ...],
    given: bytes | None = None,
    *,
    accept_new: bool = False,
    ssh_config: str = "",
) -> Iterator[Stream]:
    """Run a program on the box for as long as the block, to read its output as it comes.

    `given`: its standard input. `trouble_of` says why a stream ended. Raises NotStarted where no
    program began.
    """
    mark, call = secrets.token_hex(12), calls.current()
    command: tuple[str, ...] = (
        "sh",
        "-c",
        'printf "%s\n" "$1"; shift; exec "$@"',
        "rgt",
        mark,
        *words,
    )
    if not box.local:
        command = (*_ssh(box, accept_new, ssh_config), "--", box.host, _line(words, mark))

    def start() -> subprocess.Popen[bytes]:
        return _start_piped(command)

    try:
        process = call.start(start) if call else start()
    except FileNotFoundError:
        text = f"{command[0]} isn't installed here; install it, or add it to the PATH"
        raise NotStarted(Trouble("other" if box.local else "no-ssh", text)) from None
    try:
        started = Stream(process, mark, given)
        if not started.begin(TO_BEGIN):
            raise NotStarted(trouble_of(box, started, ssh_config))
        yield started
    finally:
        calls.kill(process)
        if call:
            call.ended(process)


class NotStarted(Exception):
    """No program began on a box. `trouble`: why."""

    def __init__(self, trouble: Trouble):
        super().__init__(trouble.text)
        self.trouble = trouble


def trouble_of(box: Box, ended: Stream, ssh_config: str = "") -> Trouble:
    """Return why a stream ended before its program said that it was at its end."""
    code, errors = ended.end()
    done = _Done(code, errors=errors)
    if ended.has_begun:
        # 255 is ssh's own; a code below 0 is of a signal that ended it.
        if box.local or (code is not None and 0 <= code < 255):
            last = next(reversed(shown_lines(errors, 1, 200)), "no message")
            return Trouble("program", f"the program on {shown(box.name, 80)} ended early ({last})")
        return _why_no_reply(box, done, b"", True, 0, ssh_config)
    done.late = ended.is_late
    return _why_no_reply(box, done, b"", False, TO_BEGIN, ssh_config)


def interactive(box: Box, words: tuple[str, ...], accept_new: bool = False) -> list[str]:
    """Return the words that run a program at this terminal: here, or there by the user's ssh."""
    if box.local:
        return list(words)
    command = _ssh(box, accept_new, "")[: -len(UNATTENDED)]
    return [*command, "-t", "--", box.host, _line(words)]


def _line(words: tuple[str, ...], mark: str = "") -> str:
    """Return a command on one line and without characters that some login shell takes for its own:
    csh ends a quoted word at the end of a line. It prints the mark first."""
    packed = base64.b64encode(f"exec {shlex.join(words)}".encode()).decode()
    say = f"echo {mark}; " if mark else ""
    return f"""sh -c '{say}eval "$(echo {packed} | base64 -d)"'"""


def _start_piped(words: Sequence[str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        words,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=_environment(words[0]),
        start_new_session=True,
    )


def address(box: Box, ssh_config: str = "", limit: float = 10) -> str:
    """Return the host:port that the user's ssh configuration leads to.

    The name itself if ssh doesn't know it, "" for this machine.
    """
    settings = _settings(box, ssh_config, limit)
    if box.local or "hostname" not in settings:
        return box.host
    return shown(f"{settings['hostname']}:{settings.get('port', '22')}", 200)


def why_no_address(box: Box, limit: float = 10) -> Trouble | None:
    """Return why ssh on this machine can't say where a box is, None where it can."""
    done = _ask_settings(box, "", limit)
    if done.missing:
        return Trouble("no-ssh", NO_SSH)
    if done.code == 0 and not done.late:
        return None
    last = next(reversed(shown_lines(done.errors, 1, 160)), "no answer")
    return Trouble("no-ssh", f"ssh on this machine can't read its configuration ({last}); mend it")


def numbers(box: Box, limit: float = 10) -> list[str]:
    """Return the IP addresses of the host that ssh reaches, [] where another machine finds it."""
    settings = _settings(box, "", limit)
    jumps = {settings.get(name, "none") for name in ("proxyjump", "proxycommand")} != {"none"}
    if jumps or "hostname" not in settings:
        return []
    try:
        found = socket.getaddrinfo(settings["hostname"], None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return sorted({str(one[4][0]) for one in found})


def _settings(box: Box, ssh_config: str, limit: float) -> dict[str, str]:
    """Return what the user's ssh configuration says of a box, {} for this machine."""
    if box.local:
        return {}
    done = _ask_settings(box, ssh_config, limit)
    lines = done.out.decode("utf-8", "replace").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _ask_settings(box: Box, ssh_config: str, limit: float) -> _Done:
    return _start([*_ssh(box, False, ssh_config), "-G", "--", box.host], b"", limit, MOST)


def _ssh(box: Box, accept_new: bool, ssh_config: str, level: str = "ERROR") -> list[str]:
    config = ssh_config or os.environ.get("REMOTE_GPU_TRAINER_SSH_CONFIG", "")
    known = "accept-new" if accept_new else "yes"
    return [
        "ssh",
        *(["-F", config] if config else []),
        *box.options,
        "-o",
        f"StrictHostKeyChecking={known}",
        "-o",
        f"LogLevel={level}",
        *ALWAYS,
        *UNATTENDED,
    ]


def _keys(box: Box, done: _Done, ssh_config: str) -> str:
    """Return what ssh says about the host key that it refused, "" if it refused none.

    It shows the key that accepting would store, even behind a jump host.
    """
    if "ost key" not in done.errors and "IDENTIFICATION" not in done.errors:
        return ""
    return _start(
        [*_ssh(box, False, ssh_config, "DEBUG1"), "--", box.host, "true"], b"", 20, MOST
    ).errors


def _overtime(box: Box, limit: float, done: _Done) -> Reply:
    last = next(reversed(shown_lines(done.errors, 1, 160)), "")
    detail = f" ({last})" if last else ""
    return Reply(
        "overtime",
        None,
        done.out,
        done.errors,
        text=f"the program on {shown(box.name, 80)} was still running after {limit:g} s{detail}",
    )


@dataclass
class _Done:
    """How a started program ended. `missing`: it isn't installed. `late`: its time was over."""

    code: int | None = None
    out: bytes = b""
    errors: str = ""
    cut: bool = False
    late: bool = False
    missing: bool = False
    seconds: float = 0.0


def _start(command: list[str], given: bytes | IO[bytes], limit: float, most: int) -> _Done:
    """Run an argument list, with limits on time and output. `given` is its standard input, which is
    read from its place if it is a file.

    It has no terminal, so no program can ask a question.
    """
    began, call = time.monotonic(), calls.current()
    pipe = subprocess.PIPE

    def starts() -> subprocess.Popen:
        return subprocess.Popen(
            command,
            stdin=pipe if isinstance(given, bytes) else given,
            stdout=pipe,
            stderr=pipe,
            env=_environment(command[0]),
            start_new_session=True,
        )

    try:
        process = call.start(starts) if call else starts()
    except (FileNotFoundError, PermissionError):
        return _Done(missing=True)
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdout and stderr  # pipes were asked for
    done, stop, out, errors = _Done(), threading.Event(), bytearray(), bytearray()

    def collect(stream, into: bytearray, bound: int) -> None:
        while piece := stream.read1(1 << 16):
            if len(into) < bound:
                into += piece[: bound - len(into)]
            elif into is out:
                done.cut = True
                stop.set()
                return

    def write() -> None:
        if not isinstance(given, bytes):
            return
        assert stdin  # a pipe then
        try:
            stdin.write(given)
            stdin.close()
        except (OSError, ValueError):
            pass

    def wait() -> None:
        process.wait()
        stop.set()

    readers = [
        threading.Thread(target=collect, args=(stdout, out, most), daemon=True),
        threading.Thread(target=collect, args=(stderr, errors, MOST_ERRORS), daemon=True),
    ]
    for thread in (
        *readers,
        threading.Thread(target=write, daemon=True),
        threading.Thread(target=wait, daemon=True),
    ):
        thread.start()
    try:
        done.late = not stop.wait(limit)
    finally:
        calls.kill(process)
    process.wait(10)
    if call:
        call.ended(process)
    for reader in readers:  # a child may keep the pipe open after its parent has ended
        reader.join(2)
    done.code, done.out = process.returncode, bytes(out)
    done.errors = errors.decode("utf-8", "replace")
    done.seconds = time.monotonic() - began
    return done


def _environment(program: str) -> dict[str, str]:
    """Return the variables for a program: no dialogs that ask, and English texts from ssh."""
    left_out = ("SSH_ASKPASS", "DISPLAY")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    env["SSH_ASKPASS_REQUIRE"] = "never"
    if program == "ssh":
        env["LC_ALL"] = "C"
    return env
