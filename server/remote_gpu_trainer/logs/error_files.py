"""Read the error.json of torch elastic: the exception of a rank, its traceback and its time.

The agent gives each worker a path such as LOG_DIR/RUN_x7k2/attempt_0/1/error.json. A program whose
main function is decorated with `record` writes it when it raises; most aren't, so that a missing
file says nothing. torchrun copies the first failure to its own TORCHELASTIC_ERROR_FILE.

What such a file tells goes in among the lines of the logs, so that everything that judges lines
judges it too: a rank that only lost another one is no cause here either. Standard library,
Python 3.8.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .kinds import EXCEPTION, FRAME, TRACE
from .lines import Line, lines_of

NAME = "error.json"
MOST_BYTES = 1 << 20  # of a file
MOST_FILES = 1_024  # of a folder
MOST_NAMES = 20_000  # files and folders in a folder that are looked at
SINCE_S = 3_600  # seconds before the last word of a log within which a file is of its run
CLOCKS_S = 60  # seconds by which clocks may differ


class ErrorFile(NamedTuple):
    """What one file tells.

    `source` is its name below the folder, and `rank` the one in it, None without one. `seconds` is
    when it was written, since 1970, 0 where it doesn't say. `lines` are its traceback.
    """

    source: str
    rank: int | None
    seconds: int
    lines: list[Line]

    def exception(self) -> str:
        """Return the text of its exception, "" without one."""
        return next((line.text for line in reversed(self.lines) if line.kind == EXCEPTION), "")

    def tail(self) -> str:
        """Return the end of its path, by which a launcher's summary names it."""
        return "/".join(self.source.split("/")[-3:])


def errors_in(folder: str) -> list[ErrorFile]:
    """Return what the error.json in a folder and below tell, of at most MOST_NAMES entries."""
    errors: list[ErrorFile] = []
    names_seen = 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "node_modules")
        names_seen += len(names) + len(folders)
        if NAME in names:
            error = _read(base, os.path.relpath(base, folder))
            errors += [error] if error else []
        if names_seen > MOST_NAMES or len(errors) >= MOST_FILES:
            break
    return errors


def error_beside(path: str) -> list[ErrorFile]:
    """Return what the error.json in the folder of a log tells, in a list; empty without one."""
    error = _read(os.path.dirname(path) or ".", _ranked_end(os.path.dirname(os.path.abspath(path))))
    return [error] if error else []


def errors_of(
    errors: Sequence[ErrorFile], lines: list[Line], paths: Iterable[str]
) -> list[ErrorFile]:
    """Return those of the files that are of the run of these lines. `paths` are those of its logs.

    Such a file stands beside a log in an attempt's folder, or the launcher's summary names it, or
    it was written shortly before the logs ended.
    """
    last = _last_write(paths) if errors else 0.0
    return [error for error in errors if _is_of(error, lines, last)]


def add_errors(lines: list[Line], errors: Sequence[ErrorFile]) -> list[Line]:
    """Return the lines with what the files tell.

    A failure that a log holds gets the file's rank where the log names none; any other is added.
    """
    texts = [error.exception() for error in errors]
    for error, text in zip(errors, texts):
        places = [
            at
            for at, line in enumerate(lines)
            if line.kind == EXCEPTION and line.text.strip() == text
        ]
        ranks = {lines[at].rank for at in places}
        if not text or not places or (None not in ranks and error.rank not in (None, *ranks)):
            lines = [*lines, *error.lines]
        elif ranks == {None} and texts.count(text) == 1:
            lines = _with_rank(lines, places[-1], error.rank)
    return lines


def _last_write(paths: Iterable[str]) -> float:
    """When the last of these files was written, in seconds since 1970, 0 for none."""
    times = [0.0]
    for path in paths:
        try:
            times.append(os.stat(path).st_mtime)
        except OSError:
            continue
    return max(times)


def _is_of(error: ErrorFile, lines: list[Line], last: float) -> bool:
    """Whether a file is of the run of these lines, whose logs were `last` written."""
    place = os.path.dirname(error.source)
    if "attempt_" in place and any(os.path.dirname(line.source) == place for line in lines):
        return True
    if any(error.tail() in line.text for line in lines if line.says("field")):
        return True
    return -CLOCKS_S <= last - error.seconds <= SINCE_S


def _with_rank(lines: list[Line], at: int, rank: int | None) -> list[Line]:
    """The lines, the exception at a place and its traceback as ones of a rank."""
    begin = at
    while begin and lines[begin - 1].kind in (FRAME, TRACE) and lines[begin - 1].rank is None:
        begin -= 1
    own = [line.of_rank(rank) for line in lines[begin : at + 1]]
    return [*lines[:begin], *own, *lines[at + 1 :]]


def _read(folder: str, place: str) -> ErrorFile | None:
    """What the file in a folder tells, None where it isn't one. `place` is the folder's name."""
    path = os.path.join(folder, NAME)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode) or os.path.getsize(path) > MOST_BYTES:
            return None
        with open(path, "rb") as stream:
            message = json.loads(stream.read(MOST_BYTES)).get("message")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    whole = message if isinstance(message, dict) else {"message": message}
    extra = whole.get("extraInfo")
    extra = extra if isinstance(extra, dict) else {}
    said, stack = whole.get("message"), extra.get("py_callstack")
    text = stack if isinstance(stack, str) and stack.strip() else said
    if not isinstance(text, str) or not text.strip():
        return None
    source = "/".join([*(part for part in place.split(os.sep) if part != "."), NAME])
    rank = _rank_of(source)
    seconds = _seconds(extra.get("timestamp"))
    rows = [(at, row.encode("utf-8", "replace")) for at, row in enumerate(text.splitlines(), 1)]
    written = _written(seconds) if seconds else ""
    lines = [line._replace(time=written) for line in lines_of(rows, source, rank)]
    return ErrorFile(source, rank, seconds, lines)


def _rank_of(source: str) -> int | None:
    """The rank of attempt_0/1/error.json, None for any other place."""
    parts = source.split("/")
    is_ranked = len(parts) > 2 and parts[-3].startswith("attempt_") and parts[-2].isdecimal()
    return int(parts[-2]) if is_ranked and len(parts[-2]) < 6 else None


def _ranked_end(folder: str) -> str:
    """The end of a folder's path that names attempt and rank, "" without one."""
    end = "/".join(folder.replace(os.sep, "/").split("/")[-2:])
    return end if _rank_of(f"{end}/{NAME}") is not None else ""


def _seconds(value: object) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0


def _written(seconds: int) -> str:
    """A time in the form of a log's stamp. It names its zone: a log's own may be another."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(seconds))
