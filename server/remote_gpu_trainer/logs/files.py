"""Read a text, a stream or a file as rows, and refuse what is no log. Standard library, Python 3.8.

Logs are UTF-8, or UTF-16 with a byte order mark; either may be compressed by gzip. Everything is
read in blocks.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain

from ..numbers.rows import Row
from ..text import UserError
from .windows import BLOCK, keep, shapes

HEAD = 1 << 16  # first bytes, which tell whether a file is a log
SLICE = 1 << 14  # bytes that are unpacked at a time
ENOUGH = 1 << 16  # bytes of a block, where many small ones come
MOST_UNPACKED = 1 << 30  # bytes that a compressed log may hold
LONGEST = 8 << 20  # bytes of a line; a file of one longer line is no log

KEY_NAME = re.compile(
    r"^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$|\.(?:pem|key|p12|pfx|kdbx|ppk)$"
    r"|^\.(?:env|netrc|pgpass|git-credentials)|^(?:credentials|token|authorized_keys)$",
    re.I,
)
_GZIP = b"\x1f\x8b"
_PACKED = (
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", "zstd -d"),
    (b"\xfd7zXZ\x00", "a file compressed by xz", "xz -d"),
    (b"BZh9", "a file compressed by bzip2", "bzip2 -d"),
    (b"PK\x03\x04", "a zip archive", "unzip"),
)
# Bytes that no program sends to a terminal with text: all controls but bell, backspace, tab, line
# ends, form feed, shifts and escape.
_CONTROLS = bytes({*range(32), 127} - {7, 8, 9, 10, 12, 13, 14, 15, 27})


class Unreadable(UserError):
    """The input can't be read as a log. The text says why, and what to do."""


class NoLog(Unreadable):
    """The input holds no log at all: it is blank, binary or a key."""


@dataclass(frozen=True)
class ReadOptions:
    """How a log is read, whatever it is.

    `needles` are texts to look for: of a large log the rows around them are kept. `progress` is
    called with the number of bytes read so far, for each block. `seconds` bounds the reading of a
    folder, or of a log on another machine; None for no bound. `good` are the shapes of rows of a
    run that went well (see `shapes_of`): rows of these shapes don't count. `run` says which of
    several runs in a file counts: its number from 1, 0 for all of them, None for the last.
    """

    needles: tuple[bytes, ...] = ()
    progress: Callable[[int], None] | None = None
    seconds: float | None = None
    good: frozenset[bytes] = frozenset()
    run: int | None = None


DEFAULTS = ReadOptions()


def of_text(text: str, source: str = "text", options: ReadOptions = DEFAULTS) -> list[Row]:
    """Return the rows of a pasted report; `source` names it in errors.

    Raises Unreadable when it is blank or binary.
    """
    data = text.encode("utf-8", "replace")
    _refuse_binary(data[:HEAD], source)
    if not text.strip():
        raise NoLog(
            f"nothing but blanks in {source}; pass an error, a log or a sentence about what happens"
        )
    return keep(_blocks([data]), len(data), options.needles)


def of_stream(
    stream,
    source: str = "stdin",
    options: ReadOptions = DEFAULTS,
    *,
    size: int | None = None,
    most: int | None = None,
) -> list[Row]:
    """Return the rows of a binary stream; `source` names it in errors. Raises Unreadable.

    `size` is its length in bytes where that is known. `most` is as in `windows.keep`.
    """
    head, pieces = _begun(_read(stream, options.progress))
    if head[:2] == _GZIP:
        size = None
        head, pieces = _begun(_unpacked(pieces, source))
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        size = None
        head, pieces = _begun(_as_utf8(pieces))
    elif head.count(0) * 100 > len(head):
        _refuse_packed(head, source)
        _refuse_controls(head.replace(b"\0", b""), source, most=0)
        size = None
        head, pieces = _begun(_without_nuls(pieces))
    _refuse_binary(head[:HEAD], source)
    kept = keep(_blocks(pieces, source), size, options.needles, most)
    if not any(row.strip() for _, row in kept):
        raise NoLog(
            f"nothing but blanks in {source}; pass an error, a log or a sentence about what happens"
        )
    return kept


def shapes_of(path: str) -> frozenset[bytes]:
    """Return the shapes of the rows of a log, or of all logs in a folder. Raises Unreadable.

    Of a large log these are the shapes that `of_file` keeps.
    """
    if not os.path.isdir(path):
        return shapes(of_file(path))
    of_rows: set[bytes] = set()
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(Unreadable):
                of_rows |= shapes(of_file(os.path.join(folder, name)))
    if not of_rows:
        raise Unreadable(f"no log in the folder {path}; pass the log of a run that went well")
    return frozenset(of_rows)


def of_file(path: str, options: ReadOptions = DEFAULTS, *, most: int | None = None) -> list[Row]:
    """Return the rows of a regular file. `most` is as in `windows.keep`.

    Raises Unreadable, and never opens a device, a socket or a file that looks like a key.
    """
    with _open(path) as stream:
        return of_stream(stream, path, options, size=os.path.getsize(path), most=most)


def of_parts(
    paths: list[str], source: str, options: ReadOptions = DEFAULTS, *, most: int | None = None
) -> list[Row]:
    """Return the rows of one log that lies in several files, as `of_file` does."""
    with ExitStack() as opened:
        stream = _InTurn([opened.enter_context(_open(path)) for path in paths])
        size = sum(os.path.getsize(path) for path in paths)
        return of_stream(stream, source, options, size=size, most=most)


class _InTurn:
    """Files that are read one after another as one."""

    def __init__(self, files: list):
        self._files = files

    def read(self, most: int) -> bytes:
        while self._files:
            block = self._files[0].read(most)
            if block:
                return block
            self._files.pop(0)
        return b""


def _open(path: str):
    name = os.path.basename(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
            kind = "is a device" if is_device else "isn't a regular file"
            raise Unreadable(f"{path} {kind}; pass a log file or a folder of logs")
        real = os.path.realpath(path)
        if (
            KEY_NAME.search(name)
            or KEY_NAME.search(os.path.basename(real))
            or f"{os.sep}.ssh{os.sep}" in real
        ):
            raise NoLog(f"{name} looks like a key or a secret and was not opened; pass a log file")
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise Unreadable(f"no log at {path}; pass a log file or a folder of logs") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unreadable(
            f"{path} can't be read ({reason}); pass a log that this user may read"
        ) from None


def _read(stream, progress: Callable[[int], None] | None) -> Iterator[bytes]:
    count = 0
    while True:
        try:
            block = stream.read(BLOCK)
        except OSError as error:  # a dying disk, a mount that is gone
            raise Unreadable(
                f"a read error after {count} bytes ({error.strerror}); pass a log that can be "
                "read to its end"
            ) from None
        if not block:
            return
        count += len(block)
        if progress:
            progress(count)
        yield block


def _begun(pieces: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first HEAD bytes or more, however small the pieces are, and all pieces."""
    begun, size = [], 0
    for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size >= HEAD:
            break
    head = b"".join(begun)
    return head, chain([head] if head else [], pieces)


def _unpacked(pieces: Iterable[bytes], source: str) -> Iterator[bytes]:
    """Unpack gzip in blocks. A log that is still written, or cut, ends where it is cut."""
    inner, count = zlib.decompressobj(31), 0
    ready: list[bytes] = []  # of small members, until there is enough of them
    size = 0
    try:
        for piece in _slices(pieces):
            while piece:
                block = inner.decompress(piece, BLOCK)
                count += len(block)
                if count > MOST_UNPACKED:
                    raise Unreadable(
                        f"more than {MOST_UNPACKED >> 20} MB compressed in {source}; run "
                        "gzip -dc FILE | tail -c 200M > end.log, and pass that"
                    )
                ready.append(block)
                size += len(block)
                if size >= ENOUGH:
                    yield b"".join(ready)
                    ready, size = [], 0
                piece = inner.unconsumed_tail
                if inner.eof:
                    # Several logs may have been put together.
                    piece = inner.unused_data.lstrip(b"\x00")
                    inner = zlib.decompressobj(31)
    except zlib.error as error:
        if not count:
            raise Unreadable(
                f"{source} is a damaged gzip file ({error}); unpack it and pass the log"
            ) from None
    if size:
        yield b"".join(ready)


def _slices(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Cut pieces small: behind each member of a compressed file the rest of a piece is copied."""
    for piece in pieces:
        for start in range(0, len(piece), SLICE):
            yield piece[start : start + SLICE]


def _as_utf8(pieces: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


def _without_nuls(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Drop the NULs of a text that has holes, or parts in UTF-16 without a byte order mark.

    A file that was emptied while a program wrote to it has such holes, and Windows' PowerShell
    appends UTF-16 to any file. What is no text is refused afterwards.
    """
    for piece in pieces:
        rest = piece.translate(None, b"\0")
        if rest:
            yield rest


def _refuse_binary(head: bytes, source: str) -> None:
    _refuse_packed(head, source)
    if head.count(0) * 100 > len(head):
        raise NoLog(f"NUL bytes in {source} (a binary file?); pass UTF-8 text")
    if len(head) > 64:
        _refuse_controls(head, source, most=len(head) // 20)  # of random bytes it is every tenth
    if _is_no_text(head):
        raise NoLog(f"{source} is no text (a binary file?); pass a log")
    if head.lstrip()[:11] == b"-----BEGIN " and b"PRIVATE KEY" in head[:80]:
        raise NoLog(f"a private key in {source}, which was not read further; pass a log")


def _refuse_packed(head: bytes, source: str) -> None:
    for magic, kind, program in _PACKED:
        if head.startswith(magic):
            raise Unreadable(f"{source} is {kind}; unpack it ({program}) and pass the log")


def _refuse_controls(head: bytes, source: str, most: int) -> None:
    if len(head) - len(head.translate(None, _CONTROLS)) > most:
        raise NoLog(f"control characters in {source} (a binary file?); pass UTF-8 text")


def _is_no_text(head: bytes) -> bool:
    """Whether a large part of some bytes is in no encoding in which logs are written."""
    bad = len(head.decode("utf-8", "ignore").encode())
    if len(head) - bad <= len(head) // 10:
        return False
    try:
        head[: HEAD - 4].decode("gb18030")
    except UnicodeDecodeError as error:
        return error.start < len(head) - 8
    return False


def _blocks(pieces: Iterable[bytes], source: str = "text") -> Iterator[bytes]:
    """Cut pieces anew at line ends.

    The middle of an endless line is left out. A file of nothing else is refused.
    """
    rest, lines, endless = [], False, 0
    for piece in pieces:
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if not cut:
            endless += len(piece)
            rest = [*rest, piece] if endless <= LONGEST else [*rest[:1], piece]
            continue
        yield b"".join((*rest, piece[:cut]))
        rest, lines, endless = [piece[cut:]], True, len(piece) - cut
    if endless > LONGEST and not lines:
        raise Unreadable(
            f"one line of {endless // 1_000_000} MB in {source}; pass a log with lines"
        )
    if any(rest):
        yield b"".join(rest)
