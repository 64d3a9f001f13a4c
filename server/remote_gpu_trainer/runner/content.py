"""What lies in a folder of checkpoints, newest first, and which of it is complete.

Of names that differ only in whole numbers (step-9, step-10) the higher one is newer, for a copy or
a touch changes times; else the one whose weights were written last: an evaluation writes its
results into an old folder. A folder that lacks weights or states that its older neighbours hold is
corrupt, whatever its files prove. So are files of one number, such as G_9.pth and D_9.pth, where
one of them is corrupt or missing and the saves before them hold both.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
from contextlib import suppress
from typing import Any, Iterable, List, NamedTuple

from .completeness import COMPLETE, CORRUPT, UNKNOWN, WEIGHTS, Verdict, files_of, judge_path

NOTE = re.compile(
    r"\.(json|jsonl|txt|log|ya?ml|md|csv|tsv|lock|py|sh|html|pdf|png|jpe?g|gif|svg|mp4|wav)$"
    r"|tfevents|/latest[^/]*$"
)
# Weights by their ending that are no checkpoint by themselves: what stands beside a model.
COMPANION = re.compile(
    r"(^|/)(training_args|optim(izer)?s?|(lr_)?sched(uler)?|rng(_state)?|random_states|(grad_)?scaler"
    r"|sampler|tokenizer|sentencepiece|spiece|vocab)([-_.]?\d+)*\.[^/]*$"
)
# What a resume needs besides; results and notes come and go.
STATE = re.compile(r"(^|/)(trainer_state|adapter_config|[^/]*\.index)\.json$|\.metadata$")
FRACTION = re.compile(r"\d+\.\d+|\d+e-?\d+")  # a loss of 0.52 orders nothing
COUNTED = re.compile(r"(?:steps?|iter[a-z]*|epochs?|checkpoint|ckpt)[-_=]?(\d+)", re.I)
STEP = re.compile(r"(?:steps?|iter[a-z]*|checkpoint|ckpt)[-_=]?(\d+)", re.I)
# A date, or seconds to nanoseconds since 1970: it grows although training begins anew.
TIME = re.compile(r"1[5-9]\d{8}(\d{3}){0,3}|20\d{2}(0[1-9]|1[0-2])([0-2]\d|3[01])(\d{2,6})?")
SHARD = re.compile(r"\d+-of-\d+")
QUARANTINE = ".corrupt"  # a folder beside checkpoints, of those that are corrupt
LEFTOVER = re.compile(
    r"(\.tmp|\.partial|\.incomplete|-unfinished|~)$|\.tmp[.-]|/tmp-|/\.[^/]*$"
    rf"|/{re.escape(QUARANTINE)}/"
)


class Item(NamedTuple):
    """Something in the folder. `changed`, `weights`: the last change of all its files, and of its
    weights, in ns since 1970. `size`: bytes."""

    path: str
    changed: int
    size: int
    weights: int


Save = List[Item]  # what a program writes at one moment, and loads together


class Look(NamedTuple):
    """`whole`: the newest complete item, or the newest that nothing speaks against where its kind
    can't be proven; `state` says which. `corrupt`: those newer ones that are, (item, why);
    `unread`: what is newer and can't be read."""

    whole: Item | None
    corrupt: list[tuple[Item, str]]
    unread: list[tuple[Item, str]]
    state: str = UNKNOWN


def look(
    folder: str, pattern: str, cache: str = "", files: Iterable[str] = (), but: str = ""
) -> Look:
    """Return what a folder holds, down to the newest complete item.

    `cache`: a file of what was complete already. `files`: patterns of what a program loads together
    with an item of the same number. Items of one save are judged together, see `_judge_save`.
    `but`: the path of an item whose save is left out. Raises OSError where the folder is there and
    can't be listed.
    """
    known = Known(cache)
    corrupt: list[tuple[Item, str]] = []
    unread: list[tuple[Item, str]] = []
    unknown: Save = []
    saves = _saves(newest_first(folder, pattern))
    saves = [save for save in saves if but not in (item.path for item in save)]
    for place, save in enumerate(saves):
        verdicts, closed = _judge_save(known, folder, save, saves[place + 1 :], files)
        # A mount or a right that fails says nothing about the content: it stays in place.
        unread += closed
        corrupt += [(item, verdict.why) for item, verdict in verdicts if verdict.state == CORRUPT]
        found = {item.path: verdict.state for item, verdict in verdicts if verdict.state != CORRUPT}
        left = [item for item in save if item.path in found]
        if not left:
            continue
        if UNKNOWN in found.values():
            unknown = unknown or left
        elif unknown and not _kinds(unknown) & _kinds(left):
            break
        else:
            return Look(left[0], corrupt, unread, COMPLETE)
    return Look(unknown[0] if unknown else None, corrupt, unread)


def _saves(items: list[Item]) -> list[Save]:
    """Return items, newest first, each with those of the same save: files without a number may
    be the best and the last one as well, so each of them is by itself."""
    together: dict[tuple[object, ...], Save] = {}
    for item in items:
        of = save_of(item.path, os.path.isdir(item.path))
        together.setdefault(of if of[1:] != ((),) else (item.path,), []).append(item)
    return list(together.values())


def _judge_save(
    known: Known, folder: str, save: Save, older: list[Save], files: Iterable[str]
) -> tuple[list[tuple[Item, Verdict]], list[tuple[Item, str]]]:
    """Judge all files of a save: one that is corrupt or missing breaks those that belong to it.

    Which belong together the saves before it tell, and the job by `files`. Of a save that can't be
    read the second list tells why.
    """
    beside, bound, fault = _find_bound(folder, save, older, files)
    verdicts = []
    for item in [*save, *beside]:
        try:
            verdicts.append((item, known.judge_item(item, (other[0] for other in older))))
        except OSError as error:
            return [], [(item, error.strerror or str(error))]
    for item, verdict in verdicts:
        if not fault and verdict.state == CORRUPT and kind_of(item.path) in bound:
            name = os.path.basename(item.path)
            fault = f"{name} of the same save isn't whole ({verdict.why})"
    if fault:
        broken = Verdict(CORRUPT, fault)
        verdicts = [
            (item, broken if verdict.state != CORRUPT and kind_of(item.path) in bound else verdict)
            for item, verdict in verdicts
        ]
    return verdicts, []


def _find_bound(
    folder: str, save: Save, older: list[Save], files: Iterable[str]
) -> tuple[Save, frozenset[tuple[str, str]], str]:
    """Return the files of a save that only the job names, the kinds of its files that belong
    together, and which of these is missing, as a sentence."""
    beside = _find_files(folder, save, files)
    shape = _kinds([*save, *beside])
    shapes = (_kinds([*other, *_find_files(folder, other, files)]) for other in older)
    needed = _find_needed(shape, (other for other in shapes if shape & other))
    lacking = min((kind for kind, _ in needed - shape if kind.endswith(WEIGHTS)), default="")
    return beside, shape if beside else needed, say_missing(lacking) if lacking else ""


def find_save(folder: str, pattern: str, files: Iterable[str], path: str) -> list[str]:
    """Return the files that belong to the same save as an item, itself among them. Raises
    OSError."""
    saves = _saves(newest_first(folder, pattern))
    for place, save in enumerate(saves):
        if path in (item.path for item in save):
            beside, bound, _ = _find_bound(folder, save, saves[place + 1 :], files)
            found = [item.path for item in [*save, *beside] if kind_of(item.path) in bound]
            return found if path in found else [path]
    return [path]


def _find_files(folder: str, save: Save, files: Iterable[str]) -> Save:
    """Return what the job names beside a save's items by patterns."""
    found, taken = [], {item.path for item in save}
    for path in find_beside(folder, files, save[0].path)[0] if numbers_of(save[0].path) else ():
        if path not in taken:
            with suppress(OSError):
                found.append(stamp(path))
    return found


def _kinds(save: Save) -> frozenset[tuple[str, str]]:
    return frozenset(kind_of(item.path) for item in save)


def say_missing(kind: str) -> str:
    """Say that a save has no file of this kind."""
    return f"{kind} of this save is missing (0 for its number)"


def last_written(folder: str, pattern: str) -> Item | None:
    """Return the item whose weights were written last, whole or not, without reading it. Raises
    OSError."""
    return _last_of(newest_first(folder, pattern))


def _last_of(items: list[Item]) -> Item | None:
    return max(items, key=lambda item: item.weights, default=None)


def last_whole(folder: str, pattern: str, cache: str, files: Iterable[str]) -> Item | None:
    """Return the item whose weights were written last, None if its save isn't whole. Raises
    OSError."""
    items = newest_first(folder, pattern)
    last, saves = _last_of(items), _saves(items)
    for place, save in enumerate(saves):
        if last is not None and last in save:
            verdicts, unread = _judge_save(Known(cache), folder, save, saves[place + 1 :], files)
            if unread:
                raise OSError(unread[0][1])
            return None if dict(verdicts)[last].state == CORRUPT else last
    return None


def look_of(answer: list[Any]) -> Look:
    """Return a look that came as JSON."""
    whole, corrupt, unread, state = answer
    return Look(
        Item(*whole) if whole else None,
        [(Item(*item), why) for item, why in corrupt],
        [(Item(*item), why) for item, why in unread],
        state,
    )


def newest_first(folder: str, pattern: str) -> list[Item]:
    """Return the items in the order in which they were saved, unchecked.

    Within a kind by number, among kinds by time. Raises OSError as `look` does.
    """
    try:
        os.listdir(folder)  # glob takes a folder that can't be listed for an empty one
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = []
    seen: set[str] = set()
    for path in sorted(find(folder, pattern), key=len):
        real, is_link = os.path.realpath(path), os.path.islink(path)
        if is_leftover(path[len(folder) :]) or real in seen and not is_link:
            continue  # the same once more, through a link to a folder
        if is_link and os.path.isdir(path) and not _is_named(path, folder, pattern):
            continue
        seen.add(real)
        with suppress(OSError):
            if os.path.isfile(path) or os.path.isdir(path):
                found.append(stamp(path))
    if pattern == "*":
        # A pattern for everything is for checkpoints: what stands beside them counts only where
        # nothing else is.
        found = [item for item in found if _is_checkpoint(item.path)] or [
            item
            for item in found
            if not os.path.isdir(item.path) and not COMPANION.search(item.path)
        ]
    kinds: dict[tuple[str, str], list[tuple[list[int], int, Item]]] = {}
    for item in found:
        kinds.setdefault(kind_of(item.path), []).append((numbers_of(item.path), item.weights, item))
    order = []
    for items in kinds.values():
        latest = 0
        for numbers, time, item in sorted(items):
            latest = max(latest, time)
            order.append((latest, numbers, time, item))
    return [item for _, _, _, item in sorted(order, reverse=True)]


def find(folder: str, pattern: str) -> list[str]:
    """Return what a pattern finds in a folder; its ** passes through no link, which may lead back
    without end."""
    head, sign, rest = pattern.partition("**")
    if not sign:
        return glob.glob(os.path.join(glob.escape(folder), pattern))
    found = []
    for base in find(folder, head) if head else [folder]:
        for root, names, _ in os.walk(base):
            names[:] = [name for name in names if not name.startswith(".")]
            found += find(root, rest.lstrip("/") or "*")
    return found


def find_beside(folder: str, files: Iterable[str], path: str) -> tuple[list[str], list[str]]:
    """Return what the patterns `files` find beside an item: what has its numbers, and what has none
    and belongs to each."""
    numbers, own, shared = numbers_of(path), [], []
    for pattern in files:
        for found in find(folder, pattern):
            if numbers_of(found) == numbers:
                own.append(found)
            elif not numbers_of(found):
                shared.append(found)
    return own, shared


def leads_below(link: str, folder: str) -> bool:
    """Return whether a link leads to something in a folder, and not to that folder itself."""
    return os.path.realpath(link).startswith(os.path.realpath(folder).rstrip("/") + "/")


def _is_named(link: str, folder: str, pattern: str) -> bool:
    """Return whether a link to a folder is a checkpoint: one that lies elsewhere only where the
    pattern names it, and what holds the folder of checkpoints never."""
    if leads_below(link, folder):
        return True
    is_above = os.path.realpath(link) == os.path.realpath(folder) or leads_below(folder, link)
    return pattern != "*" and not is_above


def is_leftover(path: str) -> bool:
    """Return whether a name is one of a save that isn't finished, or was set aside."""
    return bool(LEFTOVER.search("/" + path))


def step_of(path: str) -> int | None:
    """Return the step that a name tells: 90 of epoch=2-step=90.ckpt, None of ckpt_20261129.pt."""
    found = STEP.findall(FRACTION.sub(".", os.path.basename(path)))
    return int(found[-1]) if found and not TIME.fullmatch(found[-1]) else None


def find_furthest(step: int | None, path: str) -> int | None:
    """Return the step of the log or of a checkpoint that is further: nobody wrote the log of a
    program that has lost its supervisor."""
    named = step_of(path) if path else None
    return max((number for number in (step, named) if number is not None), default=None)


def quarantine(path: str) -> str:
    """Move something that is corrupt into a hidden folder beside it, where no program's pattern
    such as checkpoint-* finds it; return where it is. Raises OSError."""
    folder, name = os.path.split(path)
    hidden = os.path.join(folder, QUARANTINE)
    os.makedirs(hidden, exist_ok=True)
    moved, number = os.path.join(hidden, name), 2
    while os.path.lexists(moved):
        moved, number = os.path.join(hidden, f"{name}.{number}"), number + 1
    os.rename(path, moved)
    return moved


def restore_quarantined(path: str) -> list[tuple[str, str]]:
    """Give what was moved last from this path its name back, and so to the other files of its save;
    return where each was, and is. Not where the name is taken. Raises OSError."""
    folder, name = os.path.split(path)
    hidden, back = os.path.join(folder, QUARANTINE), []
    with suppress(FileNotFoundError):
        for other in sorted(os.listdir(hidden)):
            is_folder = os.path.isdir(os.path.join(hidden, other))
            of = save_of(os.path.join(folder, other), is_folder)
            if other == name or of[1:] != ((),) and of == save_of(path, is_folder):
                back.append(os.path.join(folder, other))
    pairs = [(moved, one) for one in back if (moved := _find_moved(one))]
    for moved, one in pairs:
        os.rename(moved, one)
    with suppress(OSError):
        os.rmdir(hidden)
    return pairs


def _find_moved(path: str) -> str:
    """Return where what was moved last from this path is; '' where its name is taken."""
    folder, name = os.path.split(path)
    moved, number = "", 1
    while os.path.lexists(
        found := os.path.join(folder, QUARANTINE, f"{name}.{number}" if moved else name)
    ):
        moved, number = found, number + 1
    return "" if os.path.lexists(path) else moved


class Known:
    """What was found complete already, by its stamp: a checkpoint is judged once."""

    def __init__(self, cache: str = ""):
        self._cache = cache
        self._keys: set[str] = set()
        with suppress(OSError), open(cache, encoding="utf-8", errors="surrogateescape") as stream:
            self._keys = set(stream.read().split("\n"))

    def judge_item(self, item: Item, older: Iterable[Item] = ()) -> Verdict:
        """Judge an item, also by what its `older` neighbours hold. Raises OSError."""
        verdict = self._judge_alone(item)
        lost = "" if verdict.state == CORRUPT else self._lost_by(item, older)
        return Verdict(CORRUPT, f"{lost} is missing") if lost else verdict

    def _judge_alone(self, item: Item) -> Verdict:
        key = fingerprint([item.path])
        if key in self._keys:
            return Verdict(COMPLETE, "")
        verdict = judge_path(item.path)
        if verdict.state == COMPLETE and key == fingerprint([item.path]):
            self._keys.add(key)
            with suppress(OSError), open(self._cache, "a", encoding="ascii") as stream:
                stream.write(key + "\n")
        return verdict

    def _lost_by(self, item: Item, older: Iterable[Item]) -> str:
        """Return what older neighbours of a folder have and it lacks."""
        if not os.path.isdir(item.path):
            return ""
        neighbours = (
            _shape_of_folder(other.path)
            for other in older
            if os.path.isdir(other.path)
            and kind_of(other.path) == kind_of(item.path)
            and self._judge_alone(other).state != CORRUPT
        )
        return find_lacking(_shape_of_folder(item.path), neighbours)


def find_lacking(shape: frozenset[str], older: Iterable[frozenset[str]]) -> str:
    """Return a name that the two saves before a save have, or the only one, and it lacks; '' for
    none. `older`: their shapes, newest first."""
    return min(_find_needed(shape, older) - shape, default="")


def _find_needed(shape: frozenset[Any], older: Iterable[frozenset[Any]]) -> frozenset[Any]:
    """Return what the two saves before a save have, or the only one; its own shape for none."""
    before = list(itertools.islice(older, 2))
    return frozenset.intersection(*before) if before else shape


def shape_of(names: Iterable[str]) -> frozenset[str]:
    """Return the names of a save's weights and states, with 0 for each number."""
    return frozenset(
        re.sub(r"\d+", "0", name) for name in names if name.endswith(WEIGHTS) or STATE.search(name)
    )


def fingerprint(paths: Iterable[str]) -> str:
    """Return what changes with any byte of these files and folders, as long as nobody sets clocks:
    a hash of names, sizes, times, and inodes."""
    total = hashlib.sha1()
    for path in paths:
        for name in files_of(path):
            with suppress(OSError):
                s = os.stat(name)
                row = (name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino)
                total.update(repr(row).encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def stamp(path: str) -> Item:
    """Return the stamp of a file, or of a folder with all its files. Raises OSError."""
    names = list(files_of(path)) if os.path.isdir(path) else [path]
    stats = {name: os.stat(name) for name in names or [path]}
    weights = [s.st_mtime_ns for name, s in stats.items() if name.endswith(WEIGHTS)]
    times = [s.st_mtime_ns for s in stats.values()]
    return Item(path, max(times), sum(s.st_size for s in stats.values()), max(weights or times))


def _is_checkpoint(path: str) -> bool:
    """By a pattern for everything: beside checkpoints stand notes, pictures, folders of logs."""
    if not os.path.isdir(path):
        return may_be_checkpoint(path)
    return any(name.endswith(WEIGHTS) or name.endswith(".metadata") for name in files_of(path))


def may_be_checkpoint(path: str) -> bool:
    """Return whether a name is neither one of a note nor one of what stands beside a model."""
    return not NOTE.search(path) and not COMPANION.search(path)


def counted(name: str) -> list[int]:
    """Return the steps and epochs that a name marks as such."""
    return [int(text) for text in COUNTED.findall(FRACTION.sub(".", name))]


def numbers_of(path: str) -> list[int]:
    """Return steps and epochs in a name; where none is marked as such, all whole numbers."""
    name = os.path.basename(path)
    return counted(name) or [int(text) for text in re.findall(r"\d+", FRACTION.sub(".", name))]


def save_of(path: str, is_folder: bool) -> tuple[object, ...]:
    """Return what the files of one save share, folder and numbers; a folder is one by itself."""
    if is_folder:
        return (path,)
    folder, name = os.path.split(path)
    return folder, tuple(numbers_of(SHARD.sub("", name)))


def kind_of(path: str) -> tuple[str, str]:
    """What checkpoints share that differ only in their numbers: a form of name, a folder."""
    return re.sub(r"\d+", "0", os.path.basename(path)), os.path.dirname(path)


def _shape_of_folder(path: str) -> frozenset[str]:
    return shape_of(os.path.relpath(name, path) for name in files_of(path))


def is_usable(path: str, cache: str) -> bool:
    """Return whether a checkpoint is there and nothing speaks against it. Raises OSError."""
    return os.path.lexists(path) and Known(cache).judge_item(stamp(path)).state != CORRUPT
