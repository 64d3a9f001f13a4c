"""Read a folder of logs as one run.

Decides which files are read and how much of each is kept, and which ranks left nothing to read.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from ..numbers.rows import Row, hold_numbers
from .files import KEY_NAME, NoLog, Unreadable, of_file
from .lines import Line, lines_of, ranks_of
from .windows import cost, unlike

MAX_ENTRIES, MAX_DEPTH = 200_000, 20  # of a folder that are looked at
MAX_NAMES, MAX_FILES = 20_000, 512  # files that are seen, and read
KEPT = 8 << 20  # what may be kept of all logs together, as counted by `windows.cost`
LEAST = 8 << 10  # and of each one, whatever the others took
SHOWN = 8  # ranks that a sentence names

_NOT_LOGS = re.compile(
    r"\.(?:py|pyc|so|pt|pth|bin|safetensors|npy|npz|pkl|png|jpg|zip|tar|whl|parquet|arrow|ckpt"
    r"|onnx|h5|db|sqlite|lock|md|ya?ml|toml|cfg|sh|html?|csv|jsonl?)$",
    re.I,
)
_NO_LOGS_IN = re.compile(r"\.|(?:__pycache__|wandb|node_modules)$")
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
    """Names of files that weren't read, by the reason. `unseen`: what nobody looked at."""

    def __init__(self, unseen: str = ""):
        self.unseen = unseen
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
        if self.unseen:
            said.append(self.unseen)
        partial = [f"Partial: {'; '.join(said)}."] if said else []
        wrote = [f"Nothing was written by {_named(silent - unread)}."] if silent - unread else []
        return " ".join([*partial, *wrote])


def read(
    folder: str,
    needles: tuple[bytes, ...] = (),
    progress: Callable[[int], None] | None = None,
    seconds: float | None = None,
    others: frozenset[str] = frozenset(),
    good: frozenset[bytes] = frozenset(),
) -> Folder:
    """Read every log in a folder, as far as `seconds` allow. Raises Unreadable.

    `needles` and `progress` are as in `files.of_stream`. `others` are files that are no logs.
    `good` is as in `windows.unlike`.
    """
    end = None if seconds is None else time.monotonic() + seconds

    def told(count: int) -> None:
        if progress:
            progress(count)
        if end is not None and time.monotonic() > end:
            raise _Late

    try:
        files, unseen = _log_files(folder, told)
    except _Late:
        files, unseen = {}, f"{seconds:g} s were not enough to list it"
    files = {name: size for name, size in files.items() if name not in others}
    if not files:
        raise Unreadable(
            f"no log in the folder {folder}{f' ({unseen})' if unseen else ''}; "
            "pass one with files such as rank_0.log or 0/stderr.log"
        )
    sure, guessed = ranks_of(list(files))
    ranks = {**guessed, **sure}
    chosen = sorted(files, key=lambda name: "err" not in name.rpartition("/")[2].lower())[
        :MAX_FILES
    ]
    left, lines, numbers = _Left(unseen), [], None
    left.over = (
        [name for name in files if name not in set(chosen)] if len(files) > MAX_FILES else []
    )
    chosen = [name for name in files if name in set(chosen)] if left.over else list(files)
    share, room, done = _share([files[name] for name in chosen]), KEPT, []

    for at, name in enumerate(chosen):
        try:
            rows = of_file(os.path.join(folder, name), needles, told, max(LEAST, min(share, room)))
            rows = unlike(rows, good) if good else rows
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


def _log_files(folder: str, told: Callable[[int], None]) -> tuple[dict[str, int], str]:
    """({name: bytes} of each file that may be a log, in order; what was not looked at, in words).

    Folders near the top come first: a folder of a million files below must not hide a log above.
    """
    found: dict[str, int] = {}
    waiting, left, deep = deque([("", 1)]), MAX_ENTRIES, False
    while waiting and left > 0 and len(found) < MAX_NAMES:
        inside, depth = waiting.popleft()
        if left < MAX_ENTRIES - 1000:  # by now the walk takes time
            told(0)
        names, folders = [], []
        with suppress(OSError), os.scandir(os.path.join(folder, inside)) as entries:
            for entry in islice(entries, left):
                left -= 1
                if not entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                elif not _NO_LOGS_IN.match(entry.name):
                    folders.append(entry.name)
        for name in sorted(filter(_may_be_log, names)):
            size = _size(os.path.join(folder, inside, name))
            if size is not None and len(found) < MAX_NAMES:
                found[os.path.join(inside, name).replace(os.sep, "/")] = size
        if depth < MAX_DEPTH:
            waiting.extend((os.path.join(inside, name), depth + 1) for name in sorted(folders))
        deep = deep or (depth == MAX_DEPTH and bool(folders))
    unseen = []
    if left <= 0:
        unseen.append(
            f"only {MAX_ENTRIES} entries of the folder were looked at, the upper ones first"
        )
    if len(found) == MAX_NAMES:
        unseen.append(f"only {MAX_NAMES} files were looked at, the upper ones first")
    if deep:
        unseen.append(f"folders more than {MAX_DEPTH} deep were not looked at")
    return {name: found[name] for name in sorted(found, key=_place)}, "; ".join(unseen)


def _may_be_log(name: str) -> bool:
    if name.startswith(".") or _NOT_LOGS.search(name) or KEY_NAME.search(name):
        return False
    return "tfevents" not in name and (
        not name.lower().endswith(".gz") or bool(_PACKED_LOG.search(name))
    )


def _size(path: str) -> int | None:
    """About how many bytes a log has unpacked, or None for what is no regular file."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    packed = path.lower().endswith(".gz")
    return state.st_size * (10 if packed else 1) if stat.S_ISREG(state.st_mode) else None


def _place(name: str) -> list[tuple[bool, str]]:
    """What sorts names as a folder is read: its files, then each folder in it."""
    *folders, last = name.split("/")
    return [*((True, one) for one in folders), (False, last)]
