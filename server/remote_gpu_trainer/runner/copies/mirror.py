"""What is no checkpoint: logs, tables and results, kept at the durable place by their newest state.

A file that is corrupt here never replaces one there, and one that can't be judged replaces weights
only once the program has come to its end: until then it lies beside them. While a program lives it
may write a file anew between any two looks, so what replaces weights is judged, copied and compared
in a copy of it here.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from contextlib import suppress
from typing import Callable, Dict, Iterable, Iterator, List

from .. import content
from ..child import Failed
from ..completeness import COMPLETE, CORRUPT, UNKNOWN, WEIGHTS, judge_file
from .place import Files, Place, join
from .plan import SPARE

BESIDE = ".unjudged"
JUDGEABLE = (*WEIGHTS, ".json")  # of these it can be told whether all is there
NO_ROOM_HERE = "this box has no room to hold it still"
BATCH = 2 << 30  # bytes that are compared between two looks at the clock
Stamps = Dict[str, List[int]]
_CORE = re.compile(r"core([.-].*)?$|.*\.core$")


class Mirror:
    """Keeps files at a place by their newest state.

    `is_full`: all is compared, also what was before, until `is_late`. `is_over`: the program came
    to its end. `again`: what is the same by size and time is copied, too. `notes` gets what isn't
    copied, and why. `still`: a folder here for copies of what may change; `is_changing` says
    whether a program lives that changes it.
    """

    def __init__(
        self,
        place: Place,
        is_full: bool,
        is_over: bool,
        again: bool,
        is_late: Callable[[], bool],
        notes: list[str],
        still: str,
        is_changing: Callable[[], bool],
    ):
        self.place, self.again, self.notes = place, again, notes
        self.is_full, self.is_over, self.is_late = is_full, is_over, is_late
        self.still, self.is_changing = still, is_changing

    def copy(self, files: Files, there: str, known: Stamps) -> bool:
        """Copy what is new, and return whether all was compared. `known`: the stamps of what was
        compared before; kept up to date. Raises Failed and OSError."""
        stamps = {name: stamp(path) for name, path in files.items()}
        for name in set(known) - set(files):
            del known[name]
        new = [name for name in files if known.get(name) != stamps[name]]
        moving = [name for name in new if name.endswith(JUDGEABLE)] if self.is_changing() else []
        for batch in _batches({name: files[name] for name in moving}):
            self._copy_still(batch, there, known)
        new = [name for name in new if name not in moving]
        targets: Files = {}
        for name, as_, why in guard(self.place, there, files, new, self.is_over):
            if why:
                self.notes.append(why)
            if as_:
                targets[as_] = files[name]
        self.place.put(targets, there, self.again)
        if not (self.is_full or self.place.checks_often):
            return False
        for batch in _batches(targets):
            self._compare(batch, there, stamps, known)
        if self.is_full:
            # A file that has changed and isn't copied was left out, so that it replaces nothing.
            taken = {*targets, *moving}
            same = [n for n in files if known.get(n) == stamps[n] and n not in taken]
            for batch in _batches({name: files[name] for name in same}):
                if self.is_late():
                    break
                self._compare(batch, there, stamps, known, mends=True)
        return True

    def _copy_still(self, files: Files, there: str, known: Stamps) -> None:
        """Copy files that may change at any moment, by copies here that don't. Raises Failed and
        OSError."""
        stamps = {name: stamp(path) for name, path in files.items()}
        try:
            stills = {name: path for name in files if (path := self._copy_here(name, files[name]))}
            targets: Files = {}
            for name, path in stills.items():
                # One that was being written is looked at again in the next round.
                if stamp(files[name]) == stamps[name] == stamp(path):
                    for _, as_, why in guard(self.place, there, stills, [name], self.is_over):
                        self.notes += [why] if why else []
                        targets.update({as_: path} if as_ else {})
            self.place.put(targets, there, self.again)
            if self.is_full or self.place.checks_often:
                self._compare(targets, there, stamps, known)
        finally:
            shutil.rmtree(self.still, ignore_errors=True)

    def _copy_here(self, name: str, path: str) -> str:
        """Copy a file into the folder of still ones, with its times; return where it lies, '' where
        it went away or has no room there. Raises OSError."""
        still = os.path.join(self.still, name)
        try:
            os.makedirs(os.path.dirname(still), exist_ok=True)
            if os.path.getsize(path) + SPARE <= shutil.disk_usage(self.still).free:
                shutil.copy2(path, still)
                return still
        except FileNotFoundError:
            return ""
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
        self.notes.append(f"{name} isn't copied while its program lives: {NO_ROOM_HERE}")
        return ""

    def _compare(
        self, files: Files, there: str, stamps: Stamps, known: Stamps, mends: bool = False
    ) -> None:
        """Compare files by content. Raises Failed.

        A file that changed meanwhile was still being written, and counts in the next round.
        `mends`: it was the same once, so what lies there was damaged.
        """
        changed = {name for name, path in files.items() if stamp(path) != stamps.get(name)}
        wrong = [name for name in self.place.wrong(files, there) if name not in changed]
        if wrong and mends:
            self.place.put({name: files[name] for name in wrong}, there, True)
            wrong = self.place.wrong({name: files[name] for name in wrong}, there)
        for name in files:
            if name in stamps and name not in changed and name not in wrong:
                known[name] = stamps[name]
        wrong = [n for n in wrong if n in stamps and stamp(files[n]) == stamps[n]]
        if wrong:
            raise Failed(f"differs at the destination: {wrong[0]}")


def files_in(path: str, taken: set[str]) -> Files:
    """Return {name: path} of what is to be mirrored of a file or folder.

    Links to files are followed, those to folders aren't: what lies in this folder is copied under
    its own name, and what lies elsewhere may be anything; `links_away` names these. `taken`: real
    paths of checkpoints, which are kept otherwise. Raises OSError.
    """
    if not os.path.isdir(path):
        return {} if os.path.realpath(path) in taken else {os.path.basename(path): path}
    found: Files = {}
    os.listdir(path)  # os.walk takes a folder that can't be listed for an empty one
    for root, _, names in os.walk(path):
        for name in names:
            file = os.path.join(root, name)
            rest = os.path.relpath(file, path)
            is_corrupt = f"/{content.QUARANTINE}/" in "/" + rest
            is_half = file.endswith((".tmp", ".partial")) or content.is_leftover(rest)
            if (
                os.path.realpath(file) in taken
                or name.startswith(".rgt-")
                or is_corrupt
                or is_half
                and _is_weights(rest)
            ):
                continue
            if os.path.isfile(file) and not is_core_dump(file):
                found[rest] = file
    return found


def links_away(path: str) -> list[str]:
    """Return the links below a folder that lead to a folder outside it."""
    links = (os.path.join(root, n) for root, names, _ in os.walk(path) for n in names)
    return [link for link in links if os.path.islink(link) and not content.leads_below(link, path)]


def is_core_dump(path: str) -> bool:
    """Return whether a file is the memory of a process that crashed."""
    if not _CORE.match(os.path.basename(path)):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(18)
    except OSError:
        return False
    # The type in an ELF file's head, in either order of bytes.
    return head[:4] == b"\x7fELF" and head[16:18] in (b"\4\0", b"\0\4")


def guard(
    place: Place, there: str, files: Files, names: Iterable[str], is_over: bool
) -> Iterator[tuple[str, str, str]]:
    """Say of each file that changed under which name it goes: (name, name there, why another).

    The name there is '' for one that is left out. `is_over`: the program came to its end, so that
    its files are what it meant to leave.
    """
    for name in names:
        state, why = UNKNOWN, ""
        if name.endswith(JUDGEABLE):
            state, why = judge_file(files[name])
        if state == COMPLETE or not name.endswith(JUDGEABLE):
            yield name, name, ""
        elif state == CORRUPT and name.endswith(WEIGHTS):
            yield name, "", f"{name} is corrupt ({why}) and isn't copied"
        elif state == CORRUPT:
            is_better = _is_json(place.read(join(there, name)))
            fault = f"{name} is corrupt ({why}): the complete one there is kept"
            yield (name, "", fault) if is_better else (name, name, "")
        elif is_over or os.path.basename(name) not in place.names(_folder(there, name)):
            yield name, name, ""
        else:
            yield name, name + BESIDE, f"{name} can't be judged: it is kept beside the one there"


def stamp(path: str) -> list[int]:
    """Return a file's size and time of change, [] where there is none."""
    with suppress(OSError):
        file_stat = os.stat(path)
        return [file_stat.st_size, file_stat.st_mtime_ns]
    return []


def _batches(files: Files) -> Iterator[Files]:
    """Cut files into parts of some gigabytes or some hundred files."""
    batch: Files = {}
    size = 0
    for name, path in files.items():
        batch[name] = path
        size += (stamp(path) or [0])[0]
        if size >= BATCH or len(batch) >= 500:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _folder(there: str, name: str) -> str:
    return join(there, os.path.dirname(name))


def _is_weights(name: str) -> bool:
    return any(name.endswith(end) or end + "." in name for end in WEIGHTS)


def _is_json(text: bytes | None) -> bool:
    try:
        return bool(text) and json.loads(text or b"") is not None
    except ValueError:
        return False
