"""Whole and torn checkpoints, and which one a program goes on from.

The folder may lie on a mount that hangs, so all that touches it runs in a child that may be given
up: what nobody waits for (`glance`), and what the next step depends on (`newest`, `begin_with`).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakKeyDictionary

from . import apart, asking, content, log, notices, why
from .apart import Reading
from .asking import Beat, Failed
from .content import Item, Look
from .context import Run
from .copies.records import is_mixed, read_mixed

QUIET = 60.0  # seconds without a write: then no other node is writing it any more
LAST = "last-checkpoint"  # the newest whole one that this run has seen, by its path
DOUBTED = "doubted.json"
LIMIT = 5.0  # seconds for a look that only a message depends on


class Checkpoint(NamedTuple):
    """`step`: as its name tells it. `id`: changes with the content of its weights. `saved`: when
    these were written, in ns since 1970."""

    path: str
    step: int | None
    id: str
    saved: int = 0


class Lost(Exception):
    """There are checkpoints and none can be gone on from: to begin again would be dearer."""

    def __init__(self, entry: str, reason: str):
        super().__init__(reason)
        self.entry, self.reason = entry, reason


class _Glances:
    """What a run's glances have found so far, and the child that looks now."""

    def __init__(self) -> None:
        self.child: Reading | None = None
        self.latest: Checkpoint | None = None
        self.written: Item | None = None  # the one that was written last, if that is whole
        self.skipped = ""  # which torn ones the last begin left out, as a sentence
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
                apart.wait(run, seen.child, beat)
        seen.latest = _checkpoint(_look(run, beat).whole)
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
    if not _has_checkpoints(run):
        return ""
    seen = _glances.setdefault(run, _Glances())
    with suppress(Failed):
        if seen.child is None:
            seen.child = apart.start(_survey, *where(run), seen.measured)
        if seen.child.poll(0.05):
            look, seconds, written = seen.child.value()
            seen.written = Item(*written) if written else None
            seen.latest = _checkpoint(content.look_of(look).whole)
            seen.measured = seen.latest.id if seen.latest else ""
            seen.longest = max(seen.longest, seconds)
            _note_last(run, seen.latest)
    if seen.child is not None and not seen.child.is_open:
        seen.child = None
    return seen.latest.path if seen.latest else ""


def latest(run: Run) -> Checkpoint | None:
    """Return what the last look found, without another one."""
    seen = _glances.get(run)
    return seen.latest if seen else None


def saved_since(run: Run, newest: int, look: bool = False) -> Checkpoint | None:
    """Return the checkpoint that was written last, if it is whole and that was after this time, in
    ns since 1970. As the last glance found it, or by another `look`."""
    seen = _glances.setdefault(run, _Glances())
    if look and _has_checkpoints(run):
        with suppress(Failed):
            written = asking.call(run, LIMIT, None, content.last_whole, *where(run))
            seen.written = Item(*written) if written else None
    written = seen.written
    return _checkpoint(written) if written and written.weights > newest else None


def written_since(run: Run, newest: int) -> str:
    """Return the id of the checkpoint that was written last, whole or not, if that was after this
    time, in ns since 1970; else ''. Reads none."""
    where = (run.checkpoints, run.spec.checkpoint_pattern)
    with suppress(Failed):
        told = asking.call(run, LIMIT, None, content.last_written, *where)
        found = _checkpoint(Item(*told)) if told else None
        return found.id if found and told[3] > newest else ""
    return ""


def skipped(run: Run) -> str:
    """Return which torn checkpoints the last begin left out, as a sentence; '' for none."""
    seen = _glances.get(run)
    return seen.skipped if seen else ""


def begin_with(run: Run, beat: Beat | None = None) -> Checkpoint | None:
    """Return the checkpoint that an attempt begins with, None for a program that begins anew.

    Sets torn ones aside, which an automatic resume would load, and tells. Raises Lost.
    """
    if not _has_checkpoints(run):
        return None
    try:
        look = _look(run, beat)
    except Failed as error:
        raise Lost(
            why.entry_of(run, "lost"),
            f"the checkpoints in {run.checkpoints} can't be looked at ({error}); start it again"
            " when the folder answers",
        ) from None
    is_mixed = look.whole is not None and _is_mixed(run, look.whole)
    if look.torn or look.whole is None or is_mixed:
        look = _bring_better(run, look, beat)
    if look.whole is None:
        _refuse_to_lose(run, look)
    for item, fault in look.unread:
        run.log(f"can't read {item.path}: {fault}")
    _set_torn_aside(run, look.torn)
    found = _checkpoint(look.whole)
    if found is None and not look.torn:
        _tell_lost(run)
    if found:
        _note_last(run, found)
    seen = _glances.setdefault(run, _Glances())
    seen.latest = found
    seen.skipped = "" if run.spec.resume == "none" else _tell_skipped(look.torn, found)
    return found


def doubt(run: Run, began: Checkpoint | None, attempt: why.Attempt) -> bool:
    """Return whether a crash is the checkpoint's fault, which is then set aside for an older one.

    So where a resume crashed from one that no attempt ever loaded: the end of an old pickle can't
    be checked. If the older one crashes too, it gets its name back. Not on several nodes, which
    would have to agree.
    """
    if attempt.code in (0, None) or run.spec.nodes > 1 or run.spec.resume == "none":
        return False
    if why.classify(run, attempt).failure not in ("bug", "unknown") or _has_stepped(run, attempt):
        return False
    crashed = newest(run)
    if crashed is None or crashed.id != attempt.checkpoint:
        return False
    told = run.folder.json(DOUBTED)
    if crashed.id == told.get("instead"):
        _give_back(run, str(told.get("path")), str(told.get("moved")))
        return False
    if crashed.path == told.get("path"):
        return False
    moved = _move_away(run, crashed.path)
    older = newest(run) if moved else None
    if older is None:
        if moved:
            _give_back(run, crashed.path, moved)
        run.log(f"{crashed.path} is the only checkpoint, and no attempt has loaded it")
        return False
    run.folder.write(
        DOUBTED, json.dumps({"path": crashed.path, "moved": moved, "instead": older.id}) + "\n"
    )
    entry = why.entry_of(run, "torn")
    run.log(f"no attempt has loaded {crashed.path} ({entry}): set aside as {moved}")
    notices.notify(
        run,
        f"the resume from {crashed.path} failed, and no attempt has ever loaded it ({entry}):"
        f" it is now {moved}, and training goes on from {older.path}",
    )
    return True


def resume_words(run: Run, checkpoint: Checkpoint | None) -> list[str]:
    """Return the program's further arguments that name the checkpoint."""
    name = run.spec.resume_name
    if run.spec.resume != "flag" or checkpoint is None:
        return []
    return [name + checkpoint.path] if name.endswith("=") else [name, checkpoint.path]


def resume_variables(run: Run, checkpoint: Checkpoint | None) -> dict[str, str]:
    """Return the variable of the program that names the checkpoint."""
    if run.spec.resume != "variable" or checkpoint is None:
        return {}
    return {run.spec.resume_name: checkpoint.path}


class SaveTimes:
    """How long a save takes here: training needn't end earlier before a deadline than that.

    Glances measure those that the program makes by itself; `note_save` takes down those it was
    asked for.
    """

    def __init__(self, run: Run):
        self._most = run.spec.save_seconds
        self._seen = _glances.setdefault(run, _Glances())

    def note_save(self, asked_up: float, seen_up: float) -> None:
        """Take down a save, by two readings of `run.up`."""
        self._seen.longest = max(self._seen.longest, seen_up - asked_up)

    def seconds(self) -> float:
        """Return the time to give a save: as the job says until one is measured."""
        if not self._seen.longest:
            return self._most
        return min(self._seen.longest * 1.5 + 1, self._most)


def _has_checkpoints(run: Run) -> bool:
    return bool(run.checkpoints and run.spec.checkpoint_pattern)


def where(run: Run) -> tuple[str, str, str]:
    """Return folder, pattern and cache, which content.look is given."""
    return run.checkpoints, run.spec.checkpoint_pattern, run.folder.at("whole.cache")


def _survey(folder: str, pattern: str, cache: str, measured: str) -> list[object]:
    """Return a look, how long the save of what it found took (0 for one `measured` before), and
    what was written last, if that is whole."""
    look = content.look(folder, pattern, cache)
    found = _checkpoint(look.whole)
    is_new = found is not None and found.id != measured
    seconds = content.seconds_of(found.path) if found and is_new else 0
    return [look, seconds, content.last_whole(folder, pattern, cache)]


def _look(run: Run, beat: Beat | None) -> Look:
    """Look now. Raises Failed."""
    if not _has_checkpoints(run):
        return Look(None, [], [])
    return content.look_of(apart.call(run, content.look, *where(run), beat=beat))


def _checkpoint(item: Item | None) -> Checkpoint | None:
    if item is None:
        return None
    step = content.step_of(item.path)
    return Checkpoint(item.path, step, f"{item.path} {item.weights}", item.weights)


def _note_last(run: Run, found: Checkpoint | None) -> None:
    if found and run.folder.read(LAST) != found.path + "\n":
        run.folder.write(LAST, found.path + "\n")


def _refuse_to_lose(run: Run, look: Look) -> None:
    """Raise Lost where there are checkpoints, none is whole, and a program would begin anew.

    A run that never had a whole one, and was cut short in its first save, may begin anew. On
    several nodes another one may be writing its first at this moment.
    """
    broken = [*look.torn, *look.unread]
    if run.spec.nodes > 1:
        broken = [pair for pair in broken if _is_quiet(run, pair[0])]
    if not broken or run.spec.resume == "none":
        return
    is_first_save = (run.folder.number("attempt") or 0) > 1 and not run.folder.has(LAST)
    if is_first_save and len(look.torn) == 1 and not look.unread:
        return
    item, fault = broken[0]
    count = f"{len(broken)} checkpoints" if len(broken) > 1 else "one checkpoint"
    raise Lost(
        why.entry_of(run, "torn"),
        f"none of the {count} in {run.checkpoints} is whole"
        f" ({os.path.basename(item.path)}: {fault}); put a whole one there, or move them away to"
        " begin from nothing",
    )


def _is_quiet(run: Run, item: Item) -> bool:
    return run.now - item.changed / 1e9 > QUIET


def _set_torn_aside(run: Run, torn: list[tuple[Item, str]]) -> None:
    """Tell of torn checkpoints, and rename those that an automatic resume would load.

    Only the first node touches what all see, and only what no other is writing.
    """
    entry = why.entry_of(run, "torn")
    for item, fault in torn:
        run.event("torn-checkpoint", path=item.path, why=fault, entry=entry)
        run.log(f"torn checkpoint ({entry}): {item.path}: {fault}")
        may_move = run.spec.nodes == 1 or (run.rank == 0 and _is_quiet(run, item))
        if run.spec.resume == "automatic" and may_move and _is_same(item):
            _move_away(run, item.path)


def _is_same(item: Item) -> bool:
    """Return whether this item still lies under its name, and not one that was fetched since."""
    with suppress(OSError):
        return content.stamp(item.path) == item
    return False


def _tell_skipped(torn: list[tuple[Item, str]], found: Checkpoint | None) -> str:
    if not torn:
        return ""
    item, fault = torn[0]
    others = f" and {len(torn) - 1} more" if len(torn) > 1 else ""
    begins = f"with {os.path.basename(found.path)}" if found else "from nothing"
    name = os.path.basename(item.path)
    return f"{name}{others} is not whole ({fault}), so this attempt began {begins}"


def _move_away(run: Run, path: str) -> str:
    """Give a checkpoint that nothing must go on from another name; '' where it keeps its own."""
    try:
        moved = apart.call(run, rename_to_free, path)
    except Failed as error:
        run.log(f"can't set {path} aside: {error}")
        return ""
    run.event("renamed", **{"from": path, "to": moved})
    return moved


def rename_to_free(path: str) -> str:
    """Move something that is corrupt into a hidden folder beside it, where no program's pattern
    such as checkpoint-* finds it; return where it is. Raises OSError."""
    folder, name = os.path.split(path)
    quarantine = os.path.join(folder, content.QUARANTINE)
    os.makedirs(quarantine, exist_ok=True)
    moved, number = os.path.join(quarantine, name), 2
    while os.path.lexists(moved):
        moved, number = os.path.join(quarantine, f"{name}.{number}"), number + 1
    os.rename(path, moved)
    return moved


def _give_back(run: Run, path: str, moved: str) -> None:
    """Give a checkpoint that was not to blame its name back."""
    with suppress(Failed):
        if apart.call(run, _rename_back, moved, path):
            run.event("renamed", **{"from": moved, "to": path})


def _rename_back(moved: str, path: str) -> bool:
    if os.path.lexists(path) or not os.path.lexists(moved):
        return False
    os.rename(moved, path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(moved))
    return True


def _bring_better(run: Run, look: Look, beat: Beat | None) -> Look:
    """Fetch what the durable place has that is better than what is here, and look again. Raises
    Lost where it doesn't answer and nothing complete is here."""
    from . import fetch

    if not run.durable or run.spec.resume == "none":
        return look
    verdict = fetch.restore(run, beat or (lambda: False))
    if verdict is not None and look.whole is None:
        raise Lost(verdict.entry or why.entry_of(run, "lost"), verdict.reason)
    with suppress(Failed):
        again = _look(run, beat)
        # What was moved aside meanwhile is told all the same.
        held = {item.path for item, _ in again.torn}
        moved = [pair for pair in look.torn if pair[0].path not in held]
        return again._replace(torn=[*moved, *again.torn])
    return look


def _is_mixed(run: Run, item: Item) -> bool:
    """Return whether a checkpoint is of two saves, as the last copy found it."""
    with suppress(Failed):
        return bool(asking.call(run, LIMIT, None, is_mixed, read_mixed(run), item.path))
    return False


def _tell_lost(run: Run) -> None:
    """Tell of a run that finds no checkpoint any more, and begins from nothing: it has lost its
    disk."""
    last = run.folder.read(LAST).rstrip("\n")
    if not last:
        return
    entry = why.entry_of(run, "lost")
    run.event("lost-checkpoints", entry=entry, last=last)
    run.log(f"no checkpoint left ({entry}): the last one was {last}")
    notices.notify(
        run, f"no checkpoint left ({entry}), the last one was {last}; training starts from nothing"
    )


def _has_stepped(run: Run, attempt: why.Attempt) -> bool:
    """Return whether an attempt got to a second step."""
    return len(set(log.find_steps(run, log.tail(run, attempt.log_first, 65536)))) > 1
