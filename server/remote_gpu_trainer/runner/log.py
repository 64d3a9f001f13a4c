"""The program's log: files of limited size, whose trouble never reaches the program."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress

from ..readings.course import Course
from .context import Run
from .step_pattern import compile_step_pattern

_NAME = re.compile(r"train\.log\.(\d{4,9})\Z")
LINE = 4096  # bytes at a line's end in which a step is looked for
TIMES = "log/train.times"  # in the run's folder: when the log had come to which byte of which file
TIMES_EVERY = 1.0  # seconds
MOST_TIMES = 1 << 20  # bytes of that file, some ten hours: then every second row goes


def path(run: Run, number: int) -> str:
    """Return the path of a log file."""
    return run.folder.at("log", f"train.log.{number:04d}")


def _numbers(run: Run) -> list[int]:
    try:
        found = [_NAME.match(name) for name in os.listdir(run.folder.at("log"))]
    except OSError:
        return []
    return sorted(int(match[1]) for match in found if match)


def files(run: Run) -> list[str]:
    """Return the paths of the log's files, the oldest first."""
    return [path(run, number) for number in _numbers(run)]


def next_number(run: Run) -> int:
    """Return the number of the file that comes after the newest."""
    return max(_numbers(run), default=-1) + 1


def tail(run: Run, first: int, size: int, end: tuple[int, int] | None = None) -> bytes:
    """Return the last `size` bytes of the log from file number `first` on, before `end`: a file's
    number and a byte of it."""
    parts, left = [], size
    for number in reversed([number for number in _numbers(run) if number >= first]):
        if end and number > end[0]:
            continue
        with suppress(OSError), open(path(run, number), "rb") as file:
            length = file.seek(0, os.SEEK_END)
            length = min(length, end[1]) if end and number == end[0] else length
            file.seek(max(length - left, 0))
            parts.append(file.read(min(left, length)))
            left -= len(parts[-1])
        if left <= 0:
            break
    return b"".join(reversed(parts))


def head(run: Run, first: int, size: int) -> bytes:
    """Return the first `size` bytes of the log from file number `first` on."""
    parts, left = [], size
    for number in [number for number in _numbers(run) if number >= first]:
        with suppress(OSError), open(path(run, number), "rb") as file:
            parts.append(file.read(left))
            left -= len(parts[-1])
        if left <= 0:
            break
    return b"".join(parts)


class Reader:
    """Reads the log from file number `first` on, each byte once."""

    MOST = 1 << 22  # bytes of one read
    LEAST_LEFT = 1 << 26  # bytes before the end at which a long log is begun with

    def __init__(self, run: Run, first: int):
        self.run, self._number, self._at = run, first, 0
        self._is_first = True

    def read(self) -> bytes:
        """Return what the log has more of, so much at most; b"" for nothing."""
        parts, left = [], self.MOST
        for number in [number for number in _numbers(self.run) if number >= self._number]:
            at = self._at if number == self._number else 0
            with suppress(OSError), open(path(self.run, number), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                if self._is_first:
                    at = max(at, size - self.LEAST_LEFT)
                file.seek(at)
                parts.append(file.read(left))
                self._number, self._at = number, at + len(parts[-1])
                left -= len(parts[-1])
            if left <= 0:
                break
        self._is_first = False
        return b"".join(parts)


def has_stepped(run: Run, first: int) -> bool:
    """Return whether the attempt whose log begins with this file got to a second step."""
    return len(set(find_steps(run, tail(run, first, 65536)))) > 1


def find_steps(run: Run, text: bytes) -> list[int]:
    """Return the steps that a piece of the log tells, as its lines have them, in their order: by
    the job's pattern, the last number of its last match in a line; without one, by `Course`.

    The bars of a load, and of an evaluation, are no steps.
    """
    lines = [line for line in re.split(rb"[\r\n]+", text) if b"oading" not in line]
    if run.spec.step_pattern:
        pattern = compile_step_pattern(run.spec.step_pattern)
        found = [_match_step(pattern, line[-LINE:]) for line in lines] if pattern else []
        return [step for step in found if step is not None]
    course, steps = Course(bar=_bar(run)), []
    for line in lines:
        before, course.printed = course.printed, None
        course.take(line[-LINE:].decode("utf-8", "replace"), 0.0)
        if course.printed is None:
            course.printed = before
        else:
            steps.append(course.printed)
    return steps


def find_step(run: Run, text: bytes) -> int | None:
    """Return the newest step of a piece of the log, for who needs that of one piece: of the log
    before a moment, or after the last heartbeat. `Heartbeat` follows the whole log."""
    return next(reversed(find_steps(run, text)), None)


def _match_step(pattern: re.Pattern[bytes], line: bytes) -> int | None:
    matches = list(pattern.finditer(line))
    digits = re.findall(rb"[0-9]+", matches[-1][0]) if matches else []
    return int(digits[-1]) if digits and len(digits[-1]) < 16 else None


def _bar(run: Run) -> int:
    """Return what the runner knows of the bar of training: a piece of the log may not show it."""
    reading = run.folder.json("state.json").get("reading")
    bar = reading.get("bar") if isinstance(reading, dict) else None
    return bar if isinstance(bar, int) else 0


def step_at(run: Run, first: int, when: float) -> int | None:
    """Return the newest step that the log had from file number `first` on at a moment, in seconds
    since 1970; None before its first line. True to TIMES_EVERY, as `Writer` notes it."""
    end: tuple[int, int] | None = None
    place, is_begun = (-1, -1), False
    for row in run.folder.read(TIMES).splitlines():
        with suppress(ValueError):
            time, *numbers = row.split()
            number, size = map(int, numbers)
            if number < first or (number, size) < place:  # a writer that took over begins with 0
                continue
            place = number, size
            if float(time) > when:
                end = place
                break
            is_begun = True
    if not is_begun:
        return None
    return find_step(run, tail(run, first, 65536, end))


class Writer:
    """Writes the program's output to files of `log_bytes` each, from number `first` on.

    A disk that is full costs lines, which are counted and told as soon as there is room again.
    All files together keep to `log_cap`: the oldest go, but the very first stays.
    """

    def __init__(self, run: Run, first: int):
        self.run, self.number = run, first
        self._file = -1
        self._size = self._lost = 0
        self._why = ""
        self._looked = run.up
        self._noted = run.up - TIMES_EVERY
        self._has_cut = False

    def write(self, data: bytes) -> None:
        """Write what can be written. Never raises."""
        self._look()
        if self._lost:
            note = f"\n[{self._lost} bytes of this log were lost: {self._why}]\n".encode()
            if self._put(note) < len(note):
                self._lost += len(data)
                return
            self.run.event("log-lost", bytes=self._lost, reason=self._why)
            self._lost = 0
        self._note_time()
        self._lost += len(data) - self._put(data)

    def _note_time(self) -> None:
        """Note now and then when the log had come to which byte: its own lines may not tell."""
        if self.run.up < self._noted + TIMES_EVERY:
            return
        self._noted = self.run.up
        row = f"{self.run.now:.2f} {self.number} {self._size}\n"
        if self._times_are_long():
            rows = self.run.folder.read(TIMES).splitlines(keepends=True)
            self.run.folder.write(TIMES, "".join(rows[::2]))
        self.run.folder.append(TIMES, row)

    def _times_are_long(self) -> bool:
        try:
            return os.path.getsize(self.run.folder.at(TIMES)) > MOST_TIMES
        except OSError:
            return False

    def close(self) -> None:
        """Tell what was lost at the end, and close the file."""
        if self._lost:
            self.write(b"")
        self._close()

    def _put(self, data: bytes) -> int:
        """Return how many of these bytes were written."""
        done = 0
        while done < len(data):
            try:
                self._open()
                room = self.run.spec.timings.log_bytes - self._size
                size = os.write(self._file, data[done : done + room])
            except OSError as error:
                # A limit of this process on a file's size (ulimit -f): the next file has room.
                if error.errno == errno.EFBIG and self._size:
                    self._next()
                    continue
                # In other words than the system's: a reader would take them for the program's.
                is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
                self._why = "its disk was full" if is_full else error.strerror or "unknown"
                return done
            done += size
            self._size += size
        return done

    def _open(self) -> None:
        """Have a file with room. Raises OSError."""
        if self._size >= self.run.spec.timings.log_bytes:
            self._next()
        if self._file < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path(self.run, self.number), flags, 0o640)
            self._size = os.fstat(self._file).st_size
            if self._size >= self.run.spec.timings.log_bytes:
                self._open()

    def _next(self) -> None:
        self._close()
        self.number += 1
        self._keep_to_cap()

    def _close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
        self._file, self._size = -1, 0

    def _look(self) -> None:
        """Once a second: open the file anew where somebody moved or removed it."""
        if self._file < 0 or self.run.up < self._looked + 1:
            return
        self._looked = self.run.up
        try:
            here = os.stat(path(self.run, self.number))
            is_same = os.path.samestat(here, os.fstat(self._file))
        except OSError:
            is_same = False
        if not is_same:
            self._close()

    def _keep_to_cap(self) -> None:
        """Remove the oldest files but the very first, until there is room for the next one."""
        sizes = {}
        for number in _numbers(self.run):
            with suppress(OSError):
                sizes[number] = os.stat(path(self.run, number)).st_size
        total = sum(sizes.values()) + self.run.spec.timings.log_bytes
        for number in sorted(sizes)[1:]:
            if total <= self.run.spec.timings.log_cap or number >= self.number:
                break
            with suppress(OSError):
                os.unlink(path(self.run, number))
                total -= sizes[number]
                if not self._has_cut:
                    self._has_cut = True
                    self.run.event("log-cut", limit=self.run.spec.timings.log_cap)
                    self.run.log("the log has reached its limit; the oldest files but the first go")
