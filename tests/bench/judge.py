"""What was lost, and what was said that isn't true: from the programs' journal and the bytes that lie on box and durable place.

Nothing of the product is read here but what it says in words. Files count by their content, never by their names.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

FORGIVEN_SECONDS = 1.5  # a gap at the durable place that two looks in a row may show


@dataclass
class Save:
    """One save of a program, `end` 0 while it isn't complete; `files`: {path: SHA-256}."""

    id: str
    role: str
    step: int
    line: str
    begin: float
    paths: list[str]
    end: float = 0.0
    files: dict[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return f"{self.role} of step {self.step} (line {self.line})"


class Journal:
    """What the programs wrote down. `vanished`: instants at which the box was gone."""

    def __init__(self, text: str, vanished: Iterable[float] = ()):
        self.events = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
        self.vanished = list(vanished)
        self.saves: dict[str, Save] = {}
        for event in self.events:
            if event["event"] == "begin":
                self.saves[event["id"]] = Save(
                    event["id"],
                    event["role"],
                    event["step"],
                    event["line"],
                    event["t"],
                    event["paths"],
                )
            elif event["event"] == "end":
                save = self.saves[event["id"]]
                save.end, save.files = event["t"], event["files"]

    def of(self, kind: str) -> list[dict]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def complete(self) -> list[Save]:
        return [save for save in self.saves.values() if save.end]

    def stays_until(self, save: Save, until: float) -> float:
        """When the box's own copy of a complete save went: written over, deleted, or the box gone; at most `until`."""
        for event in self.events:
            if event["t"] < save.end:
                continue
            if event["event"] == "begin" and touches(event["paths"], save.files):
                until = min(until, event["t"])
            if event["event"] == "delete" and touches([event["path"]], save.files):
                until = min(until, event["t"])
        return min([until, *(t for t in self.vanished if t >= save.end)])

    def protected(
        self, until: float, window: float, outages: Iterable[tuple[float, float]] = ()
    ) -> list[Save]:
        """The saves that were complete for longer than the window before `until`; time of an outage doesn't count."""
        found = []
        for save in self.complete:
            left = self.stays_until(save, until)
            away = sum(max(0.0, min(left, b) - max(save.end, a)) for a, b in outages)
            if left - save.end - away >= window:
                found.append(save)
        return found

    def is_satisfied(self, save: Save, digests: set[str]) -> bool:
        """Whether these bytes hold the save, a later one of its line, or one of another line that is beyond it."""
        return any(
            other.role == save.role
            and (other.step >= save.step if other.line == save.line else other.step > save.step)
            and is_whole(other, digests)
            for other in self.complete
        )

    def missing(self, saves: Iterable[Save], digests: set[str]) -> list[Save]:
        return [save for save in saves if not self.is_satisfied(save, digests)]

    @property
    def finished(self) -> bool:
        """Whether the newest program came to its own end."""
        ends = [event["event"] for event in self.events if event["event"] in ("start", "finish")]
        return bool(ends) and ends[-1] == "finish"

    def result(self) -> dict[str, str]:
        """{path: SHA-256} of the newest result, {} before there is one."""
        found = self.of("result")
        return found[-1]["files"] if found and self.finished else {}


def is_whole(save: Save, digests: set[str]) -> bool:
    """Whether all files of a save are among these digests."""
    return bool(save.files) and set(save.files.values()) <= digests


def touches(paths: Iterable[str], files: Iterable[str]) -> bool:
    """Whether one of the files is one of these paths or lies below one."""
    return any(
        file == path or file.startswith(path.rstrip("/") + "/") for path in paths for file in files
    )


class Store:
    """The digests of all files below some folders, each file read once for each change of it."""

    def __init__(self, *folders: Path):
        self.folders = folders
        self.known: dict[tuple, str] = {}
        self.signature: frozenset = frozenset()

    def digests(self) -> set[str]:
        found, keys = set(), []
        for folder in self.folders:
            for path in filter(is_committed, walk(folder)):
                try:
                    told = path.stat()
                    key = (str(path), told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
                    if key not in self.known:
                        self.known[key] = hashlib.sha256(path.read_bytes()).hexdigest()
                except OSError:
                    continue
                keys.append(key)
                found.add(self.known[key])
        self.signature = frozenset(keys)
        return found


def is_committed(path: Path) -> bool:
    """Whether a file isn't of a copy that still goes on: a generation counts once its manifest is there."""
    for above in path.parents:
        if above.parent.name.endswith(".generations"):
            return (above / "manifest.json").exists()
    return True


def walk(folder: Path) -> Iterable[Path]:
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in names:
            path = Path(at, name)
            if path.is_file() and not path.is_symlink():
                yield path


class History:
    """What the durable place held, look by look."""

    def __init__(self) -> None:
        self.arrived: dict[str, float] = {}
        self.gaps: list[
            tuple[Save, float, float]
        ] = []  # a save that was there and is not, from, until
        self.open: dict[str, float] = {}
        self.copy_seconds = 0.0
        self.changed_since = self.changed_at = 0.0
        self.signature: frozenset = frozenset()

    def look(self, journal: Journal, store: Store, now: float) -> None:
        """Take in what lies there now."""
        digests = store.digests()
        if store.signature != self.signature:
            if now - self.changed_at > FORGIVEN_SECONDS:
                self.changed_since = now
            self.changed_at, self.signature = now, store.signature
        for save in journal.complete:
            if save.id not in self.arrived and is_whole(save, digests):
                self.arrived[save.id] = now
                self.copy_seconds = max(self.copy_seconds, now - max(self.changed_since, save.end))
        for save in journal.complete:
            if save.id not in self.arrived:
                continue
            if journal.is_satisfied(save, digests):
                if save.id in self.open:
                    self._close(save, now)
            else:
                self.open.setdefault(save.id, now)

    def _close(self, save: Save, now: float) -> None:
        self.gaps.append((save, self.open.pop(save.id), now))

    def replaced(self, journal: Journal, now: float) -> list[str]:
        """Complete saves that were at the durable place and went without a newer one."""
        for name in list(self.open):
            self._close(journal.saves[name], now)
        return [
            f"{save.words} was whole at the durable place and then wasn't, for {until - since:.0f} s"
            for save, since, until in self.gaps
            if until - since > FORGIVEN_SECONDS
        ]


# Formats, read by their own rules.


def is_complete_file(path: Path) -> bool:
    """Whether a file is whole by its own format; one of an unknown format is, if it has content."""
    try:
        data = path.read_bytes()
        if data[:4] == b"PK\x03\x04":
            return zipfile.ZipFile(path).testzip() is None
        if data[:1] == b"\x80":
            return _is_complete_pickle(path)
        if path.suffix == ".safetensors":
            (length,) = struct.unpack("<Q", data[:8])
            header = json.loads(data[8 : 8 + length])
            header.pop("__metadata__", None)
            return len(data) == 8 + length + max(t["data_offsets"][1] for t in header.values())
        if path.suffix == ".json":
            json.loads(data)
        return bool(data)
    except Exception:  # the bytes of a corrupt pickle may be any opcode
        return False


def _is_complete_pickle(path: Path) -> bool:
    """A pickle, or torch's older form: five of them, then the numbers of each storage."""

    class Plain(pickle.Unpickler):
        def find_class(self, module, name):
            return OrderedDict if name == "OrderedDict" else lambda *words: None

        def persistent_load(self, pid):
            return pid

    with open(path, "rb") as file:
        if Plain(file).load() != 0x1950A86A20F9469CFC6C:
            return True
        for _ in range(3):
            Plain(file).load()
        for _ in Plain(file).load():
            (count,) = struct.unpack("<q", file.read(8))
            if len(file.read(4 * count)) < 4 * count:
                return False
    return True


def is_complete(path: Path) -> bool:
    """A file, or a folder of them with its framework's marker."""
    if path.is_file():
        return is_complete_file(path)
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    if any(name.startswith("training_args") or name == "config.json" for name in names) and (
        "trainer_state.json" not in names
    ):
        return False
    return bool(names) and all(is_complete_file(file) for file in walk(path))
