"""Read a folder of logs as one run.

Decides which files are read and how much of each is kept, and which ranks left nothing to read.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass

from .files import KEY_NAME, NoLog, Unreadable, hold_numbers, of_file
from .lines import Line, lines_of, ranks_of
from .windows import Row, cost

MAX_NAMES, MAX_FILES = 20_000, 512  # files that are seen, and read
KEPT = 8 << 20  # what may be kept of all logs together, as counted by `windows.cost`
LEAST = 8 << 10  # and of each one, whatever the others took
SHOWN = 8  # ranks that a sentence names

_NOT_LOGS = re.compile(
    r"\.(?:py|pyc|so|pt|pth|bin|safetensors|npy|npz|pkl|png|jpg|zip|tar|whl|parquet|arrow|ckpt"
    r"|onnx|h5|db|sqlite|lock|md|ya?ml|toml|cfg|sh|html?|csv|jsonl?)$",
    re.I,
)
_PACKED_LOG = re.compile(
    r"(?:\.(?:log|txt|out|err)(?:[.-]\d{1,8})?|(?:^|[/._-])std(?:err|out)|rank[-_.]?\d{1,5})\.gz$",
    re.I,
)


@dataclass(frozen=True)
class Folder:
    """What was read of a folder.

    `lines`: those of all logs. `silent`: the ranks that left no line. `left_out`: what wasn't
    read, in one sentence. `numbers` and `named`: the rows of the first log that holds numbers, and
    its name.
    """

    lines: list[Line]
    silent: frozenset
    left_out: str
    numbers: list[Row]
    named: str


class _Late(Exception):
    """The time is over."""


class _Left:
    """Names of files that weren't read, by the reason."""

    def __init__(self):
        self.blank: list[str] = []
        self.refused: list[str] = []
        self.late: list[str] = []
        self.over: list[str] = []  # beyond MAX_FILES

    def told(
        self, count: int, seconds: float | None, ranks: dict[str, int], silent: set[int]
    ) -> str:
        """A sentence on what is missing. It holds no file name: names are text from outside."""
        missing = [*self.refused, *self.late, *self.over]
        why = [
            (self.refused, "can't be read"),
            (self.late, f"were not reached within {seconds or 0:g} s"),
            (self.over, f"are more than the {MAX_FILES} that are read, stderr first"),
        ]
        said = [f"{len(names)} of {count} files {reason}" for names, reason in why if names]
        unread = {ranks[name] for name in missing if name in ranks} & silent
        if unread:
            said.append(f"no log was read of {_named(unread)}")
        partial = [f"Partial: {'; '.join(said)}."] if said else []
        wrote = [f"Nothing was written by {_named(silent - unread)}."] if silent - unread else []
        return " ".join([*partial, *wrote])


def read(
    folder: str,
    needles: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float | None = None,
) -> Folder:
    """Read every log in a folder, as far as `seconds` allow. Raises Unreadable.

    `needles` and `progress` are as in `files.of_stream`.
    """
    end = None if seconds is None else time.monotonic() + seconds
    files = _log_files(folder)
    if not files:
        raise Unreadable(
            f"no log in the folder {folder}; pass one with files such as rank_0.log or 0/stderr.log"
        )
    sure, guessed = ranks_of(list(files))
    ranks = {**guessed, **sure}
    chosen = sorted(files, key=lambda name: "err" not in name.rpartition("/")[2].lower())[
        :MAX_FILES
    ]
    left, lines, numbers = _Left(), [], None
    left.over = (
        [name for name in files if name not in set(chosen)] if len(files) > MAX_FILES else []
    )
    chosen = [name for name in files if name in set(chosen)] if left.over else list(files)
    share, room, done = _share([files[name] for name in chosen]), KEPT, []

    def told(count: int) -> None:
        if progress:
            progress(count)
        if end is not None and time.monotonic() > end:
            raise _Late

    for at, name in enumerate(chosen):
        try:
            rows = of_file(os.path.join(folder, name), needles, told, max(LEAST, min(share, room)))
        except NoLog:
            left.blank.append(name)
            continue
        except Unreadable:
            left.refused.append(name)
            continue
        except _Late:
            left.late = chosen[at:]
            break
        room -= cost(len(rows), sum(len(row) for _, row in rows))
        done.append(name)
        if numbers is None and hold_numbers(rows):
            numbers = rows, name
        guess = ranks.get(name) if name in guessed else None
        found = lines_of(rows, name, None if name in guessed else ranks.get(name), guess)
        if guess is not None and any(line.rank != guess for line in found):
            # Several ranks, or a launcher, wrote it: it belongs to no single rank.
            ranks = {other: rank for other, rank in ranks.items() if other in sure}
        lines.extend(found)
    if not done:
        if left.late:
            raise Unreadable(
                f"no log in the folder {folder} was read within {seconds:g} s; pass one rank's "
                "file instead of the folder"
            )
        raise Unreadable(
            f"only empty, binary or unreadable files in the folder {folder}; pass a folder of "
            "text logs"
        )
    heard = {ranks[name] for name in done if name in ranks} | {line.rank for line in lines}
    silent = set(ranks.values()) - heard
    return Folder(
        lines,
        frozenset(silent),
        left.told(len(files), seconds, ranks, silent),
        *(numbers or ([], "")),
    )


def _named(ranks: set[int]) -> str:
    shown = ", ".join(map(str, sorted(ranks)[:SHOWN]))
    return (
        ("rank " if len(ranks) == 1 else "ranks ")
        + shown
        + (f" and {len(ranks) - SHOWN} more" if len(ranks) > SHOWN else "")
    )


def _share(sizes: list[int]) -> int:
    """What may be kept of each log, so that small ones leave room for large ones.

    A row costs 60 bytes besides its own, so a log costs about twice its size.
    """
    left, share = KEPT, KEPT
    for at, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - at)
        if 2 * size > share:
            break
        left -= 2 * size
    return share


def _log_files(folder: str) -> dict[str, int]:
    """{name: bytes} of each file that may be a log, in order."""
    found: dict[str, int] = {}
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(
            f
            for f in folders
            if not f.startswith(".") and f not in ("__pycache__", "wandb", "node_modules")
        )
        for name in sorted(names):
            if (
                name.startswith(".")
                or _NOT_LOGS.search(name)
                or KEY_NAME.search(name)
                or "tfevents" in name
            ):
                continue
            packed = name.lower().endswith(".gz")
            if packed and not _PACKED_LOG.search(name):
                continue
            full = os.path.join(base, name)
            try:
                state = os.stat(full)
            except OSError:
                continue
            if not stat.S_ISREG(state.st_mode):
                continue
            found[os.path.relpath(full, folder).replace(os.sep, "/")] = state.st_size * (
                10 if packed else 1
            )
            if len(found) == MAX_NAMES:
                return found
    return found
