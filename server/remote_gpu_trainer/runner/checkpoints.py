"""Which checkpoint of a run is the newest that is complete.

The folder may lie on a mount that hangs, so all that touches it runs in a child that may be given
up: what nobody waits for (`glance`), and what the next step depends on (`newest`, `look`).
resuming.py chooses the one that an attempt resumes from.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakKeyDictionary

from . import child, content
from .child import Beat, Failed, Function
from .completeness import files_of
from .content import Item, Look
from .context import Run
from .core.resume import path_of

LIMIT = 5.0  # seconds for a look that only a message depends on
BIRTH_SECONDS = 60.0  # for a file system to tell when files were made


class Checkpoint(NamedTuple):
    """`step`: as its name tells it. `id`: changes with the content of its weights. `saved`: when
    these were written, in ns since 1970."""

    path: str
    step: int | None
    id: str
    saved: int = 0


class _Glances:
    """What a run's glances have found so far, and the child that looks now."""

    def __init__(self) -> None:
        self.child: Function | None = None
        self.latest: Checkpoint | None = None
        self.last = ""  # the path of the newest whole one that was seen at any time
        self.written: Item | None = None  # the one that was written last, if that is whole
        self.measured = ""  # the id of the save that was measured last
        self.longest = 0.0  # seconds that a save took


_glances: WeakKeyDictionary[Run, _Glances] = WeakKeyDictionary()


def newest(run: Run, beat: Beat | None = None) -> Checkpoint | None:
    """Return the newest whole checkpoint as it is now; as it was last where nothing answers."""
    seen = _glances.setdefault(run, _Glances())
    try:
        if seen.child is not None:
            # What it has read needn't be read again.
            with suppress(Failed):
                child.wait(run, seen.child, beat=beat)
        seen.latest = checkpoint_of(look(run, beat).whole)
    except Failed as error:
        if not run.asked:
            run.log(f"the checkpoints in {run.checkpoints} can't be looked at: {error}")
    finally:
        seen.child = None
    return seen.latest


def glance(run: Run) -> str:
    """Return the path of the newest whole checkpoint, '' for none known. Waits for nothing.

    A checkpoint that has come since is found by this call or by the next one.
    """
    if not has_checkpoints(run):
        return ""
    seen = _glances.setdefault(run, _Glances())
    with suppress(Failed):
        if seen.child is None:
            seen.child = child.start(_survey, *where(run), seen.measured)
        if seen.child.poll(0.05):
            look, seconds, written = seen.child.value()
            seen.written = Item(*written) if written else None
            seen.latest = checkpoint_of(content.look_of(look).whole)
            seen.measured = seen.latest.id if seen.latest else ""
            seen.longest = max(seen.longest, seconds)
            seen.last = seen.latest.path if seen.latest else seen.last
    if seen.child is not None and not seen.child.is_open:
        seen.child = None
    return seen.latest.path if seen.latest else ""


def latest(run: Run) -> Checkpoint | None:
    """Return what the last look found, without another one."""
    seen = _glances.get(run)
    return seen.latest if seen else None


def saved_since(run: Run, newest: int, now: bool = False) -> Checkpoint | None:
    """Return the checkpoint that was written last, if it is whole and that was after this time, in
    ns since 1970. As the last glance found it, or as it is `now`."""
    seen = _glances.setdefault(run, _Glances())
    if now and has_checkpoints(run):
        with suppress(Failed):
            written = child.call(run, content.last_whole, *where(run), limit=LIMIT)
            seen.written = Item(*written) if written else None
    written = seen.written
    return checkpoint_of(written) if written and written.weights > newest else None


def written_since(run: Run, newest: int) -> str:
    """Return the id of the checkpoint that was written last, whole or not, if that was after this
    time, in ns since 1970; else ''. Reads none."""
    where = (run.checkpoints, run.spec.checkpoint.pattern)
    with suppress(Failed):
        last = child.call(run, content.last_written, *where, limit=LIMIT)
        found = checkpoint_of(Item(*last)) if last else None
        return found.id if found and last[3] > newest else ""
    return ""


class SaveTimes:
    """How long a save takes here: training needn't end earlier before a deadline than that.

    Glances measure those that the program makes by itself; `note_save` takes down those it was
    asked for.
    """

    def __init__(self, run: Run):
        self._most = run.spec.checkpoint.save_seconds
        self._seen = _glances.setdefault(run, _Glances())

    def note_save(self, asked_up: float, seen_up: float) -> None:
        """Take down a save, by two readings of `run.up`."""
        self._seen.longest = max(self._seen.longest, seen_up - asked_up)

    def seconds(self) -> float:
        """Return the time to give a save: as the job says until one is measured."""
        if not self._seen.longest:
            return self._most
        return min(self._seen.longest * 1.5 + 1, self._most)


def has_checkpoints(run: Run) -> bool:
    """Return whether the job says where its checkpoints lie, and how they are called."""
    return bool(run.checkpoints and run.spec.checkpoint.pattern)


def where(run: Run) -> tuple[str, str, str, list[str]]:
    """Return folder, pattern, cache and other files, which content.look is given."""
    asked = run.spec.checkpoint
    return run.checkpoints, asked.pattern, run.folder.at("own/whole.cache"), list(asked.files)


def _survey(folder: str, pattern: str, cache: str, files: list[str], measured: str) -> list[object]:
    """Return a look, how long the save of what it found took (0 for one `measured` before), and
    what was written last, if that is whole."""
    look = content.look(folder, pattern, cache, files)
    found = checkpoint_of(look.whole)
    is_new = found is not None and found.id != measured
    seconds = _save_seconds(found.path) if found and is_new else 0
    return [look, seconds, content.last_whole(folder, pattern, cache, files)]


def _save_seconds(path: str) -> float:
    """Return how long a save took, from the birth of its first file to the last change of its
    weights; 0 where the file system doesn't tell, or for a copy."""
    paths = [path, *(files_of(path) if os.path.isdir(path) else ())]
    output = child.answer(["stat", "-c", "%.3W", *paths[:500]], BIRTH_SECONDS) or ""
    try:
        births = [float(text) for text in output.split()]
        took = content.stamp(path).weights / 1e9 - min(birth for birth in births if birth > 0)
    except (OSError, ValueError):
        return 0.0
    return max(took, 0.0)


def look(run: Run, beat: Beat | None) -> Look:
    """Return what the folder holds now. Raises Failed."""
    if not has_checkpoints(run):
        return Look(None, [], [])
    return content.look_of(child.call(run, content.look, *where(run), beat=beat))


def find_older(run: Run, newest: str) -> str:
    """Return the id of the newest complete checkpoint but `newest`, by its id; '' for none."""
    with suppress(Failed):
        answer = child.call(run, content.look, *where(run), path_of(newest))
        found = checkpoint_of(content.look_of(answer).whole)
        return found.id if found else ""
    return ""


def checkpoint_of(item: Item | None) -> Checkpoint | None:
    """Return an item of the folder as the checkpoint that it is."""
    if item is None:
        return None
    step = content.step_of(item.path)
    return Checkpoint(item.path, step, f"{item.path} {item.weights}", item.weights)


def remember(run: Run, found: Checkpoint | None) -> None:
    """Take a checkpoint for the newest one, as if a glance had found it."""
    seen = _glances.setdefault(run, _Glances())
    seen.latest, seen.last = found, found.path if found else seen.last


def last_seen(run: Run) -> str:
    """Return the path of the newest whole checkpoint that this process has seen, '' for none."""
    return _glances.setdefault(run, _Glances()).last
