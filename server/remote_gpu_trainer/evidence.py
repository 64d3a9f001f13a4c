"""A pasted report, or logs of any size, to what actually failed: read (log_folder, logfiles, windows), cleaned (lines), judged (judging)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from . import logfiles
from .judging import Evidence, Failure, judge
from .lines import Line, lines_of, mask, rank_of
from .logfiles import Unreadable

__all__ = ["Evidence", "Failure", "Line", "Unreadable", "from_path", "from_stream", "from_text", "mask"]


def from_text(text: str, source: str = "text", needles: Iterable[bytes] = ()) -> Evidence:
    """Evidence of a pasted report. Raises Unreadable when it is blank or binary."""
    return judge(lines_of(logfiles.of_text(text, source, needles), source, None))


def from_stream(stream, source: str = "stdin", needles: Iterable[bytes] = (), progress: Callable[[int], None] | None = None) -> Evidence:
    """Evidence of a binary stream of any length. `progress(bytes_read)` is called once a block."""
    return judge(lines_of(logfiles.of_stream(stream, source, None, needles, progress), source, None))


def from_path(path: str, needles: Iterable[bytes] = (), progress: Callable[[int], None] | None = None, seconds: float | None = None) -> Evidence:
    """Evidence of a file, or of a folder of per-rank logs read as one run, as much of it as `seconds` allow. Raises Unreadable."""
    if os.path.isdir(path):
        from . import log_folder  # most logs are single files

        lines, silent, left_out = log_folder.read(path, tuple(needles), progress, seconds)
        return judge(lines, silent)._replace(left_out=left_out)
    name = os.path.basename(path)
    return judge(lines_of(logfiles.of_file(path, needles, progress), name, rank_of(name, sure=True)))
