"""Tell failures that a program caught or only logged, and after which it went on. Python 3.8."""

from __future__ import annotations

from collections.abc import Sequence

from ..numbers.rows import Row
from .evidence import Evidence
from .finished import came_to_end
from .kinds import APART, FRAME, MESSAGE, PLAIN
from .lines import MESSAGE_LINES
from .runs_in_file import is_progress, moving_bars
from .waiting import Failure

GOES_ON = 3  # lines behind a failure that tell of none, one of them of progress
# The outermost functions of a traceback that nobody caught: of a program, a process, a thread.
_ENDS = (
    "<module>",
    "_run_module_as_main",
    "_bootstrap",
    "_bootstrap_inner",
    "_wrap",
    "worker",
)
_MAIN = "main"  # the outermost too where people cut the frame that called it


def went_on(evidence: Evidence, rows: Sequence[Row] = ()) -> bool:
    """Return whether a run outlived everything that failed in it. False where nothing failed.

    `rows` are those of the run, in which progress bars are looked for.
    A program that catches an exception prints its traceback from the frame that caught it on, and a
    logged error has none. Both count only if the run made progress afterwards, or tells its end.
    """
    failures = evidence.failures
    if not failures or evidence.ranks or any(_outermost(f) in (*_ENDS, _MAIN) for f in failures):
        return False
    if len({failure.line.source for failure in failures}) > 1:
        return False  # which of two files wrote last isn't known
    last, source = max(f.line.number for f in failures), failures[0].line.source
    if next(moving_bars(rows, last), None) or came_to_end(evidence.lines) > last:
        return True
    later = [
        line
        for line in evidence.lines
        if line.source == source
        and (
            (line.number > last and line.kind in (PLAIN, *APART))
            or (line.number > last + MESSAGE_LINES and line.kind == MESSAGE)
        )
    ]
    return len(later) >= GOES_ON and any(is_progress(line) for line in later)


def is_caught(failure: Failure) -> bool:
    """Return whether the program itself caught an exception and printed its traceback."""
    return _outermost(failure) not in ("", _MAIN, *_ENDS)


def may_be_caught(failure: Failure) -> bool:
    """Return whether nothing in a traceback shows that nobody caught the exception."""
    return _outermost(failure) not in _ENDS


def _outermost(failure: Failure) -> str:
    """The function of the outermost frame of a failure's traceback, "" without one."""
    frames = [frame.sign("frame") for frame in failure.frames if frame.kind == FRAME]
    return next((frame[2] or "<module>" for frame in frames if frame), "")
