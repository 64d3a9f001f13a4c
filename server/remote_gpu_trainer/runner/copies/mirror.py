"""What is no checkpoint: logs, tables and results, kept at the durable place by their newest state.

A file that is corrupt here never replaces one there, and one that can't be judged replaces weights
only once the program has come to its end: until then it lies beside them.
"""

from __future__ import annotations

import json
import os
import re
from typing import Iterable, Iterator

from .. import content
from ..completeness import COMPLETE, CORRUPT, UNKNOWN, WEIGHTS, judge_file
from .place import Files, Place, join

BESIDE = ".unjudged"
_CORE = re.compile(r"core([.-].*)?$|.*\.core$")


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
            is_torn = f"/{content.QUARANTINE}/" in "/" + rest
            is_half = file.endswith((".tmp", ".partial")) or content.is_leftover(rest)
            if (
                os.path.realpath(file) in taken
                or name.startswith(".rgt-")
                or is_torn
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
        if name.endswith((*WEIGHTS, ".json")):
            state, why = judge_file(files[name])
        if state == COMPLETE or not name.endswith((*WEIGHTS, ".json")):
            yield name, name, ""
        elif state == CORRUPT and name.endswith(WEIGHTS):
            yield name, "", f"{name} is corrupt ({why}) and isn't copied"
        elif state == CORRUPT:
            is_better = _is_json(place.read(join(there, name)))
            told = f"{name} is corrupt ({why}): the complete one there is kept"
            yield (name, "", told) if is_better else (name, name, "")
        elif is_over or os.path.basename(name) not in place.names(_folder(there, name)):
            yield name, name, ""
        else:
            yield name, name + BESIDE, f"{name} can't be judged: it is kept beside the one there"


def stamp(path: str) -> list[int]:
    """Return a file's size and time of change. Raises OSError."""
    told = os.stat(path)
    return [told.st_size, told.st_mtime_ns]


def _folder(there: str, name: str) -> str:
    return join(there, os.path.dirname(name))


def _is_weights(name: str) -> bool:
    return any(name.endswith(end) or end + "." in name for end in WEIGHTS)


def _is_json(text: bytes | None) -> bool:
    try:
        return bool(text) and json.loads(text or b"") is not None
    except ValueError:
        return False
