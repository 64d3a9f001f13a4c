"""Send files into a folder of a box, so that each is there as it is here.

All of them change at once, when all have come. What was sent before and isn't sent any more is
removed there; what else lies in the folder stays. A connection that breaks is tried again, and the
next sending goes on where one broke off.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...boxes.box import Box
from ...text import UserError
from ...text.masking import shown
from . import link
from .wire import Broken, Refused, Sender

Begins = Callable[[int, Callable[[], int]], None]


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
    begins: Begins = lambda total, count: None,
) -> Sent:
    """Bring the files to the box. Raises NotSent.

    What the box has already isn't sent again. `keep`: what was sent before stays there.
    `accept_new` stores a host key that isn't known yet. `begins` gets the bytes in all, and how to
    ask for those that are there.
    """
    sizes = _sizes(parcel)
    sending = _Sending(box, parcel, sizes, begins)
    try:
        return link.resumed(lambda: sending.once(keep, accept_new))
    except link.Lost as lost:
        raise NotSent(_why(box, lost)) from None
    except Refused as error:
        raise NotSent(
            f"sending to {shown(parcel.folder, 100)} on {shown(box.name, 80)} failed "
            f"({shown(error, 300)}); look whether the folder can be written there and has room"
        ) from None


def differences(box: Box, parcel: Parcel) -> list[str]:
    """Return the files that a sending would add, change or remove on the box. Raises NotSent."""
    sizes, differing = _sizes(parcel), []
    try:
        with _opened(box, parcel, sizes, compares=True) as (sender, first):
            for name, path in parcel.paths.items():
                if path.is_symlink():
                    is_same = sender.answer(name).get("link") == os.readlink(path)
                else:
                    with path.open("rb") as file:
                        is_same = sender.is_there(name, file, sizes[name])
                differing += [] if is_same else [name]
            for name, (content, _) in parcel.texts.items():
                if not sender.is_there(name, io.BytesIO(content), len(content)):
                    differing.append(name)
            sender.wire.tell({"end": True}, now=True)
            return sorted({*differing, *map(str, first.get("gone", []))})
    except link.Lost as lost:
        raise NotSent(_why(box, lost)) from None
    except (Refused, OSError) as error:
        raise NotSent(f"{shown(box.name, 80)} couldn't be compared: {shown(error, 300)}") from None


class _Sending:
    """One sending, over as many connections as it needs."""

    def __init__(self, box: Box, parcel: Parcel, sizes: dict[str, int], begins: Begins):
        self.box, self.parcel, self.sizes, self.begins = box, parcel, sizes, begins
        self.has_begun = self.made = False
        self.new: dict[str, int] = {}
        self.sender: Sender | None = None

    def count(self) -> int:
        """Return the bytes that are there."""
        return self.sender.done if self.sender else 0

    def once(self, keep: bool, accept_new: bool) -> Sent:
        """Send what is lacking. Raises Lost, Refused and NotSent."""
        with _opened(self.box, self.parcel, self.sizes, keeps=keep, accept_new=accept_new) as two:
            self.sender, first = two
            if not self.has_begun:
                self.has_begun, self.made = True, first.get("new") is True
                self.begins(sum(self.sizes.values()), self.count)
            try:
                wrong = self._send_all(self.sender, first.get("packs") or ["zlib"])
            finally:
                self.new.update(self.sender.new)
            if wrong:
                names = ", ".join(shown(why, 120) for why in wrong[:5])
                raise NotSent(
                    f"{len(wrong)} files on {shown(self.box.name, 80)} aren't as they are here "
                    f"({names}); send again, and leave the code alone meanwhile"
                )
            self.sender.wire.tell({"end": True}, now=True)
            if self.sender.wire.row().get("done") is not True:
                raise Broken("the connection broke")
        return Sent(len(self.sizes), len(self.new), sum(self.new.values()), self.made)

    def _send_all(self, sender: Sender, packs: list[str]) -> list[str]:
        """Send each file; return why some couldn't be."""
        wrong = []
        for name, path in self.parcel.paths.items():
            if path.is_symlink():
                sender.link(name, os.readlink(path))
            elif why := sender.send(name, path):
                _check_readable(path)
                wrong.append(why)
        return wrong + sender.send_texts(self.parcel.texts, packs)


@contextmanager
def _opened(
    box: Box,
    parcel: Parcel,
    sizes: dict[str, int],
    *,
    compares: bool = False,
    keeps: bool = False,
    accept_new: bool = False,
) -> Iterator[tuple[Sender, dict]]:
    """Begin to send, and yield what the box says first. Raises Lost and Refused."""
    wanted = json.dumps({"folder": parcel.folder, "compares": compares, "keeps": keeps})
    with link.opened(box, "runs.transfer.box_end", ("take", wanted), accept_new=accept_new) as wire:
        wire.tell({"list": list(sizes.items())}, now=True)
        yield Sender(wire, sizes), wire.row()


def _sizes(parcel: Parcel) -> dict[str, int]:
    """Return {name: bytes} of all files of a parcel; links count 0. Raises NotSent."""
    sizes = {}
    for name, path in parcel.paths.items():
        try:
            sizes[name] = 0 if path.is_symlink() else path.stat().st_size
        except OSError as error:
            raise _unreadable(error) from None
    return sizes | {name: len(content) for name, (content, _) in parcel.texts.items()}


def _check_readable(path: Path) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise _unreadable(error) from None


def _unreadable(error: OSError) -> NotSent:
    return NotSent(
        f"{error.filename}: {error.strerror}; make it readable, or take it out of the code"
    )


def _why(box: Box, lost: link.Lost) -> str:
    return link.without_python(box) if link.lacks_python(lost) else lost.trouble.text
