"""Fetch files of a run that lives, complete and compared, into a folder here."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...boxes.box import Box, Stream
from ...text import UserError, sha256_of, write_whole
from ...text.masking import shown
from .. import calling
from ..run_log import read_head
from ..status_reply import Parts
from . import link
from .pulling import Unreleased, refuse_foreign
from .wire import Broken, Receiver, Refused, Wire, leads_out

SETTLING = 60.0  # seconds that a checkpoint may take until it lies still
MANIFEST = ".rgt-pulled.json"  # in the folder here: what was pulled into it, with its SHA-256
GOES_ON = "what is in place here is whole, and the same command goes on with the rest"
FOREIGN = "no pull brought, or that were changed since,", "replace them with --force"


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
    fetching = _Fetching(box, run, names, to, force, begins, moves)
    try:
        return link.resumed(lambda: fetching.once(accept_new))
    except link.Lost as lost:
        raise NotPulled(f"{lost.trouble.text}; {GOES_ON}") from None
    except (Unreleased, Refused) as error:
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
    """One pull, over as many connections as it needs."""

    def __init__(
        self,
        box: Box,
        run: str,
        names: tuple[str, ...],
        to: Callable[[str], Path],
        force: bool,
        begins: Callable[[int], None],
        moves: Callable[[int], None],
    ):
        self.box, self.run, self.names, self.to, self.force = box, run, names, to, force
        self.begins, self.moves = begins, moves
        self.fetched: Fetched | None = None
        self.done = 0

    def once(self, accept_new: bool) -> Fetched:
        """Fetch what is lacking. Raises NotPulled, Lost, Refused, Unreleased and OSError."""
        wanted = json.dumps({"names": self.names, "seconds": SETTLING})
        finds = ("bash", "-c", calling.PROGRAM, "rgt", self.run)
        folder = ""

        def head(stream: Stream) -> None:
            nonlocal folder
            parts: Parts = read_head(stream)
            if parts.body is None and (parts.folder or not self.run):
                raise NotPulled(parts.without_run(shown(self.box.name, 80), self.run))
            folder = parts.folder

        with link.opened(
            self.box,
            "runs.transfer.run_files",
            (wanted,),
            finds=finds,
            head=head,
            accept_new=accept_new,
        ) as wire:
            sizes, wrong = self._list(wire)
            given = self.to(folder)
            given.mkdir(parents=True, exist_ok=True)
            fetched = self.fetched = self.fetched or Fetched(given)
            fetched.missing = wrong
            here = given.resolve()  # the user's own link to a folder
            own = _own_files(here)
            mine = set(sizes) if self.force else _unchanged(here, own)
            refuse_foreign(here, list(sizes), mine, *FOREIGN)
            self.begins(sum(sizes.values()))
            self._take_files(wire, fetched, here, sizes, own, mine)
        return fetched

    def _list(self, wire: Wire) -> tuple[dict[str, int], dict[str, str]]:
        """Return what will come, {name: bytes}, and why other names won't. Raises NotPulled."""
        listing = wire.row()
        try:
            sizes = {str(name): int(size) for name, size in listing["list"]}
            wrong = {shown(name, 300): shown(why, 300) for name, why in listing["wrong"]}
        except (KeyError, TypeError, ValueError):
            raise Broken("the connection broke") from None
        if wrong and not sizes:
            raise NotPulled("\n".join(list(wrong.values())[:5]))
        for name in sizes:
            if leads_out(name):
                raise NotPulled(
                    f"the box lists an unsafe path, {ascii(name)[:100]}; rename it there"
                )
        return sizes, wrong

    def _take_files(
        self,
        wire: Wire,
        fetched: Fetched,
        here: Path,
        sizes: dict[str, int],
        own: dict[str, str],
        mine: set[str],
    ) -> None:
        """Take the files of one item after the other, and put them in place once all are there."""
        done = 0

        def moved_in(name: str, digest: str, size: int) -> None:
            nonlocal done
            fetched.files[name], own[name] = size, digest
            done += size

        def may_replace(name: str) -> bool:
            return self.force or name in mine

        def came(row: dict[str, Any]) -> None:
            item, why = shown(row.get("item", ""), 300), shown(row.get("why") or "", 300)
            if why:
                fetched.failed[item] = why
            else:
                fetched.failed.pop(item, None)
                fetched.states[item] = str(row.get("state", ""))
                note_own()

        def note_own() -> None:
            write_whole(here / MANIFEST, json.dumps(own, indent=1).encode(), 0o644)

        receiver = Receiver(wire, str(here), may_replace, moved_in)
        try:
            receiver.take_all(sizes.items(), came, lambda: self.moves(done + receiver.coming))
        except BaseException:
            if done:
                note_own()
            raise


def _unchanged(here: Path, own: dict[str, str]) -> set[str]:
    """Return the names that an earlier pull brought and that nobody has changed since."""
    found = set()
    for name, digest in own.items():
        with suppress(OSError, ValueError):
            if sha256_of(here / name) == digest:
                found.add(name)
    return found


def _own_files(here: Path) -> dict[str, str]:
    """Return what earlier pulls brought into a folder: {name: SHA-256}."""
    try:
        found = json.loads((here / MANIFEST).read_text(encoding="utf-8"))
        return {str(name): str(digest) for name, digest in found.items() if not leads_out(name)}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
