"""This machine's end of a transfer: ssh and the program on the box, tried again when it breaks."""

from __future__ import annotations

import shutil
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from ...boxes import box as boxes
from ...boxes.box import Box, Stream, Trouble
from ...text.masking import shown
from .. import run_script
from .wire import Broken, Wire

Result = TypeVar("Result")

SILENT = 600.0  # seconds; the other end says at least every few that it works
PATIENCE = 180.0  # seconds for which a connection that broke is tried again
LAST_WORDS = 5.0  # seconds
LATER = ("lost", "timeout", "refused", "name")  # why a box may answer again
_NO_PYTHON = (
    "python3: not found",
    "python3: command not found",
    "No such file",
    "cannot execute",
    "python3: Permission denied",
)
# Reads so many bytes, which are the program, and leaves the rest of standard input to it.
_BOOT = (
    "import sys, zlib; "
    "exec(zlib.decompress(sys.stdin.buffer.read(int(sys.argv.pop(1)))), {'__name__': 'rgt'})"
)


class Lost(Exception):
    """A transfer broke off. `trouble`: why; `moved`: bytes of files that went over before."""

    def __init__(self, trouble: Trouble, moved: int = 0):
        super().__init__(trouble.text)
        self.trouble, self.moved = trouble, moved


@contextmanager
def opened(
    box: Box,
    main: str,
    words: tuple[str, ...],
    *,
    finds: tuple[str, ...] = (),
    head: Callable[[Stream], None] = lambda stream: None,
    accept_new: bool = False,
) -> Iterator[Wire]:
    """Run a program on the box for as long as the block, and talk with it. Raises Lost.

    `main`: its module, as `run_script.program` takes it. `finds`: words of a program that calls
    this one. `head`: reads what that says.
    """
    python = (shutil.which("python3") or sys.executable) if box.local else "python3"
    packed = zlib.compress(run_script.program(main).encode(), 9)
    command = (*finds, python, "-I", "-c", _BOOT, str(len(packed)), *words)
    try:
        with boxes.stream(box, command, accept_new=accept_new) as stream:
            wire = Wire(stream.out, stream.into)
            try:
                head(stream)
                with _watched(wire, stream):
                    _give(stream, packed)
                    yield wire
            except Broken:
                _hear_out(wire, stream)
                raise Lost(boxes.trouble_of(box, stream), wire.moved) from None
    except boxes.NotStarted as error:
        raise Lost(error.trouble) from None


def _give(stream: Stream, data: bytes) -> None:
    try:
        stream.into.write(data)
        stream.into.flush()
    except OSError:
        raise Broken("the connection broke") from None


def _hear_out(wire: Wire, stream: Stream) -> None:
    """Look whether the other end said why it ended, behind what nobody has read yet.

    Raises Refused with its words.
    """
    timer = threading.Timer(LAST_WORDS, stream.kill)
    timer.start()
    try:
        with suppress(OSError, ValueError):
            stream.into.close()
        with suppress(Broken):
            while True:
                wire.row()
    finally:
        timer.cancel()


@contextmanager
def _watched(wire: Wire, stream: Stream) -> Iterator[None]:
    """End the connection once nothing moves on it any more."""
    ended = threading.Event()

    def end_silent() -> None:
        while not ended.wait(min(SILENT / 4, 5.0)):
            if time.monotonic() - wire.touched > SILENT:
                stream.kill()
                return

    threading.Thread(target=end_silent, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def resumed(once: Callable[[], Result], sleep: Callable[[float], None] = time.sleep) -> Result:
    """Return what `once` does, and do it again while its connection breaks. Raises Lost.

    It goes on where it was, so each time less is left. It isn't tried again where no connection
    came about at first, nor once nothing has moved for so long.
    """
    since, tries, has_moved = 0.0, 0, False
    while True:
        try:
            return once()
        except Lost as lost:
            has_moved = has_moved or lost.moved > 0
            if not has_moved or lost.trouble.why not in LATER:
                raise
            if lost.moved or not tries:
                since, tries = time.monotonic(), 0
            if time.monotonic() - since > PATIENCE:
                raise
            sleep(min(2.0**tries, 15.0))
            tries += 1


def lacks_python(lost: Lost) -> bool:
    """Whether a box has no Python to talk with."""
    text = lost.trouble.text
    return "python3" in text and any(sign in text for sign in _NO_PYTHON)


def without_python(box: Box) -> str:
    """Return what is told of a box that nothing can be sent to."""
    return f"no python3 on {shown(box.name, 80)}; install Python 3.8 or newer there"
