"""What a run writes down of its copies, and reads again at the next round."""

from __future__ import annotations

import json
from typing import Any

from .. import content, durable
from ..context import Run

STATE = "own/copies.json"  # what was read, copied and proven
SAFE = "safe.json"  # what of the run is safe; safe.py reads it
LAST = "own/last-sync"  # how the last round went
ROWS = "log/synced.tsv"  # a row for each item of each round


class Records:
    """What earlier rounds left behind in STATE.

    `digests`: {stamp: digest} of checkpoints here, and `corrupt`: {stamp: why}. The rest is of this
    durable place alone. `known`: manifests of the generations there, by name. `files`: {address
    there: {name: stamp}} of what was compared. `rhythms`: {checkpoint: which of its files were
    written when}. `own`: the digests that an attempt saved, whether it began anew, and whether one
    was copied; `before`: the same of the attempt before it. `overtaken`: kinds of which one
    changed while the last round copied it. `logged`: when the log was copied, in seconds since
    1970.
    """

    def __init__(self, run: Run):
        self.run = run
        noted = run.folder.json(STATE)
        there = noted if noted.get("place") == durable.place_id(run) else {}
        self.digests: dict[str, str] = noted.get("digests") or {}
        self.corrupt: dict[str, str] = noted.get("corrupt") or {}
        self.known: dict[str, dict[str, Any]] = there.get("known") or {}
        self.files: dict[str, dict[str, list[int]]] = there.get("files") or {}
        self.rhythms: dict[str, dict[str, Any]] = there.get("rhythms") or {}
        self.own: dict[str, Any] = there.get("own") or {}
        self.before: dict[str, Any] = there.get("before") or {}
        self.overtaken: frozenset[str] = frozenset(there.get("overtaken") or ())
        self.logged = float(there.get("logged") or 0)

    def forget_others(self, stamps: set[str], names: set[str]) -> None:
        """Keep what is told of these checkpoints here, by stamp and by name, and no more."""
        self.digests = {s: digest for s, digest in self.digests.items() if s in stamps}
        self.corrupt = {s: why for s, why in self.corrupt.items() if s in stamps}
        self.rhythms = {name: row for name, row in self.rhythms.items() if name in names}

    def write(self) -> None:
        """Write all of it down."""
        record = {
            "place": durable.place_id(self.run),
            "digests": self.digests,
            "corrupt": self.corrupt,
            "known": self.known,
            "files": self.files,
            "rhythms": self.rhythms,
            "own": self.own,
            "before": self.before,
            "overtaken": sorted(self.overtaken),
            "logged": self.logged,
        }
        self.run.folder.write(STATE, json.dumps(record) + "\n")


def has_copied(run: Run, attempt: int) -> bool:
    """Return whether a checkpoint that this attempt saved was copied: some programs remove theirs
    before they save the next one."""
    own = Records(run).own
    return own.get("attempt") == attempt and own.get("has_copied") is True


def read_mixed(run: Run) -> dict[str, str]:
    """Return {path: stamp} of checkpoints here that are of two saves, or of some files of one, as
    the last round found."""
    return dict(run.folder.json(SAFE).get("mixed") or {})


def is_mixed(mixed: dict[str, str], path: str) -> bool:
    """Return whether a path is of such a checkpoint, and is still as it was then."""
    return path in mixed and mixed[path] == content.fingerprint([path])


def write_last(run: Run, record: dict[str, object]) -> None:
    """Write how the last round went."""
    record = {"t": int(run.now), **record, "to": run.durable}
    run.folder.overwrite(LAST, json.dumps(record) + "\n")


def add_row(run: Run, row: tuple[object, ...]) -> None:
    """Write how an item went: the time, the mode, the result, its names and the seconds it took."""
    words = [durable.mask(run, str(field)) for field in row]
    run.folder.append(ROWS, "\t".join(words) + "\n")
