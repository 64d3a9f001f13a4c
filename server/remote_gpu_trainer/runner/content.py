"""What lies in a folder of checkpoints, newest first, and is it whole? By the files alone.

A zip (.pt, .pth, .bin, .ckpt) must pass its checksums, safetensors must have the size that their
header gives, JSON must parse, an index must find its shards, a folder must hold whole files and the
weights and states that its older neighbours hold. What can't be read from a format, such as the
end of an old pickle, is taken as whole.
Of names that differ only in whole numbers (step-9, step-10) the higher one is newer, for a copy or
a touch changes times; else the one whose weights were written last: an evaluation writes its
results into an old folder.
"""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import zipfile
from contextlib import suppress
from typing import Any, Callable, Iterator, NamedTuple

NOTE = re.compile(
    r"\.(json|jsonl|txt|log|ya?ml|md|csv|tsv|lock|py|sh|html|pdf|png|jpe?g|gif|svg|mp4|wav)$"
    r"|tfevents|/latest[^/]*$"
)
ARCHIVES = (".pt", ".pth", ".bin", ".ckpt", ".distcp", ".npz", ".tar")
WEIGHTS = (*ARCHIVES, ".safetensors", ".pkl", ".msgpack", ".h5", ".keras", ".state")
# What a resume needs besides; results and notes come and go.
STATE = re.compile(r"(^|/)(trainer_state|adapter_config|[^/]*\.index)\.json$|\.metadata$")
FRACTION = re.compile(r"\d+\.\d+|\d+e-?\d+")  # a loss of 0.52 orders nothing
COUNTED = re.compile(r"(?:steps?|iter[a-z]*|epochs?|checkpoint|ckpt)[-_=]?(\d+)", re.I)
STEP = re.compile(r"(?:steps?|iter[a-z]*|checkpoint|ckpt)[-_=]?(\d+)", re.I)
LEFTOVER = re.compile(r"(\.tmp|\.torn(\.\d+)?|\.partial|\.incomplete|~)$|\.tmp[.-]|/tmp-|/\.[^/]*$")


class Item(NamedTuple):
    """Something in the folder. `changed`, `weights`: the last change of all its files, and of its
    weights, in ns since 1970. `size`: bytes."""

    path: str
    changed: int
    size: int
    weights: int


class Look(NamedTuple):
    """The newest whole item, and what is newer than it and isn't whole: (item, why)."""

    whole: Item | None
    torn: list[tuple[Item, str]]
    unread: list[tuple[Item, str]]


def look(folder: str, pattern: str, cache: str = "") -> Look:
    """Return what a folder holds, down to the newest whole item.

    `cache`: a file of what was whole already. Raises OSError where the folder is there and can't
    be listed.
    """
    known = Known(cache)
    torn, unread = [], []
    found = newest_first(folder, pattern)
    for place, item in enumerate(found):
        try:
            fault = known.fault(item) or _lost_by(item, found[place + 1 :], known)
        except OSError as error:
            # A mount or a right that fails says nothing about the content: it stays in place.
            unread.append((item, error.strerror or str(error)))
            continue
        if not fault:
            return Look(item, torn, unread)
        torn.append((item, fault))
    return Look(None, torn, unread)


def last_written(folder: str, pattern: str) -> Item | None:
    """Return the item whose weights were written last, whole or not, without reading it. Raises
    OSError."""
    return max(newest_first(folder, pattern), key=lambda item: item.weights, default=None)


def last_whole(folder: str, pattern: str, cache: str) -> Item | None:
    """Return the item whose weights were written last, None if it isn't whole. Raises OSError."""
    last = last_written(folder, pattern)
    return last if last and not Known(cache).fault(last) else None


def look_of(told: list[Any]) -> Look:
    """Return a look that came as JSON."""
    whole, torn, unread = told
    return Look(
        Item(*whole) if whole else None,
        [(Item(*item), why) for item, why in torn],
        [(Item(*item), why) for item, why in unread],
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
    for path in glob.glob(os.path.join(glob.escape(folder), pattern), recursive=True):
        if is_leftover(path[len(folder) :]):
            continue
        with suppress(OSError):
            if os.path.isfile(path) or os.path.isdir(path):
                found.append(stamp(path))
    if pattern == "*":
        # A pattern for everything is for checkpoints: what stands beside them counts only where
        # nothing else is.
        found = [item for item in found if _is_checkpoint(item.path)] or [
            item for item in found if not os.path.isdir(item.path)
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


def is_leftover(path: str) -> bool:
    """Return whether a name is one of a save that isn't finished, or was set aside."""
    return bool(LEFTOVER.search("/" + path))


def step_of(path: str) -> int | None:
    """Return the step that a name tells: 90 of epoch=2-step=90.ckpt."""
    found = STEP.findall(FRACTION.sub(".", os.path.basename(path)))
    return int(found[-1]) if found else None


def seconds_of(path: str) -> float:
    """Return how long a save took, from the birth of its first file to the last change of its
    weights; 0 where the file system doesn't tell, or for a copy."""
    paths = [path, *(files_of(path) if os.path.isdir(path) else ())]
    try:
        told = subprocess.run(["stat", "-c", "%.3W", *paths[:500]], capture_output=True, timeout=60)
        births = [float(text) for text in told.stdout.split()]
        took = stamp(path).weights / 1e9 - min(birth for birth in births if birth > 0)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return 0.0
    return max(took, 0.0)


class Known:
    """What was found whole already, by its stamp: a checkpoint is read once."""

    def __init__(self, cache: str = ""):
        self._cache = cache
        self._keys: set[str] = set()
        with suppress(OSError), open(cache, encoding="utf-8", errors="surrogateescape") as stream:
            self._keys = set(stream.read().split("\n"))

    def fault(self, item: Item) -> str:
        """Return what is wrong with an item, '' for a whole one. Raises OSError."""
        key = f"{item.changed} {item.size} " + item.path.replace("\n", "?")
        if key in self._keys:
            return ""
        fault = fault_of(item.path)
        if not fault:
            self._keys.add(key)
            line = (key + "\n").encode("utf-8", "surrogateescape")
            with suppress(OSError), open(self._cache, "ab", buffering=0) as stream:
                stream.write(line)
        return fault


def fault_of(path: str) -> str:
    """Return what is wrong with a file or a folder; '' for a whole one. Raises OSError."""
    if not os.path.isdir(path):
        return _fault_of_file(path) or ("" if os.path.getsize(path) else "empty")
    names = list(files_of(path))
    if not names:
        return "empty folder"
    if any(name.endswith(".distcp") for name in names) and not any(
        name.endswith(".metadata") for name in names
    ):
        return ".metadata is missing"
    for name in names:
        fault = _fault_of_file(name)
        if fault:
            return f"{os.path.relpath(name, path)}: {fault}"
    return ""


def files_of(path: str) -> Iterator[str]:
    """Return the files in and below a folder, in a fixed order."""
    for root, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if os.path.isfile(os.path.join(root, name)):
                yield os.path.join(root, name)


def stamp(path: str) -> Item:
    """Return the stamp of a file, or of a folder with all its files. Raises OSError."""
    names = list(files_of(path)) if os.path.isdir(path) else [path]
    stats = {name: os.stat(name) for name in names or [path]}
    weights = [s.st_mtime_ns for name, s in stats.items() if name.endswith(WEIGHTS)]
    times = [s.st_mtime_ns for s in stats.values()]
    return Item(path, max(times), sum(s.st_size for s in stats.values()), max(weights or times))


def _fault_of_file(path: str) -> str:
    """Return what is wrong with a file; '' for a whole one and an unknown format."""
    check = next((check for endings, check in _CHECKS if path.endswith(endings)), None)
    try:
        return check(path) if check else ""
    except OSError:
        raise
    except MemoryError:
        raise OSError("too large to be read here") from None
    except Exception as error:  # a broken file may break its reader anywhere
        return str(error) or type(error).__name__


def _fault_of_archive(path: str) -> str:
    with open(path, "rb") as stream:
        head = stream.read(16)
    if not head:
        return "empty"
    if not head.strip(b"\0"):
        return "begins with zeros"
    if head[:2] != b"PK":
        return ""
    with zipfile.ZipFile(path) as archive:
        bad = archive.testzip()
    return f"checksum of {bad}" if bad else ""


def _fault_of_safetensors(path: str) -> str:
    size = os.path.getsize(path)
    if size < 8:
        return "shorter than a header"
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > size - 8:
            return "header is longer than the file"
        try:
            header = json.loads(stream.read(length).decode("utf-8"))
        except ValueError:
            return "header is not JSON"
    ends = [entry["data_offsets"][1] for key, entry in header.items() if key != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    return "" if size == wanted else f"{size} bytes, expected {wanted}"


def _fault_of_json(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
    except ValueError:
        return "not JSON"
    if path.endswith(".index.json") and isinstance(content, dict):
        for shard in sorted(set(content.get("weight_map", {}).values())):
            if not os.path.exists(os.path.join(os.path.dirname(path), shard)):
                return f"{shard} is missing"
    return ""


_CHECKS: tuple[tuple[str | tuple[str, ...], Callable[[str], str]], ...] = (
    (".safetensors", _fault_of_safetensors),
    (ARCHIVES, _fault_of_archive),
    (".json", _fault_of_json),
)


def _is_checkpoint(path: str) -> bool:
    """By a pattern for everything: beside checkpoints stand notes, pictures, folders of logs."""
    if not os.path.isdir(path):
        return not NOTE.search(path)
    return any(name.endswith(WEIGHTS) or name.endswith(".metadata") for name in files_of(path))


def counted(name: str) -> list[int]:
    """Return the steps and epochs that a name marks as such."""
    return [int(text) for text in COUNTED.findall(FRACTION.sub(".", name))]


def numbers_of(path: str) -> list[int]:
    """Return steps and epochs in a name; where none is marked as such, all whole numbers."""
    name = os.path.basename(path)
    return counted(name) or [int(text) for text in re.findall(r"\d+", FRACTION.sub(".", name))]


def kind_of(path: str) -> tuple[str, str]:
    """What checkpoints share that differ only in their numbers: a form of name, a folder."""
    return re.sub(r"\d+", "0", os.path.basename(path)), os.path.dirname(path)


def _shape(path: str) -> set[str]:
    """Return the names of a folder's weights and states, with 0 for each number."""
    names = (os.path.relpath(name, path) for name in files_of(path))
    return {
        re.sub(r"\d+", "0", name) for name in names if name.endswith(WEIGHTS) or STATE.search(name)
    }


def _lost_by(item: Item, older: list[Item], known: Known) -> str:
    """Return what the two older neighbours of a folder have, or the only one, and it lacks."""
    if not os.path.isdir(item.path):
        return ""
    shapes: list[set[str]] = []
    for other in older:
        if len(shapes) == 2:
            break
        is_neighbour = os.path.isdir(other.path) and kind_of(other.path) == kind_of(item.path)
        if is_neighbour and not known.fault(other):
            shapes.append(_shape(other.path))
    lost = min(set.intersection(*shapes) - _shape(item.path), default="") if shapes else ""
    return f"{lost} is missing" if lost else ""
