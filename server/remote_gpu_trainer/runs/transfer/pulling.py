"""Copy folders of a box here, each file compared by its SHA-256 as it comes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...boxes.box import Box
from ...text import sha256_of
from ...text.masking import shown, shown_some
from . import link
from .wire import Receiver, Refused, leads_out

HASHING = 3 * 3600  # seconds; a terabyte from a network disk


class Unreleased(Exception):
    """The results can't be brought home. One line: what is wrong; what to do."""


@dataclass
class Pulled:
    """Folders that were copied.

    `files` are those of the box: {path: (bytes, SHA-256)}. `links` are its symbolic links, which
    aren't copied, {path: target}. `differing` are the files that didn't come whole: {path: why}.
    `elsewhere`: what the run's log says was saved and that none of the folders holds, {path there:
    bytes}.
    """

    files: dict[str, tuple[int, str]] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    differing: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)


def pull(
    box: Box,
    places: Mapping[str, tuple[str, tuple[str, ...]]],
    here: Path,
    accepts: Callable[[dict[str, int]], set[str]],
    moves: Callable[[int], None] = lambda count: None,
) -> Pulled:
    """Copy folders, and compare. Raises Unreleased.

    `places`: {their name here, '' for `here` itself: (the folder or file there, what stays at its
    top)}; what goes to `here` itself is a run's folder.
    `accepts` gets what will come, {path: bytes}, before anything is written, and returns the paths
    that may be replaced here.
    `moves` gets the bytes that are here.
    """
    what = f"copying {shown(next(iter(places.values()))[0])}"
    try:
        return link.resumed(lambda: _once(box, places, here, accepts, moves))
    except link.Lost as lost:
        if _is_full(here):
            raise _full(here) from None
        if lost.trouble.why != "program":
            raise Unreleased(lost.trouble.text) from None
        why = link.without_python(box) if link.lacks_python(lost) else lost.trouble.text
        raise Unreleased(_failed(what, why)) from None
    except Refused as error:
        raise Unreleased(_failed(what, str(error))) from None
    except OSError as error:
        if _is_full(here) or error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise _full(here) from None
        raise Unreleased(
            f"can't write to {error.filename or here} ({error.strerror}); give another folder "
            "with --to"
        ) from None


def _once(
    box: Box,
    places: Mapping[str, tuple[str, tuple[str, ...]]],
    here: Path,
    accepts: Callable[[dict[str, int]], set[str]],
    moves: Callable[[int], None],
) -> Pulled:
    """Copy what is lacking over one connection. Raises Lost, Refused, Unreleased and OSError."""
    wanted = json.dumps({"folders": [[name, *about] for name, about in places.items()]})
    with link.opened(box, "runs.transfer.box_end", ("give", wanted)) as wire:
        sizes, pulled = read_list(wire.row())
        own, done = accepts(sizes), 0

        def moved_in(name: str, digest: str, size: int) -> None:
            nonlocal done
            pulled.files[name] = size, digest
            done += size

        def came(row: dict[str, Any]) -> None:
            if row.get("why"):
                pulled.differing[str(row.get("item"))] = str(row["why"])
            moves(done + receiver.coming)

        receiver = Receiver(wire, str(here), own.__contains__, moved_in)
        receiver.take_all(list(sizes.items()), came, lambda: moves(done + receiver.coming))
        return pulled


def read_list(row: dict[str, Any]) -> tuple[dict[str, int], Pulled]:
    """Return what will come of a box's list, {path: bytes}, its links, and what lies elsewhere.

    Raises Unreleased for a list that can't be read, or a path that leads out of the folder.
    """
    try:
        sizes = {str(path): int(size) for path, size in row["list"]}
        links = {str(path): str(target) for path, target in row["links"]}
        elsewhere = {str(path): int(size) for path, size in row["elsewhere"]}
    except (ValueError, TypeError, KeyError, OverflowError):
        raise Unreleased("the box's list of files can't be read; try again") from None
    for path in sizes:
        if leads_out(path):
            raise Unreleased(f"the box lists an unsafe path, {ascii(path)[:100]}; rename it there")
    return sizes, Pulled(links=links, elsewhere=elsewhere)


def refuse_foreign(
    here: Path,
    paths: list[str],
    own: set[str],
    brought: str = "no release brought",
    way_on: str = "move them away",
) -> None:
    """Raise Unreleased where a copy to `here` would write over what isn't its own.

    `paths`: of the files that come. `own`: of those that an earlier copy brought here. `brought`
    and `way_on` are words about others. A link on the way, of a folder too, would lead the copy out
    of `here`.
    """
    links, foreign, seen = [], [], set()
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if above in seen:
                continue
            seen.add(above)
            if (here / above).is_symlink():
                links.append(above)
            elif (here / above).exists() and not (here / above).is_dir():
                foreign.append(above)
        if (here / path).is_symlink():
            links.append(path)
        elif path not in own and os.path.lexists(here / path):
            foreign.append(path)
    where = shown(here, 200)
    named = shown_some(links or foreign, width=100)
    if links:
        raise Unreleased(
            f"{where} holds links that a copy would follow or replace ({named}); remove "
            "them, or give another folder with --to"
        )
    if foreign:
        raise Unreleased(
            f"{where} holds files that {brought} and that would be overwritten "
            f"({named}); {way_on}, or give another folder with --to"
        )


def same(path: Path, size: int, digest: str) -> bool:
    """Return whether a file here has this size and SHA-256."""
    try:
        if path.is_symlink() or path.stat().st_size != size:
            return False
        return sha256_of(path) == digest
    except (OSError, ValueError):
        return False


def _is_full(here: Path) -> bool:
    try:
        return shutil.disk_usage(here).free < 1 << 20
    except OSError:
        return False


def _full(here: Path) -> Unreleased:
    return Unreleased(
        f"the disk under {here} is full; make room there, or pass another folder with --to: what "
        "has been copied stays"
    )


def _failed(what: str, why: str) -> str:
    return (
        f"{what} failed ({shown(why, 300)}); look at the folder there with rgt ssh and try again: "
        "what has been copied stays"
    )
