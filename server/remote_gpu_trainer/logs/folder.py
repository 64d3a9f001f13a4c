"""Read a folder of logs as one run.

Decides which files are read and how much of each is kept, and which ranks left nothing to read.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice

from ..numbers.rows import Row, hold_numbers
from . import run_events, runs
from .files import DEFAULTS, KEY_NAME, NoLog, ReadOptions, Unreadable, of_file, of_parts
from .lines import Line, lines_of
from .prefixes import ranks_of
from .windows import cost, unlike

MAX_ENTRIES, MAX_DEPTH = 200_000, 20  # entries of a folder, and levels, that are looked at
MANY_ENTRIES = 1_000  # after which listing a folder takes time
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
# The runner writes its program's log into files of limited size, a new one for each attempt.
_PART = re.compile(r"((?:.*/)?train\.log\.)\d{4,9}\Z")


@dataclass(frozen=True)
class Folder:
    """What was read of a folder.

    `lines`: those of all logs. `silent`: the ranks that left no line. `left_out`: what wasn't
    read, in one sentence. `read`: what was, in one. `numbers` and `named`: the rows of the first
    log that holds numbers, and its name.
    """

    lines: list[Line]
    silent: frozenset[int]
    left_out: str
    numbers: list[Row]
    named: str
    read: str = ""


class _Late(Exception):
    """The time is over."""


@dataclass
class _Left:
    """Names of files that weren't read, by the reason. `unseen`: what nobody looked at, in words.

    `over` are those beyond MAX_FILES.
    """

    unseen: str
    over: list[str]
    refused: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def said(
        self, count: int, seconds: float | None, ranks: dict[str, int], silent: frozenset[int]
    ) -> str:
        """Return a sentence on what of `count` files is missing, "" if nothing is.

        It holds no file name: names are text from outside. `ranks` are those of the files.
        """
        missing = [*self.refused, *self.late, *self.over]
        why = [
            (self.refused, "can't be read"),
            (self.late, f"were not reached within {seconds or 0:g} s"),
            (self.over, f"are more than the {MAX_FILES} that are read, stderr first"),
        ]
        parts = [f"{len(names)} of {count} files {reason}" for names, reason in why if names]
        unread = {ranks[name] for name in missing if name in ranks} & silent
        if unread:
            parts.append(f"no log was read of {_named(unread)}")
        if self.unseen:
            parts.append(self.unseen)
        partial = [f"Partial: {'; '.join(parts)}."] if parts else []
        wrote = [f"Nothing was written by {_named(silent - unread)}."] if silent - unread else []
        return " ".join([*partial, *wrote])


def read(
    folder: str,
    options: ReadOptions = DEFAULTS,
    no_logs: frozenset[str] = frozenset(),
    only: tuple[str, ...] = (),
) -> Folder:
    """Read every log in a folder, as far as the options' seconds allow. Raises Unreadable.

    `no_logs` are names of files that aren't read; `only` are those that are, in this order.
    """
    options = replace(options, progress=_ticking(options))
    if only:
        sizes, unseen = {name: os.path.getsize(os.path.join(folder, name)) for name in only}, ""
    else:
        sizes, unseen = _sizes(folder, options, no_logs)
    parts = _parts(sizes)
    sizes = {log: sum(sizes[name] for name in names) for log, names in parts.items()}
    chosen = _chosen(sizes)
    left = _Left(unseen, [name for name in sizes if name not in set(chosen)])
    run = _Run(list(sizes))
    _read_each(folder, {name: sizes[name] for name in chosen}, parts, options, run, left)
    if not run.done:
        raise _none_read(folder, options, left)
    silent = run.silent()
    left_out = left.said(len(sizes), options.seconds, run.ranks, silent)
    return Folder(run.lines, silent, left_out, run.numbers, run.named, run.said())


def _ticking(options: ReadOptions) -> Callable[[int], None]:
    """What is called for each block. It raises _Late when the time is over."""
    end = None if options.seconds is None else time.monotonic() + options.seconds

    def tick(count: int) -> None:
        if options.progress:
            options.progress(count)
        if end is not None and time.monotonic() > end:
            raise _Late

    return tick


def _sizes(
    folder: str, options: ReadOptions, no_logs: frozenset[str]
) -> tuple[dict[str, int], str]:
    """({name: bytes} of the logs in a folder, what was not looked at). Raises Unreadable."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Unreadable(
            f"the folder {folder} may not be read; make it readable, or pass a copy of it"
        )
    try:
        sizes, unseen = _log_files(folder, options.progress or (lambda _: None))
    except _Late:
        sizes, unseen = {}, f"{options.seconds:g} s were not enough to list it"
    sizes = {name: size for name, size in sizes.items() if name not in no_logs}
    if not sizes:
        raise Unreadable(
            f"no log in the folder {folder}{f' ({unseen})' if unseen else ''}; "
            "pass one with files such as rank_0.log or 0/stderr.log"
        )
    return sizes, unseen


def log_of_runner(folder: str) -> list[str]:
    """Return the paths of the program's log, where a folder is the runner's or the log/ in it.

    None of a run's folder in which ranks, nodes or cells have logs of their own: these tell more.
    """
    if os.path.isfile(os.path.join(folder, run_events.EVENTS)):
        names = list(_log_files(folder, lambda _: None)[0])
        parts = [name for name in names if _PART.match(name)]
        if ranks_of(names)[0] or any(os.path.dirname(name) != "log" for name in parts):
            return []
        return [os.path.join(folder, name) for name in parts]
    with suppress(OSError):
        return [
            os.path.join(folder, name) for name in sorted(filter(_PART.match, os.listdir(folder)))
        ]
    return []


def _parts(names: Iterable[str]) -> dict[str, list[str]]:
    """{log: the files that hold it, in order}: of most logs one, of the runner's several."""
    logs: dict[str, list[str]] = {}
    for name in names:
        part = _PART.match(name)
        logs.setdefault(f"{part[1]}*" if part else name, []).append(name)
    return {files[0] if len(files) == 1 else log: files for log, files in logs.items()}


def _chosen(names: Iterable[str]) -> list[str]:
    """At most MAX_FILES names, in order. Where there are more, those of stderr come first."""
    names = list(names)
    if len(names) <= MAX_FILES:
        return names
    first = sorted(names, key=lambda name: "err" not in name.rpartition("/")[2].lower())
    chosen = set(first[:MAX_FILES])
    return [name for name in names if name in chosen]


class _Run:
    """The logs of one run, taken one after another."""

    def __init__(self, names: list[str]):
        self.sure, self.guessed = ranks_of(names)
        self.ranks = {**self.guessed, **self.sure}  # of files, by name
        self.lines: list[Line] = []
        self.done: list[str] = []
        self.numbers: list[Row] = []  # of the first log that holds some
        self.named = ""  # the name of that log
        self.cut = 0  # logs that hold several runs, of which the last was taken

    def take(self, name: str, rows: list[Row], is_cut: bool = False) -> None:
        """Take the rows of the next log, of several runs those of the last.

        `is_cut`: they are those of the last already.
        """
        self.done.append(name)
        rank = self.ranks.get(name)
        is_guess = name in self.guessed
        lines = lines_of(rows, name, None if is_guess else rank, rank if is_guess else None)
        if is_guess and rank is not None and any(line.rank != rank for line in lines):
            # Several ranks, or a launcher, wrote it. So the numbers of such names are no ranks.
            self.ranks = {other: rank for other, rank in self.ranks.items() if other in self.sure}
        chosen = runs.choose(lines, None, rows, whole=is_cut)
        self.cut += bool(chosen.said or is_cut)
        if chosen.said:
            rows = [row for row in rows if row[0] >= chosen.numbers[0]]
        if not self.named and hold_numbers(rows):
            self.numbers, self.named = rows, name
        self.lines.extend(chosen.lines)

    def said(self) -> str:
        """What was read, in one sentence."""
        ranks = {line.rank for line in self.lines if line.rank is not None}
        count = len(self.done)
        parts = [
            f"{count} files" if count > 1 else "one file",
            f"of {len(ranks)} ranks" if ranks else "",
            f"of {self.cut} the last run alone" if self.cut else "",
        ]
        return f"Read: {', '.join(filter(None, parts))}."

    def silent(self) -> frozenset[int]:
        """Return the ranks whose files hold no line."""
        heard = {self.ranks[name] for name in self.done if name in self.ranks}
        return frozenset(self.ranks.values()) - heard - {line.rank for line in self.lines}


def _read_each(
    folder: str,
    sizes: dict[str, int],
    parts: dict[str, list[str]],
    options: ReadOptions,
    run: _Run,
    left: _Left,
) -> None:
    """Read one log after another, as far as time allows, and keep of each what may be kept."""
    share, room = _share(list(sizes.values())), KEPT
    names = list(sizes)
    for at, name in enumerate(names):
        most = max(LEAST, min(share, room))
        try:
            paths = [os.path.join(folder, part) for part in parts[name]]
            attempts = run_events.attempts(paths)
            if attempts:
                paths = run_events.choose(attempts, None).files
            if len(paths) > 1:
                rows = of_parts(paths, name, options, most=most)
            else:
                rows = of_file(paths[0], options, most=most)
        except NoLog:
            continue  # its rank is silent
        except Unreadable:
            left.refused.append(name)
            continue
        except _Late:
            left.late = names[at:]
            return
        rows = unlike(rows, options.good) if options.good else rows
        room -= cost(len(rows), sum(len(row) for _, row in rows))
        run.take(name, rows, is_cut=len(attempts) > 1)


def _none_read(folder: str, options: ReadOptions, left: _Left) -> Unreadable:
    """The error for a folder of which no log was read."""
    if left.late:
        return Unreadable(
            f"no log in the folder {folder} was read within {options.seconds:g} s; pass one rank's "
            "file instead of the folder"
        )
    return Unreadable(
        f"only empty, binary or unreadable files in the folder {folder}; pass a folder of text logs"
    )


def _named(ranks: Iterable[int]) -> str:
    """As in "rank 3" and "ranks 0, 1, 2"."""
    ranks = sorted(ranks)
    shown = ", ".join(map(str, ranks[:SHOWN]))
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


def _log_files(folder: str, tick: Callable[[int], None]) -> tuple[dict[str, int], str]:
    """({name: bytes} of each file that may be a log, in order; what was not looked at, in words).

    Folders near the top come first: a folder of a million files below must not hide a log above.
    """
    sizes: dict[str, int] = {}
    waiting, left, is_deep = deque([("", 1)]), MAX_ENTRIES, False
    while waiting and left > 0 and len(sizes) < MAX_NAMES:
        inside, depth = waiting.popleft()
        if left < MAX_ENTRIES - MANY_ENTRIES:
            tick(0)
        names, folders, count = _entries(os.path.join(folder, inside), left)
        left -= count
        for name in sorted(filter(_may_be_log, names)):
            size = _size(os.path.join(folder, inside, name))
            if size is not None and len(sizes) < MAX_NAMES:
                sizes[os.path.join(inside, name).replace(os.sep, "/")] = size
        if depth < MAX_DEPTH:
            waiting.extend((os.path.join(inside, name), depth + 1) for name in sorted(folders))
        is_deep = is_deep or (depth == MAX_DEPTH and bool(folders))
    unseen = _unseen(left <= 0, len(sizes) == MAX_NAMES, is_deep)
    return {name: sizes[name] for name in sorted(sizes, key=_place)}, unseen


def _entries(path: str, most: int) -> tuple[list[str], list[str], int]:
    """(files, folders that may hold logs, entries looked at) of a folder; `most` entries of it."""
    names, folders, count = [], [], 0
    with suppress(OSError), os.scandir(path) as entries:
        for entry in islice(entries, most):
            count += 1
            if not entry.is_dir(follow_symlinks=False):
                names.append(entry.name)
            elif not _NO_LOGS_IN.match(entry.name):
                folders.append(entry.name)
    return names, folders, count


def _unseen(of_entries: bool, of_names: bool, of_levels: bool) -> str:
    """What was not looked at, by the limit that was reached."""
    limits = [
        (
            of_entries,
            f"only {MAX_ENTRIES} entries of the folder were looked at, the upper ones first",
        ),
        (of_names, f"only {MAX_NAMES} files were looked at, the upper ones first"),
        (of_levels, f"folders more than {MAX_DEPTH} deep were not looked at"),
    ]
    return "; ".join(said for reached, said in limits if reached)


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
    return [*((True, folder) for folder in folders), (False, last)]
