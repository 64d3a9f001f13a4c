"""Fetch files of a run that lives, complete and compared, into a folder here."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box, Stream
from ..boxes.streaming import leads_out
from ..text import UserError, sha256_of, write_whole
from ..text.masking import shown
from . import calling, run_script
from .pulling import Unreleased, refuse_foreign
from .run_log import read_head
from .status_reply import Parts

SETTLING = 60.0  # seconds that a checkpoint may take until it lies still
MANIFEST = ".rgt-pulled.json"  # in the folder here: what was pulled into it, with its SHA-256
FOREIGN = "no pull brought, or that were changed since,", "replace them with --force"
MOST_LINE = 64 << 20  # bytes of the list of files
PARTS = ("", "runner", "runner.completeness", "runner.content")  # what the box's program needs


class NotPulled(UserError):
    """Files can't be fetched. One line: what is wrong; what to do."""


@dataclass
class Fetched:
    """What came. `files`: {name below `to`: bytes}. `states`: {what was named: complete, unknown
    where its format proves nothing, or '' for no checkpoint}. `failed`: {what was named: why it
    didn't come}. `missing`: {what was named: why nothing is sent for it}."""

    to: Path
    files: dict[str, int] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@cache
def program() -> bytes:
    """Return what runs on the box."""
    return run_script.program("runs.file_sender", PARTS).encode()


def fetch(
    box: Box,
    run: str,
    names: tuple[str, ...],
    to: Callable[[str], Path],
    *,
    force: bool = False,
    accept_new: bool = False,
    begins: Callable[[int], None] = lambda _: None,
    moves: Callable[[int], None] = lambda _: None,
) -> Fetched:
    """Fetch what the names stand for. Raises NotPulled.

    `to`: gives the folder here for the run's folder there. `force`: replace files here that weren't
    pulled. `begins` and `moves` get the bytes in all, and those that have come.
    """
    python = (shutil.which("python3") or sys.executable) if box.local else "python3"
    wanted = json.dumps({"names": names, "seconds": SETTLING})
    words = ("bash", "-c", calling.PROGRAM, "rgt", run, python, "-I", "-", wanted)
    try:
        with boxes.stream(box, words, program(), accept_new=accept_new) as stream:
            parts = read_head(stream)
            if parts.body is None and (parts.folder or not run):
                raise NotPulled(parts.without_run(shown(box.name, 80), run))
            return _Fetching(box, parts, stream, force, moves).all(to, begins)
    except boxes.NotStarted as error:
        raise NotPulled(str(error)) from None
    except Unreleased as error:
        raise NotPulled(str(error)) from None
    except OSError as error:
        raise NotPulled(
            f"can't write {shown(error.filename or 'here', 200)} ({error.strerror}); make room, or "
            "give another folder with --to"
        ) from None


def own_folder() -> Path:
    """Return the folder `pulled` here, which git is told to ignore. Raises OSError."""
    folder = Path("pulled")
    if not folder.exists():
        folder.mkdir()
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder


class _Fetching:
    """What one connection brings."""

    def __init__(
        self, box: Box, parts: Parts, stream: Stream, force: bool, moves: Callable[[int], None]
    ):
        self.box, self.parts, self.stream, self.force, self.moves = box, parts, stream, force, moves
        self.done = 0

    def all(self, to: Callable[[str], Path], begins: Callable[[int], None]) -> Fetched:
        """Fetch all items. Raises NotPulled, Unreleased and OSError."""
        told = self._line()
        try:
            sizes = {str(name): int(size) for name, size in told["files"]}
            wrong = {shown(name, 300): shown(why, 300) for name, why in told["wrong"]}
        except (KeyError, TypeError, ValueError):
            raise self._broken() from None
        if wrong and not sizes:
            raise NotPulled("\n".join(list(wrong.values())[:5]))
        for name in sizes:
            if leads_out(name):
                raise NotPulled(
                    f"the box lists an unsafe path, {ascii(name)[:100]}; rename it there"
                )
        given = to(self.parts.folder)
        given.mkdir(parents=True, exist_ok=True)
        fetched = Fetched(given, missing=wrong)
        here = Path(os.path.realpath(given))  # the user's own link to a folder
        own = _own_files(here)
        mine = set(sizes) if self.force else self._unchanged(here, own)
        refuse_foreign(here, list(sizes), mine, *FOREIGN)
        begins(sum(sizes.values()))
        with tempfile.TemporaryDirectory(prefix=".rgt-pull-", dir=here) as staged:
            self._take(fetched, here, Path(staged), set(sizes), own)
        return fetched

    def _unchanged(self, here: Path, own: dict[str, str]) -> set[str]:
        """Return the names that an earlier pull brought and that nobody has changed since."""
        found = set()
        for name, digest in own.items():
            with suppress(OSError, ValueError):
                if sha256_of(here / name) == digest:
                    found.add(name)
        return found

    def _take(
        self, fetched: Fetched, here: Path, staged: Path, listed: set[str], own: dict[str, str]
    ) -> None:
        """Take the files of one item after the other, and put them in place once all are there."""
        came: dict[str, tuple[Path, str]] = {}
        while not (told := self._line()).get("end"):
            if "file" in told:
                name = str(told["file"])
                if name not in listed and leads_out(name):
                    raise self._broken()
                path = staged / str(len(came))
                digest = self._file(path, told)
                came.pop(name, None)
                if digest:
                    came[name] = path, digest
                continue
            item, why = shown(told.get("item", ""), 300), shown(told.get("why", ""), 300)
            if why:
                fetched.failed[item] = why
            else:
                fetched.states[item] = str(told.get("state", ""))
                # A folder may have got files since it was listed.
                if new := set(came) - listed:
                    refuse_foreign(here, sorted(new), new if self.force else set(own), *FOREIGN)
                for name, (path, digest) in came.items():
                    fetched.files[name] = path.stat().st_size
                    _put(path, here / name)
                    own[name] = digest
                write_whole(here / MANIFEST, json.dumps(own, indent=1).encode(), 0o644)
            came = {}

    def _file(self, path: Path, told: dict[str, Any]) -> str:
        """Write one file; return its SHA-256, '' where it changed while the box read it."""
        with path.open("wb") as file:
            while size := self._size():
                while size:
                    data = self.stream.out.read1(min(size, 1 << 20))
                    if not data:
                        raise self._broken()
                    file.write(data)
                    size -= len(data)
                    self.done += len(data)
                    self.moves(self.done)
        end = self._line()
        digest = str(end.get("sha256") or "")
        if not digest:
            return ""
        if sha256_of(path) != digest:
            raise NotPulled(
                f"{shown(told['file'], 200)} isn't the same here as on the box; try again, and "
                "check the disk here"
            )
        when = told.get("time")
        if isinstance(when, (int, float)):
            with suppress(OSError, OverflowError, ValueError):
                os.utime(path, (when, when))
        return digest

    def _size(self) -> int:
        line = self.stream.out.readline(32)
        if not line.endswith(b"\n") or not line.strip().isdigit():
            raise self._broken()
        return int(line)

    def _line(self) -> dict[str, Any]:
        try:
            found = json.loads(self.stream.out.readline(MOST_LINE))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._broken()
        return found

    def _broken(self) -> NotPulled:
        return NotPulled(
            f"{boxes.trouble_of(self.box, self.stream).text}; what is in place here is whole"
        )


def _put(staged: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(staged, path)


def _own_files(here: Path) -> dict[str, str]:
    """Return what earlier pulls brought into a folder: {name: SHA-256}."""
    try:
        found = json.loads((here / MANIFEST).read_text(encoding="utf-8"))
        return {str(name): str(digest) for name, digest in found.items() if not leads_out(name)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
