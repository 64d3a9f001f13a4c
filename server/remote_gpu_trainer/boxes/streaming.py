"""What a box sends while a program runs there: the output of any, and the files of a folder.

A folder is copied here without rsync: the box's own Python sends what is lacking as a tar. A file
that was cut short is sent again from its beginning.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import subprocess
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from ..text import sha256_of

PIECE = 1 << 20  # bytes read at a time
MOST_BEFORE = 1 << 20  # bytes that a login may print before the tar begins
_NO_RSYNC = re.compile(r"rsync: (?:command )?not found|exec: rsync|rsync: No such file")

# Runs on the box: prints a mark, then a tar of each plain file that isn't on standard input's JSON
# list, {path: [bytes, seconds since 1970, SHA-256 or ""]}, with the same size and time or content.
SENDER = r"""
import hashlib, json, os, sys, tarfile
top, mark, left = os.path.expanduser(sys.argv[1]), sys.argv[2], set(sys.argv[3:])
if not os.path.isdir(top):
    sys.exit("no folder " + ascii(top))
have = json.load(sys.stdin)
def content(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()
def same(path, full, told):
    size, when, digest = have.get(path, (-1, 0, ""))
    if size != told.st_size:
        return False
    return content(full) == digest if digest else int(told.st_mtime) == when
def fail(error):
    raise error
out = sys.stdout.buffer
out.write(mark.encode() + b"\n")
with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
    for base, folders, names in os.walk(top, onerror=fail):
        at = os.path.relpath(base, top)
        folders[:] = [n for n in folders if os.path.normpath(os.path.join(at, n)) not in left]
        for name in sorted(names):
            full = os.path.join(base, name)
            path = os.path.normpath(os.path.join(at, name))
            if os.path.islink(full) or not os.path.isfile(full) or path in left:
                continue
            told = os.stat(full)
            if same(path, full, told):
                continue
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.mode = told.st_size, told.st_mtime, 0o600
            with open(full, "rb") as file:
                tar.addfile(member, file)
"""


class Broken(Exception):
    """A copy didn't come to its end. `errors`: what the programs said; `code`: how they ended."""

    def __init__(self, errors: str, code: int | None, late: bool = False):
        super().__init__(errors)
        self.errors, self.code, self.late = errors, code, late


class Stream:
    """A program that runs on a box while its output is read. `out`: what it prints.

    A program that was `given` nothing has an open standard input, which ends when this does: so it
    can tell that nobody reads it any more.
    """

    def __init__(self, process: subprocess.Popen[bytes], mark: str, given: bytes | None):
        assert isinstance(process.stdout, io.BufferedReader)
        assert process.stdin
        self.out, self._stdin = process.stdout, process.stdin
        self.has_begun = False
        self._process, self._mark, self._given = process, mark, given
        self._errors: list[bytes] = []
        self._threads = [threading.Thread(target=self._collect, daemon=True)]
        if given is not None:
            self._threads.append(threading.Thread(target=self._feed, daemon=True))
        for thread in self._threads:
            thread.start()

    def begin(self, limit: float) -> bool:
        """Wait until the program begins, for at most `limit` seconds."""
        timer = threading.Timer(limit, self._process.kill)
        timer.start()
        try:
            self.has_begun = _skip_to(self.out, self._mark.encode())
        finally:
            timer.cancel()
        return self.has_begun

    def end(self) -> tuple[int | None, str]:
        """Return how the program, or ssh, ended, and what was printed on its stderr."""
        if self._given is None:  # else _feed closes it
            with suppress(OSError):
                self._stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait(10)
        self._threads[0].join(2)
        return self._process.returncode, b"".join(self._errors).decode("utf-8", "replace")

    def _feed(self) -> None:
        assert self._given is not None
        with suppress(OSError):
            self._stdin.write(self._given)
            self._stdin.close()

    def _collect(self) -> None:
        assert self._process.stderr
        while piece := self._process.stderr.read1(1 << 16):  # type: ignore[attr-defined]
            if len(self._errors) < 64:
                self._errors.append(piece)


def lacks_rsync(errors: str) -> bool:
    """Whether an rsync here found none at the other end."""
    return bool(_NO_RSYNC.search(errors))


def receive(
    start: Callable[[tuple[str, ...]], subprocess.Popen[bytes]],
    source: str,
    to: Path,
    exclude: tuple[str, ...],
    by_content: bool,
    limit: float,
) -> None:
    """Copy the folder `source` into `to`. Raises Broken and OSError.

    `start` starts a program of these words on the box, with pipes. `exclude`: paths at the top that
    stay there, each with a slash in front.
    """
    mark = secrets.token_hex(12)
    left = tuple(name.removeprefix("/") for name in exclude)
    have = json.dumps(_have(to, by_content)).encode()
    process = start(("python3", "-I", "-c", SENDER, source, mark, *left))
    stream = Stream(process, mark, have)
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit, give_up)
    timer.start()
    try:
        whole = _skip_to(stream.out, mark.encode()) and _unpack(stream.out, to)
    except BaseException:
        process.kill()  # it would wait for a reader
        raise
    finally:
        timer.cancel()
        code, said = stream.end()
    if not whole or code:
        raise Broken(said, code, late.is_set())


def _have(to: Path, by_content: bool) -> dict[str, tuple[int, int, str]]:
    """Return what lies here already: {path: (bytes, seconds since 1970, SHA-256 or '')}."""
    found = {}
    for base, _, names in os.walk(to):
        for name in names:
            path = Path(base) / name
            told = path.lstat()
            if path.is_file() and not path.is_symlink():
                digest = sha256_of(path) if by_content else ""
                found[path.relative_to(to).as_posix()] = (
                    told.st_size,
                    int(told.st_mtime),
                    digest,
                )
    return found


def _skip_to(stream: IO[bytes], mark: bytes) -> bool:
    """Read what a login prints, up to the mark; False where it doesn't come."""
    read = 0
    while read < MOST_BEFORE and (line := stream.readline(1 << 16)):
        read += len(line)
        if line.rstrip(b"\n").endswith(mark):
            return True
    return False


def _unpack(stream: IO[bytes], to: Path) -> bool:
    """Write the files of a tar below `to`; False where it is cut short.

    Raises Broken and OSError.
    """
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isreg() else None
                if data is None:
                    continue
                if leads_out(member.name):
                    name = ascii(member.name)[:100]
                    raise Broken(f"the box sends an unsafe path, {name}", None)
                if any((to / above).is_symlink() for above in PurePosixPath(member.name).parents):
                    name = ascii(member.name)[:100]
                    raise Broken(f"a link in {to} would lead {name} elsewhere", None)
                _put(to / member.name, data, member.mtime)
    except (tarfile.TarError, EOFError):
        return False
    return True


def leads_out(name: str) -> bool:
    """Whether a path of a box, below a folder, could lead out of that folder here."""
    pure = PurePosixPath(name)
    odd = not pure.parts or "\0" in name or ("\\" in name and os.sep == "\\")
    return odd or pure.is_absolute() or ".." in pure.parts


def _put(path: Path, data: IO[bytes], when: float) -> None:
    """Write a file whole or not at all, with its time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}")
    try:
        with new.open("wb") as file:
            while piece := data.read(PIECE):
                file.write(piece)
        os.utime(new, (when, when))
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
