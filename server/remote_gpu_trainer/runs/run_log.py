"""Follow the log of a run: its bytes as the box sends them, over lost connections too."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..boxes import box as boxes
from ..boxes.box import Box, Stream, Trouble
from ..text import UserError
from ..text.masking import shown, shown_some
from . import calling, run_script, status
from .status_reply import Parts, parts_of

MOST_HEAD = 1 << 20  # bytes that a box may say about its runs before the log
MOST_FRAME = 64 << 20  # bytes of one piece; the box sends 1 MB
READ = 1 << 16  # bytes that are read at a time


class NoLog(UserError):
    """A log can't be shown. One line: what is wrong; what to do."""


class Begun(NamedTuple):
    """The log was found. `folder`: of its run, on the box."""

    folder: str
    alive: bool


class Attempt(NamedTuple):
    """From here on the lines are this attempt's. `resume`: the checkpoint it goes on from."""

    number: int
    resume: str


class Lost(NamedTuple):
    """The connection broke, and is tried again. `why`: a sentence."""

    why: str


class Ended(NamedTuple):
    """There is no more. `why`: 'all' of what there was, 'ended': the run has, or 'attempt'."""

    why: str


Piece = Begun | Attempt | Lost | Ended | bytes


@dataclass
class Wanted:
    """Which part of a log. `since`: seconds before now. `last`: lines at its end.

    `at`: the log file's number and the byte in it from which to go on; [] at first. `connections`:
    in how many the log was found.
    """

    follow: bool = False
    attempt: int | None = None
    since: float | None = None
    last: int | None = None
    at: list[int] = field(default_factory=list)
    connections: int = 0


def read(
    box: Box,
    run: str,
    wanted: Wanted,
    *,
    accept_new: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Piece]:
    """Yield the pieces of a log, each byte once. Raises NoLog.

    A connection that breaks is tried again for as long as `status --wait` does. `run`: as
    `calling.call` takes it.
    """
    silent_since, tries = None, 0
    while True:
        before = wanted.connections
        why = yield from _read_once(box, run, wanted, accept_new)
        if why is None:
            return
        if not wanted.connections or why.why in status.FOR_GOOD or why.why == "program":
            raise NoLog(why.text)
        if wanted.connections > before:
            silent_since, tries = None, 0
        now = clock()
        if silent_since is None:
            silent_since = now
            yield Lost(why.text)
        if now - silent_since >= status.LOST:
            raise NoLog(
                f"{why.text}; no answer for {(now - silent_since) / 60:.0f} min, and the run may "
                "still be alive"
            )
        sleep(min(2.0**tries, 30.0))
        tries = min(tries + 1, 9)


def _read_once(
    box: Box, run: str, wanted: Wanted, accept_new: bool
) -> Generator[Piece, None, Trouble | None]:
    """Yield what one connection brings, and return why it broke; None at the end."""
    python = (shutil.which("python3") or sys.executable) if box.local else "python3"
    words = (
        "bash",
        "-c",
        calling.PROGRAM,
        "rgt",
        run,
        python,
        "-I",
        "-c",
        run_script.program("runs.log_reader"),
    )
    try:
        with boxes.stream(box, (*words, _as_json(wanted)), accept_new=accept_new) as stream:
            begun = _head(box, run, wanted, stream)
            wanted.connections += 1
            if wanted.connections == 1:
                yield begun
            ended = yield from _frames(stream, wanted)
            return None if ended else boxes.trouble_of(box, stream)
    except boxes.NotStarted as error:
        return error.trouble


def _as_json(wanted: Wanted) -> str:
    fields = {name: getattr(wanted, name) for name in ("follow", "attempt", "since", "last", "at")}
    return json.dumps(fields)


def read_head(stream: Stream) -> Parts:
    """Read what `calling.PROGRAM` says before the program's own output."""
    head = ""
    while len(head) < MOST_HEAD and (line := stream.out.readline(READ)):
        head += line.decode("utf-8", "replace")
        if line == b"rgt-status\n":
            break
    return parts_of(head)


def _head(box: Box, run: str, wanted: Wanted, stream: Stream) -> Begun:
    """Read which run it is, and what the reader there found of it. Raises NoLog."""
    parts = read_head(stream)
    name = shown(box.name, 80)
    if parts.body is None:
        if parts.folder or not run:
            raise NoLog(parts.without_run(name, run))
        raise boxes.NotStarted(boxes.trouble_of(box, stream))
    found = _frame(stream)
    if not found or not isinstance(found.get("attempts"), list):
        raise boxes.NotStarted(boxes.trouble_of(box, stream))
    folder = shown(found.get("folder", ""), 300)
    if others := found.get("others"):
        named = shown_some(others, width=200)
        raise NoLog(f"{folder} has several logs; name one with --run: {named}")
    if wanted.attempt is not None and wanted.attempt not in found["attempts"]:
        count = len(found["attempts"])
        some = f"its attempts are 1 to {count}" if count else "it hasn't begun its first"
        raise NoLog(f"{folder} has no attempt {wanted.attempt}; {some}")
    return Begun(folder, found.get("alive") is True)


def _frames(stream: Stream, wanted: Wanted) -> Generator[Piece, None, bool]:
    """Yield the pieces of the log, and note how far it was read. Return whether that is all."""
    while (found := _frame(stream)) is not None:
        if "end" in found:
            yield Ended(str(found["end"]))
            return True
        if "at" not in found:
            yield b""  # a sign that the connection holds
            continue
        number, at, left = (int(value) for value in (*found["at"], found["size"]))
        for row in found.get("begins", []):
            yield Attempt(int(row[0]), shown(row[2], 300))
        while left and (data := stream.out.read1(min(left, READ))):
            left, at = left - len(data), at + len(data)
            wanted.at = [number, at]
            yield data
        if left:
            break
    return False


def _frame(stream: Stream) -> dict[str, Any] | None:
    """Return the next frame's head, None where the connection broke or sent no frame."""
    try:
        found = json.loads(stream.out.readline(READ))
        if "at" in found:
            number, at = found["at"]
            fits = 0 <= int(found["size"]) <= MOST_FRAME and int(number) >= 0 and int(at) >= 0
            return found if fits else None
        return found if isinstance(found, dict) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
