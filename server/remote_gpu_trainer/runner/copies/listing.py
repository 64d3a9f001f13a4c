"""What is copied of a file or a folder: its files, where links lead, and what stays here."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

# Of the runner itself, and of no use to another box.
OURS = (".rgt-partial", ".rgt-lease", ".rgt-write", ".rgt-place")
_CORE = re.compile(r"core([.-].*)?$|.*\.core$")


class Stamp(NamedTuple):
    """Tells two contents of a file apart, as long as nobody sets times. Bytes, nanoseconds."""

    size: int
    time: int


class Listing(NamedTuple):
    """A folder, or some names in it.

    `files`: {name below the folder: stamp}, links that lead out followed. `links`: {name: target}
    of those that stay links. `leave`: names that aren't copied. `outward`: links that lead out.
    `follow`: 'item' where the one file is a link, 'out' where links lead out, '' where links stay.
    `fault`: a link that can't be copied.
    """

    folder: str
    only: list[str]
    files: dict[str, Stamp]
    links: dict[str, str]
    leave: list[str]
    outward: list[str]
    follow: str
    fault: str

    def at(self, name: str) -> str:
        """Return a file's path here."""
        return os.path.join(self.folder, name)

    def is_unchanged(self, name: str) -> bool:
        """Return whether a file is as it was when it was listed."""
        try:
            return stamp(self.at(name)) == self.files[name]
        except OSError:
            return False


def stamp(path: str) -> Stamp:
    """Return a file's size and time of change. Raises OSError."""
    told = os.stat(path)
    return Stamp(told.st_size, told.st_mtime_ns)


def look(path: str) -> Listing:
    """Return what is to be copied of a file or folder. Raises OSError."""
    if os.path.isdir(path):
        return _folder(path)
    folder, name = os.path.split(path)
    follow = "item" if os.path.islink(path) else ""
    return Listing(folder, [name], {name: stamp(path)}, {}, [], [], follow, "")


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


def _folder(root: str) -> Listing:
    """List a folder. A link that leads out of it is nothing elsewhere: what it leads to counts."""
    found = Listing(root, [], {}, {}, [], [], "", "")
    outward: list[tuple[str, str, tuple[str, ...]]] = []
    fault = _walk(found, "", (os.path.realpath(root),), outward)
    real = [rel for rel, _, _ in outward if os.path.exists(found.at(rel))]
    back = next((line for line in outward if _leads_back(found, *line)), None)
    if back:
        why = f"the link {back[0]} leads back to {back[1]}, which holds it"
        return found._replace(fault=why)
    while outward:
        rel, target, above = outward.pop(0)
        path = found.at(rel)
        if not os.path.exists(path):
            fault = fault or f"the link {rel} leads to nothing: {target}"
        elif not os.path.isdir(path):
            found.files[rel] = stamp(path)
        elif _leads_back(found, rel, target, above):
            fault = fault or f"the link {rel} leads back to {target}, which holds it"
        else:
            fault = _walk(found, rel, (*above, os.path.realpath(path)), outward) or fault
    return found._replace(outward=real, follow="out" if real else "", fault=fault)


def _leads_back(found: Listing, rel: str, _target: str, above: tuple[str, ...]) -> bool:
    """Return whether a link to a folder leads to one in which it lies."""
    path = found.at(rel)
    if not os.path.isdir(path):
        return False
    real = os.path.realpath(path).rstrip("/") + "/"
    where = os.path.realpath(os.path.dirname(path)) + "/"
    return any((folder + "/").startswith(real) for folder in above) or where.startswith(real)


def _walk(
    found: Listing,
    rel: str,
    above: tuple[str, ...],
    outward: list[tuple[str, str, tuple[str, ...]]],
) -> str:
    """Add what lies below a name; return what can't be read."""
    fault, waiting = "", [rel]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(found.at(folder)), key=lambda entry: entry.name)
        except OSError as error:
            fault = fault or f"can't read {folder or found.folder}: {error.strerror}"
            continue
        for entry in entries:
            name = os.path.join(folder, entry.name)
            if entry.name.startswith(OURS):
                found.leave.append(name)
            elif entry.is_symlink():
                _sort_link(found, name, above, outward)
            elif entry.is_dir():
                waiting.append(name)
            elif not entry.is_file():
                continue
            elif is_core_dump(entry.path):
                found.leave.append(name)
            else:
                try:
                    found.files[name] = stamp(entry.path)
                except OSError:
                    continue  # it went away meanwhile, as old checkpoints do
    return fault


def _sort_link(
    found: Listing,
    name: str,
    above: tuple[str, ...],
    outward: list[tuple[str, str, tuple[str, ...]]],
) -> None:
    try:
        target = os.readlink(found.at(name))
    except OSError:
        return
    inside = os.path.normpath(os.path.join("/item", os.path.dirname(name), target))
    if target.startswith("/") or not (inside + "/").startswith("/item/"):
        outward.append((name, target, above))
    else:
        found.links[name] = target
