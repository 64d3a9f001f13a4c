"""The program's parent: reads its output into the log, reaps it, and leaves its exit code.

It is forked from the runner and outlives it, so that a runner that was killed can come back and
find the code. The program holds its output pipe open for reading too, so nothing that happens to
this process ends it by a broken pipe; another holder takes the pipe over by /proc/PID/fd/1.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import traceback
from contextlib import suppress

from . import procs, secrets
from .context import Run
from .log import Writer
from .secrets import Mask

PR_SET_CHILD_SUBREAPER = 36
CHUNK = 1 << 16
LONGEST_CODE = 80  # bytes of the file with the exit code


def start(
    run: Run,
    words: list[str],
    env: dict[str, str],
    folder: str,
    number: int,
    first: int,
    umask: int,
) -> tuple[int, int]:
    """Fork a holder that starts the program; return the program's pid and start.

    `number`: of the attempt; `first`: of its first log file. Raises OSError.
    """
    told, tell = os.pipe()
    if os.fork() == 0:
        os.close(told)
        _detach(tell)
        try:
            pid, source = _begin(words, env, folder, umask)
            status = procs.stat(pid)
            procs.note_pid(run.folder, "train", pid)
            procs.note_pid(run.folder, "holder", os.getpid())
            os.write(tell, f"{pid} {status.start if status else 0}\n".encode())
            os.close(tell)
            _hold(run, source, pid, number, first, env)
        except BaseException:  # noqa: B036 - whatever it is, this process must not go on as a runner
            run.folder.append("log/runner.log", traceback.format_exc())
        os._exit(0)
    os.close(tell)
    with open(told, "rb") as file:
        line = file.read().split()
    if len(line) != 2:
        raise OSError("the process that holds the program did not start")
    return int(line[0]), int(line[1])


def take_over(run: Run, pid: int, number: int, first: int, env: dict[str, str]) -> bool:
    """Fork a holder for a program whose own is gone: its log goes on, its code stays unknown."""
    try:
        source = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    if os.fork() == 0:
        _detach(source)
        try:
            procs.note_pid(run.folder, "holder", os.getpid())
            _hold(run, source, 0, number, first, env, watch=pid)
        except BaseException:  # noqa: B036
            run.folder.append("log/runner.log", traceback.format_exc())
        os._exit(0)
    os.close(source)
    return True


def _detach(keep: int) -> None:
    """Leave the runner's session, files and signals behind; `keep` stays open."""
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
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != keep:
            with suppress(OSError):
                os.close(int(name))  # the run's lock among them: it must end with the runner


def _begin(words: list[str], env: dict[str, str], folder: str, umask: int) -> tuple[int, int]:
    """Start the program in a session of its own; return its pid and the end of its output."""
    with suppress(Exception):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    source, sink = os.pipe()
    output = os.open(f"/proc/self/fd/{sink}", os.O_RDWR)
    os.close(sink)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for sign in range(1, signal.NSIG):
                with suppress(OSError, ValueError):
                    signal.signal(sign, signal.SIG_DFL)
            os.umask(umask)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.closerange(3, 4096)
            os.chdir(folder)
            os.execvpe(words[0], words, env)
        except BaseException as error:  # noqa: B036
            code = 127 if isinstance(error, FileNotFoundError) else 126
            why = error.strerror if isinstance(error, OSError) else str(error)
            name = folder if isinstance(error, NotADirectoryError) else words[0]
            os.write(2, f"{name}: {why}\n".encode("utf-8", "surrogateescape"))
            os._exit(code)
    os.close(output)
    os.set_blocking(source, False)
    return pid, source


def _hold(
    run: Run, source: int, pid: int, number: int, first: int, env: dict[str, str], watch: int = 0
) -> None:
    """Pump the output until the program has ended, with what it left in the background.

    `pid`: the program where it is a child of this process; `watch`: where it isn't.
    """
    writer = Writer(run, first)
    mask = Mask([env[name] for name in secrets.names(run.spec) if env.get(name)])
    woken, waker = os.pipe()
    for end in (woken, waker):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(woken, select.POLLIN)
    if not watch:
        run.folder.write("rc", " " * LONGEST_CODE)  # to be written over on a full disk
    owed, is_open, has_children = "", True, not watch
    while is_open or has_children or owed or (watch and procs.stat(watch) is not None):
        for ready, _ in poll.poll(200 if owed else 1000):
            if ready == woken:
                os.read(woken, 4096)
            elif not _pump(source, writer, mask):
                is_open = False
                poll.unregister(source)
        ended, has_children = _reap(pid)
        if ended is not None:
            owed = json.dumps({"number": number, "code": ended}) + "\n"
        # Where not even its own bytes can be written over, it waits for room.
        if owed and run.folder.overwrite("rc", owed):
            owed = ""
    writer.write(mask.flush())
    writer.close()


def _pump(source: int, writer: Writer, mask: Mask) -> bool:
    """Move what is there to the log; False when nobody holds the pipe's other end."""
    while True:
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        writer.write(mask.feed(data))


def _reap(pid: int) -> tuple[int | None, bool]:
    """Take every child that has ended; return the program's code if it was among them, and whether
    there are more children."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found, False
        if ended == 0:
            return found, True
        if ended == pid:
            found = code(status)


def code(status: int) -> int:
    """Return a wait status as a shell tells it: 128 and the signal's number for a kill."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
