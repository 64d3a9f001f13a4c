"""Which checkpoint an attempt resumes from, and what becomes of those that are corrupt."""

from __future__ import annotations

from contextlib import suppress

from . import checkpoints, child, content, failures, fetch, notices, state
from .checkpoints import Checkpoint
from .child import Beat, Failed
from .content import Item, Look
from .context import Run
from .copies import held
from .copies.records import is_mixed, read_mixed
from .core import resume
from .core.model import Folder, Local, Verdict

QUIET = 60.0  # seconds without a write: then no other node is writing it any more


class Lost(Exception):
    """There are checkpoints and none can be resumed from: to begin again would be dearer."""

    def __init__(self, verdict: Verdict):
        super().__init__(verdict.reason)
        self.verdict = verdict


class Choice:
    """What the choice of a checkpoint goes by, and what is done about it.

    `is_fetched`: the durable place was asked for better ones since the last start; `fetch`: what it
    answered instead.
    """

    def __init__(self, run: Run, beat: Beat | None = None):
        self.run, self.beat = run, beat
        self.is_fetched, self.fetch = False, Verdict()
        self._look = Look(None, [], [])

    def see(self) -> Folder:
        """Return what the checkpoint folder holds now."""
        if not checkpoints.has_checkpoints(self.run):
            return Folder()
        try:
            look = checkpoints.look(self.run, self.beat)
        except Failed as failed:
            return self._tell(str(failed))
        if self.is_fetched:
            # What the fetch moved aside is told all the same.
            corrupt_here = {item.path for item, _ in look.corrupt}
            moved = [pair for pair in self._look.corrupt if pair[0].path not in corrupt_here]
            look = look._replace(corrupt=[*moved, *look.corrupt])
        self._look = look
        return self._tell()

    def _tell(self, error: str = "") -> Folder:
        run, look = self.run, self._look

        def local(item: Item, fault: str = "") -> Local:
            is_quiet = run.now - item.changed / 1e9 > QUIET
            return Local(item.path, fault, is_quiet, tuple(content.numbers_of(item.path)))

        return Folder(
            local(look.whole) if look.whole else None,
            look.whole is not None and _is_mixed(run, look.whole),
            tuple(local(*pair) for pair in look.corrupt),
            tuple(local(*pair) for pair in look.unread),
            error,
            run.checkpoints,
            held.has_any(run),
        )

    def bring(self) -> None:
        """Bring better checkpoints from the durable place, if it has any."""
        self.is_fetched, self.fetch = True, Verdict()
        verdict = fetch.restore(self.run, self.beat or (lambda: False))
        if verdict is not None:
            entry = verdict.entry or failures.entry_of(self.run.spec, "lost")
            self.fetch = verdict._replace(entry=entry)

    def quarantine(self, path: str) -> None:
        """Move a corrupt one aside, unless another one has its name since the last look."""
        for item, _ in self._look.corrupt:
            if item.path == path and _is_same(item):
                quarantine(self.run, path)

    def begin(self, source: str) -> Checkpoint | None:
        """Return the checkpoint at `source`, with which a start begins, None for '', and tell what
        was left out, or lost. Another start asks anew. Raises Failed where it can't be seen."""
        run, look = self.run, self._look
        if source and (look.whole is None or look.whole.path != source):  # an earlier runner chose
            look = Look(Item(*child.call(run, content.stamp, source)), [], [])
        self.is_fetched, self.fetch, self._look = False, Verdict(), Look(None, [], [])
        for item, fault in look.unread:
            run.log(f"can't read {item.path}: {fault}")
        entry = failures.entry_of(run.spec, "corrupt")
        for item, fault in look.corrupt:
            run.event("corrupt-checkpoint", path=item.path, why=fault, entry=entry)
            run.log(f"corrupt checkpoint ({entry}): {item.path}: {fault}")
        found = checkpoints.checkpoint_of(look.whole)
        if found is None and not look.corrupt:
            _tell_lost(run)
        checkpoints.remember(run, found)
        return found


def choose_checkpoint(run: Run) -> Checkpoint | None:
    """Return the checkpoint that a rehearsal begins with, None for a program that begins anew.

    Quarantines corrupt ones, which an automatic resume would load, and tells. Raises Lost.
    """
    choice = Choice(run)
    folder = choice.see()
    if resume.wants_fetch(run.spec, folder):
        choice.bring()
        folder = choice.see()
    if choice.fetch.failure and folder.whole is None:
        raise Lost(choice.fetch)
    number, had_whole = run.folder.attempt() or 0, bool(checkpoints.last_seen(run))
    chosen = resume.choose_source(run.spec, folder, number, had_whole, run.rank == 0)
    if isinstance(chosen, resume.Lost):
        raise Lost(chosen.verdict)
    for path in chosen.quarantined:
        choice.quarantine(path)
    return choice.begin(chosen.source)


def set_aside(run: Run, path: str, older: str) -> None:
    """Move aside a checkpoint that crashed a resume, and the other files of its save, for the one
    with the id `older`."""
    checkpoint, save = run.spec.checkpoint, [path]
    with suppress(Failed):
        where = (run.checkpoints, checkpoint.pattern, list(checkpoint.files), path)
        save = child.call(run, content.find_save, *where)
    moved = quarantine(run, path)
    if not moved:
        return
    for other in save:
        if other != path:
            quarantine(run, other)
    entry, instead = failures.entry_of(run.spec, "corrupt"), resume.path_of(older)
    run.log(f"no attempt has loaded {path} ({entry}): set aside as {moved}")
    notices.notify(
        run,
        f"the resume from {path} failed, and no attempt has ever loaded it ({entry}):"
        f" it is now {moved}, and training goes on from {instead}",
    )


def quarantine(run: Run, path: str) -> str:
    """Give a checkpoint that nothing must go on from another name; return that, '' where it keeps
    its own."""
    try:
        moved = child.call(run, content.quarantine, path)
    except Failed as error:
        run.log(f"can't set {path} aside: {error}")
        return ""
    run.event("renamed", **{"from": path, "to": moved})
    return moved


def restore(run: Run, path: str) -> None:
    """Give the files of a checkpoint that was not to blame their names back."""
    with suppress(Failed):
        for moved, back in child.call(run, content.restore_quarantined, path):
            run.event("renamed", **{"from": moved, "to": back})


def arguments(run: Run, checkpoint: Checkpoint | None) -> list[str]:
    """Return the program's further arguments by which it goes on from the checkpoint."""
    name, switch = _way(run, "flag"), _way(run, "switch")
    if checkpoint is None or not (name or switch):
        return []
    if switch:
        return [switch]
    return [name + checkpoint.path] if name.endswith("=") else [name, checkpoint.path]


def variables(run: Run, checkpoint: Checkpoint | None) -> dict[str, str]:
    """Return the variable of the program that names the checkpoint."""
    name = _way(run, "variable")
    return {name: checkpoint.path} if name and checkpoint is not None else {}


def _way(run: Run, kind: str) -> str:
    """Return the flag, the variable or the switch by which the job has its program go on, '' where
    it has none of this kind."""
    resume = run.spec.resume
    return (resume.get(kind) or "") if isinstance(resume, dict) else ""


def _is_same(item: Item) -> bool:
    """Return whether this item still lies under its name, and not one that was fetched since."""
    with suppress(OSError):
        return content.stamp(item.path) == item
    return False


def _is_mixed(run: Run, item: Item) -> bool:
    """Return whether a checkpoint is of two saves, as the last copy found it."""
    with suppress(Failed):
        return bool(child.call(run, is_mixed, read_mixed(run), item.path, limit=checkpoints.LIMIT))
    return False


def _tell_lost(run: Run) -> None:
    """Tell of a run that finds no checkpoint any more, and begins from nothing: it has lost its
    disk."""
    last = checkpoints.last_seen(run) or str(state.core_of(run.folder).get("last_whole") or "")
    if not last:
        return
    entry = failures.entry_of(run.spec, "lost")
    run.event("lost-checkpoints", entry=entry, last=last)
    run.log(f"no checkpoint left ({entry}): the last one was {last}")
    notices.notify(
        run, f"no checkpoint left ({entry}), the last one was {last}; training starts from nothing"
    )
