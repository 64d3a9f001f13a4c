"""Which checkpoint an attempt resumes from, and what becomes of corrupt ones."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..failures import entry_of
from .model import Exit, Folder, Local, Verdict

MOVE, RESTORE = "move", "restore"


class Begin(NamedTuple):
    """An attempt begins with this checkpoint, '' for none. `quarantined`: corrupt ones that an
    automatic resume would load. `note`: which were left out, as a sentence."""

    source: str
    quarantined: tuple[str, ...]
    note: str


class Lost(NamedTuple):
    """There are checkpoints and none can be resumed from: to begin anew would be dearer."""

    verdict: Verdict


class Doubt(NamedTuple):
    """A checkpoint that was moved aside after a crash: its path, and the id of the older one that
    was resumed from in its place."""

    path: str = ""
    instead: str = ""


def doubt_checkpoint(job: Any, verdict: Verdict, ended: Exit, before: Doubt) -> str:
    """Return whether a crash may be the fault of the newest checkpoint: MOVE it aside for an older
    one, RESTORE the one of `before`, or '' for neither.

    So where a resume crashed from one that no attempt ever loaded: the end of an old pickle can't
    be checked. If the older one crashes too, it gets its name back. Not on several nodes, which
    would have to agree.
    """
    if ended.code in (0, None) or job.nodes > 1 or job.resume == "none":
        return ""
    if verdict.failure not in ("bug", "unknown") or ended.has_stepped:
        return ""
    if not ended.newest or ended.newest != ended.began:
        return ""
    if ended.newest == before.instead:
        return RESTORE
    return MOVE if ended.older and path_of(ended.newest) != before.path else ""


def path_of(checkpoint: str) -> str:
    """Return the path in the id of a checkpoint."""
    return checkpoint.rpartition(" ")[0]


def wants_fetch(job: Any, folder: Folder) -> bool:
    """Return whether the durable place, or what is held, is asked for something better than what
    is here."""
    is_elsewhere = bool(job.durable.to) or folder.has_held
    if not is_elsewhere or job.resume == "none" or folder.error:
        return False
    return bool(folder.corrupt) or folder.whole is None or folder.is_mixed


def choose_source(
    job: Any, folder: Folder, attempt: int, had_whole: bool, is_first_node: bool = True
) -> Begin | Lost:
    """Return what an attempt begins with. `attempt`: its number. `had_whole`: the run has seen a
    complete one."""
    if folder.error:
        reason = (
            f"the checkpoints in {folder.path} can't be looked at ({folder.error}); start it again"
            " when the folder answers"
        )
        return Lost(Verdict("bug", entry_of(job, "lost"), reason))
    if folder.whole is None and (lost := _refuse_to_lose(job, folder, attempt, had_whole)):
        return lost
    may_move = job.nodes == 1 or is_first_node
    moved = [
        one.path
        for one in folder.corrupt
        if _picks_itself(job.resume) and may_move and (job.nodes == 1 or one.is_quiet)
    ]
    source = folder.whole.path if folder.whole else ""
    note = "" if job.resume == "none" else _note(folder, source)
    return Begin(source, tuple(moved), note)


def _picks_itself(way: Any) -> bool:
    """Return whether the program picks a checkpoint by itself, and so may pick a corrupt one."""
    return way == "automatic" or (isinstance(way, dict) and bool(way.get("switch")))


def _refuse_to_lose(job: Any, folder: Folder, attempt: int, had_whole: bool) -> Lost | None:
    """A run that never had a complete one, and was cut short in its first save, may begin anew. On
    several nodes another one may be writing its first at this moment."""
    broken = [*folder.corrupt, *folder.unread]
    if job.nodes > 1:
        broken = [one for one in broken if one.is_quiet]
    if not broken or job.resume == "none":
        return None
    is_first_save = attempt > 1 and not had_whole
    if is_first_save and _count_saves(folder.corrupt) == 1 and not folder.unread:
        return None
    count = f"{len(broken)} checkpoints" if len(broken) > 1 else "one checkpoint"
    reason = (
        f"none of the {count} in {folder.path} is whole ({_name(broken[0])}: {broken[0].fault});"
        " put a whole one there, or move them away to begin from nothing"
    )
    return Lost(Verdict("bug", entry_of(job, "corrupt"), reason))


def _count_saves(found: tuple[Local, ...]) -> int:
    """Return of how many saves these are; files of the same numbers are of one."""
    return len({one.numbers or (one.path,) for one in found})


def _note(folder: Folder, source: str) -> str:
    if not folder.corrupt:
        return ""
    first = folder.corrupt[0]
    others = f" and {len(folder.corrupt) - 1} more" if len(folder.corrupt) > 1 else ""
    begins = f"with {source.rpartition('/')[2]}" if source else "from nothing"
    return f"{_name(first)}{others} is not whole ({first.fault}), so this attempt began {begins}"


def _name(one: Local) -> str:
    return one.path.rpartition("/")[2]
