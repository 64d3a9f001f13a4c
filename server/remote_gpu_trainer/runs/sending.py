"""Send files to a box, and compare each one there with the one here by its SHA-256.

Files are written whole under their names; what a sending that broke off left half-written is
removed by the next one. What was sent before and isn't sent any more is removed
there; what else lies in the folder stays. It takes `tar` at neither end, nor rsync: the box's own
Python unpacks what arrives.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..boxes import box as boxes
from ..boxes.box import Box, Reply
from ..text import UserError, sha256_of
from ..text.masking import shown, shown_lines

COMPARING = 600.0  # seconds to hash what is there already
SENDING = 6 * 3600.0  # seconds for all files
MOST_REPLY = 64 << 20  # bytes of the box's list
_NO_PYTHON = re.compile(
    r"python3['’]?: ?(?:command )?(?:not found|No such file|Permission denied|cannot execute)"
)

# Runs on the box. First argument: a folder. With `compare` it prints which of the files in the
# JSON on standard input it lacks; otherwise it unpacks a tar from there, whose first member is
# that JSON, and prints which of the files still differ. With `unpack` what was sent before and
# isn't in the JSON is removed, with `add` it stays. It also says whether the folder is new, and
# which files were sent before and aren't in the JSON.
RECEIVER = r"""
import hashlib, json, os, sys, tarfile
top, verb = os.path.expanduser(sys.argv[1]), sys.argv[2]
SENT, GOING = os.path.join(top, "sent.json"), os.path.join(top, "sending.json")
UNDER_WAY = ".rgt-new"
NEW = not os.path.lexists(top)
def same(path, about):
    try:
        if os.path.islink(path) or "link" in about:
            return os.readlink(path) == about.get("link")
        if os.path.getsize(path) != about["bytes"]:
            return False
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
        return digest.hexdigest() == about["sha256"]
    except OSError:
        return False
def tell(files):
    lacking = [name for name in sorted(files) if not same(os.path.join(top, name), files[name])]
    gone = sorted(set(names_in(SENT)) - set(files))
    print(json.dumps({"new": NEW, "lacking": lacking, "gone": gone}))
def names_in(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [name for name in json.load(file) if isinstance(name, str)]
    except (OSError, ValueError):
        return []
def drop(name):
    path = os.path.join(top, name)
    try:
        os.unlink(path)
        while os.path.dirname(path) != top:
            path = os.path.dirname(path)
            os.rmdir(path)
    except OSError:
        pass
def write(text, path):
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(path + ".new", path)
def put(member, data):
    path = os.path.join(top, member.name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = path + UNDER_WAY
    if os.path.lexists(new):
        os.unlink(new)
    if member.issym():
        os.symlink(member.linkname, new)
    else:
        with open(new, "wb") as file:
            for piece in iter(lambda: data.read(1 << 20), b""):
                file.write(piece)
        os.chmod(new, member.mode)
    if os.path.isdir(path) and not os.path.islink(path):
        os.rmdir(path)
    os.replace(new, path)
if verb == "compare":
    tell(json.load(sys.stdin))
    sys.exit()
os.makedirs(top, exist_ok=True)
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz") as packed:
    members = iter(packed)
    files = json.loads(packed.extractfile(next(members)).read().decode("utf-8"))
    for name in names_in(GOING):  # of a sending that broke off
        if name + UNDER_WAY not in files:
            drop(name + UNDER_WAY)
    write(json.dumps(sorted(files)), GOING)
    before = set(names_in(SENT)) - set(files)
    if verb == "unpack":
        for name in before:
            drop(name)
        before = set()
    for member in members:
        put(member, packed.extractfile(member) if member.isreg() else None)
write(json.dumps(sorted(before.union(files))), SENT)
os.unlink(GOING)
tell(files)
"""


class NotSent(UserError):
    """Files didn't arrive whole. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class Sent:
    """What a box has now: `files` in all, of which `new` were sent, of `bytes` bytes.

    `made`: the folder wasn't there before.
    """

    files: int
    new: int
    bytes: int
    made: bool


@dataclass(frozen=True)
class Parcel:
    """Files for one folder of a box.

    `paths`: {path there, below the folder: file here}; `texts`: {path there: (content, mode)}.
    """

    folder: str
    paths: Mapping[str, Path]
    texts: Mapping[str, tuple[bytes, int]]


def send(
    box: Box,
    parcel: Parcel,
    *,
    keep: bool = False,
    accept_new: bool = False,
    begins: Callable[[int, Callable[[], int]], None] = lambda total, count: None,
) -> Sent:
    """Bring the files to the box. Raises NotSent.

    What the box has already isn't sent again. `keep`: what was sent before stays there.
    `accept_new` stores a host key that isn't known yet. `begins` gets the bytes that go over the
    connection, and how to ask for those that have gone.
    """
    files = _about_all(parcel)
    manifest = json.dumps(files)
    lacking = _ask(box, parcel.folder, "compare", manifest.encode(), COMPARING, accept_new).lacking
    with tempfile.TemporaryFile() as packed:
        _pack(packed, parcel, manifest, set(lacking))
        length = packed.tell()
        packed.seek(0)
        begins(length, lambda: _read_of(packed, length))
        verb = "add" if keep else "unpack"
        after = _ask(box, parcel.folder, verb, packed, SENDING, accept_new)
    made, differing = after.is_new, after.lacking
    if differing:
        names = ", ".join(shown(name, 80) for name in differing[:5])
        raise NotSent(
            f"{len(differing)} files on {shown(box.name, 80)} aren't as they are here ({names}); "
            "send again, and leave the code alone meanwhile"
        )
    size = sum(files[name].get("bytes", 0) for name in lacking)
    return Sent(len(files), len(lacking), size, made)


def differences(box: Box, parcel: Parcel) -> list[str]:
    """Return the files that a sending would add, change or remove on the box. Raises NotSent."""
    given = json.dumps(_about_all(parcel)).encode()
    answer = _ask(box, parcel.folder, "compare", given, COMPARING, False)
    return sorted({*answer.lacking, *answer.gone})


def _about_all(parcel: Parcel) -> dict[str, dict[str, Any]]:
    """Return what is told of each file of a parcel. Raises NotSent."""
    try:
        files = {name: _about(path) for name, path in parcel.paths.items()}
    except OSError as error:
        raise NotSent(
            f"{error.filename}: {error.strerror}; make it readable, or take it out of the code"
        ) from None
    return files | {name: _about_text(content) for name, (content, _) in parcel.texts.items()}


def _about(path: Path) -> dict[str, Any]:
    if path.is_symlink():
        return {"link": os.readlink(path)}
    return {"bytes": path.stat().st_size, "sha256": sha256_of(path)}


def _about_text(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _pack(packed: IO[bytes], parcel: Parcel, manifest: str, wanted: set[str]) -> None:
    """Write the tar: the list of all files, then those that are wanted. Raises NotSent."""
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as tar:
        _add(tar, "manifest", manifest.encode(), 0o600)
        for name, path in parcel.paths.items():
            if name not in wanted:
                continue
            try:
                told = tar.gettarinfo(str(path), name)
                if told.islnk():  # a second name of a file; each is sent as one of its own
                    told.type = tarfile.REGTYPE
                    told.size = path.stat().st_size
                if told.isreg():
                    with path.open("rb") as file:
                        tar.addfile(told, file)
                else:
                    tar.addfile(told)
            except OSError as error:
                raise NotSent(
                    f"{path}: {error.strerror or error}; send again once nothing changes the code"
                ) from None
        for name, (content, mode) in parcel.texts.items():
            if name in wanted:
                _add(tar, name, content, mode)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    told = tarfile.TarInfo(name)
    told.size, told.mode = len(content), mode
    tar.addfile(told, io.BytesIO(content))


def _read_of(packed: IO[bytes], length: int) -> int:
    """Return how much of a file is read by another process, which shares its position."""
    try:
        return os.lseek(packed.fileno(), 0, os.SEEK_CUR)
    except (OSError, ValueError):  # it is closed
        return length


class _Answer(NamedTuple):
    """Whether the folder is new, the names that the box lacks, and those that were sent before and
    aren't among the files any more."""

    is_new: bool
    lacking: list[str]
    gone: list[str]


def _ask(
    box: Box, folder: str, verb: str, given: bytes | IO[bytes], limit: float, accept_new: bool
) -> _Answer:
    """Let the receiver work, and return what it says. Raises NotSent."""
    reply = boxes.run(
        box,
        given,
        interpreter=("python3", "-I", "-c", RECEIVER),
        args=(folder, verb),
        limit=limit,
        most=MOST_REPLY,
        accept_new=accept_new,
    )
    if reply.outcome != "ok" or reply.code or reply.cut:
        raise NotSent(_why(box, folder, reply))
    try:
        answer = json.loads(reply.out)
        is_new, lacking, gone = answer["new"], answer["lacking"], answer["gone"]
        whole = all(isinstance(name, str) for name in [*lacking, *gone])
    except (ValueError, TypeError, KeyError):
        whole = False
    if not whole:
        raise NotSent(f"the answer of {shown(box.name, 80)} can't be read; try again")
    return _Answer(is_new is True, lacking, gone)


def without_python(box: Box) -> str:
    """Return what is told of a box that nothing can be sent to."""
    return f"no python3 on {shown(box.name, 80)}; install Python 3.8 or newer there"


def _why(box: Box, folder: str, reply: Reply) -> str:
    if reply.outcome != "ok":
        return reply.text
    name = shown(box.name, 80)
    if reply.code in (126, 127) or _NO_PYTHON.search(reply.errors):
        return without_python(box)
    last = next(reversed(shown_lines(reply.errors, 1, 200)), "no message")
    return (
        f"sending to {shown(folder, 100)} on {name} failed ({last}); look whether the folder can "
        "be written there and has room"
    )
