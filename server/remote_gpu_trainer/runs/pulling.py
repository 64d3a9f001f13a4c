"""Copy a folder of a box here, and compare each file with the box's own by its SHA-256."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..boxes.streaming import leads_out
from ..text import sha256_of
from ..text.masking import shown, shown_lines

HASHING = 3 * 3600  # seconds; a terabyte from a network disk
MOST_LIST = 256 << 20  # bytes of the list of files

MOST_NAMED = 5  # files in a refusal

# Runs on the box: each plain file below a folder with its size and SHA-256, each link's target. The
# first argument is `hash`, or `names` for the names alone, with "" as SHA-256.
LIST = r"""
import hashlib, json, os, sys
is_hashed, top = sys.argv[1] == "hash", os.path.expanduser(sys.argv[2])
left = set(sys.argv[3:])
if not os.path.isdir(top):
    sys.exit("no folder " + ascii(top))
files, links = [], []
def fail(error):
    raise error
for base, folders, names in os.walk(top, onerror=fail):
    at = os.path.relpath(base, top)
    folders[:] = [name for name in folders if os.path.normpath(os.path.join(at, name)) not in left]
    for name in sorted(folders + names):
        full = os.path.join(base, name)
        path = os.path.relpath(full, top)
        if os.path.islink(full):
            links.append([path, os.readlink(full)])
        elif os.path.isfile(full) and path not in left and ".rsync-partial" not in path.split("/"):
            if not is_hashed:
                files.append([path, os.path.getsize(full), ""])
                continue
            digest, size = hashlib.sha256(), 0
            with open(full, "rb") as file:
                for piece in iter(lambda: file.read(1 << 20), b""):
                    digest.update(piece)
                    size += len(piece)
            files.append([path, size, digest.hexdigest()])
print(json.dumps({"files": files, "links": links}))
"""


class Unreleased(Exception):
    """The results can't be brought home. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class Pulled:
    """A folder that was copied.

    `files` are those of the box: {path: (bytes, SHA-256)}. `links` are its symbolic links, which
    aren't copied, {path: target}. `differing` are the files whose copy here isn't the same.
    """

    files: dict[str, tuple[int, str]]
    links: dict[str, str]
    differing: list[str]


def pull(box: Box, folder: str, here: Path, left: tuple[str, ...]) -> Pulled:
    """Copy a folder, and compare. `left`: names at its top that aren't copied. Raises Unreleased.

    A file is copied once more if it changed during the copy, or if its copy differs with the same
    size and time.
    """
    exclude = tuple(f"/{name}" for name in left)
    pulled = Pulled({}, {}, [])
    for by_content in (False, True):
        copied = boxes.pull(box, folder, str(here), exclude=exclude, by_content=by_content)
        if copied.outcome != "ok" or copied.code not in (0, 24):
            if _is_full(here, copied.errors):
                raise Unreleased(
                    f"the disk under {here} is full; make room there, or pass another folder with "
                    "--to: what has been copied stays"
                )
            raise Unreleased(_why(copied, f"copying {shown(folder)}"))
        files, links = _ask(box, folder, left, "hash", f"hashing {shown(folder)}")
        differing = [
            path for path, (size, digest) in files.items() if not same(here / path, size, digest)
        ]
        pulled = Pulled(files, links, differing)
        if not differing:
            break
    return pulled


def sizes(box: Box, folder: str, left: tuple[str, ...]) -> dict[str, int]:
    """Return the files that `pull` would bring, {path: bytes}. Raises Unreleased."""
    files = _ask(box, folder, left, "names", f"listing {shown(folder)}")[0]
    return {path: files[path][0] for path in sorted(files)}


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
    if links:
        raise Unreleased(
            f"{where} holds links that a copy would follow or replace ({_some(links)}); remove "
            "them, or give another folder with --to"
        )
    if foreign:
        raise Unreleased(
            f"{where} holds files that {brought} and that would be overwritten "
            f"({_some(foreign)}); {way_on}, or give another folder with --to"
        )


def _some(paths: list[str]) -> str:
    listed = ", ".join(shown(path, 100) for path in paths[:MOST_NAMED])
    return listed + (f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else "")


def _ask(
    box: Box, folder: str, left: tuple[str, ...], how: str, what: str
) -> tuple[dict[str, tuple[int, str]], dict[str, str]]:
    """Return the box's list of a folder, as `read_list` has it. Raises Unreleased."""
    words = (how, folder, *left)
    reply = boxes.run(
        box, LIST, interpreter=boxes.PYTHON, args=words, limit=HASHING, most=MOST_LIST
    )
    if reply.outcome != "ok" or reply.code != 0 or reply.cut:
        raise Unreleased(_why(reply, what))
    return read_list(reply.out)


def read_list(data: bytes) -> tuple[dict[str, tuple[int, str]], dict[str, str]]:
    """Return the files, {path: (bytes, SHA-256)}, and the links, {path: target}, of the box's list.

    Raises Unreleased for a list that can't be read, or a path that leads out of the folder.
    """
    try:
        answer = json.loads(data)
        files = {str(path): (int(size), str(digest)) for path, size, digest in answer["files"]}
        links = {str(path): str(target) for path, target in answer["links"]}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise Unreleased("the box's list of files can't be read; try again") from None
    for path in files:
        if leads_out(path):
            raise Unreleased(f"the box lists an unsafe path, {ascii(path)[:100]}; rename it there")
    return files, links


def same(path: Path, size: int, digest: str) -> bool:
    """Return whether a file here has this size and SHA-256."""
    try:
        if path.is_symlink() or path.stat().st_size != size:
            return False
        return sha256_of(path) == digest
    except (OSError, ValueError):
        return False


def _is_full(here: Path, errors: str) -> bool:
    """Return whether a copy failed for want of room here, which ssh then tells as a broken pipe."""
    if "No space left on device" in errors or "Disk quota exceeded" in errors:
        return True
    try:
        return shutil.disk_usage(here).free < 1 << 20
    except OSError:
        return False


def _why(reply: Reply, what: str) -> str:
    if reply.outcome != "ok":
        return reply.text
    otherwise = "the list is too long" if reply.cut else "no message"
    last = next(iter(shown_lines(reply.errors, 1, 200)), otherwise)
    return (
        f"{what} ended with {reply.code} ({last}); look at the folder there with rgt ssh and try "
        "again: what has been copied stays"
    )
