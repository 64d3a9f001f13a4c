"""A text, a stream, a file or a folder of logs to rows. Refuses what is no log. Standard library, Python 3.8."""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator

from .windows import BLOCK, Row, keep

MAX_FILES = 512
MOST_UTF16 = 64 << 20  # bytes of such a log that are read
LONGEST = 8 << 20  # bytes of one line above which a file of nothing else is no log

_KEY_NAME = re.compile(
    r"^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$|\.(?:pem|key|p12|pfx|kdbx|ppk)$|^\.(?:env|netrc|pgpass|git-credentials)|^(?:credentials|token|authorized_keys)$",
    re.I,
)
_NOT_LOGS = re.compile(
    r"\.(?:py|pyc|so|pt|pth|bin|safetensors|npy|npz|pkl|png|jpg|zip|gz|tar|whl|parquet|arrow|ckpt|onnx|h5|db|sqlite|lock|md|ya?ml|toml|cfg|sh|html?|csv|jsonl?)$",
    re.I,
)


class Unreadable(Exception):
    """The input can't be read as a log. The text says what was found, what was expected and what to do."""


def of_text(text: str, source: str = "text", needles: Iterable[bytes] = ()) -> list[Row]:
    """Rows of a pasted report. `needles`: further texts to look for in a long one. Raises Unreadable when it is blank or binary."""
    data = text.encode("utf-8", "replace")
    _refuse_binary(data[:65536], source)
    if not text.strip():
        raise Unreadable(f"found no text in {source}, expected an error, a log or a sentence about what happens")
    return keep(_blocks([data]), len(data), tuple(needles))


def of_stream(
    stream, source: str = "stdin", size: int | None = None, needles: Iterable[bytes] = (), progress: Callable[[int], None] | None = None
) -> list[Row]:
    """Rows of a binary stream. `needles`: further texts to look for. `progress(bytes_read)` is called once a block. Raises Unreadable."""
    head = stream.read(BLOCK)
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        text = (head + stream.read(MOST_UTF16)).decode("utf-16", "replace")
        head, stream = text.encode("utf-8", "replace"), None
        size = len(head)
    _refuse_binary(head[:65536], source)

    def pieces() -> Iterator[bytes]:
        block, count = head, 0
        while block:
            count += len(block)
            if progress:
                progress(count)
            yield block
            block = stream.read(BLOCK) if stream else b""

    kept = keep(_blocks(pieces(), source), size, tuple(needles))
    if not any(row.strip() for _, row in kept):
        raise Unreadable(f"found nothing but blanks in {source}, expected an error, a log or a sentence about what happens")
    return kept


def of_path(path: str, needles: Iterable[bytes] = (), progress: Callable[[int], None] | None = None) -> list[tuple[str, list[Row]]]:
    """[(name, rows)] of a file, or of every log in a folder. Raises Unreadable."""
    needles = tuple(needles)
    if not os.path.isdir(path):
        with _open(path) as stream:
            return [(os.path.basename(path), of_stream(stream, path, os.path.getsize(path), needles, progress))]
    files = _log_files(path)
    if not files:
        raise Unreadable(f"found no log in the folder {path}, expected files such as rank_0.log or 0/stderr.log")
    found = []
    for name in files:
        full = os.path.join(path, name)
        try:
            with _open(full) as stream:
                found.append((name, of_stream(stream, full, os.path.getsize(full), needles, progress)))
        except Unreadable:
            continue
    if not found:
        raise Unreadable(f"found only empty or binary files in the folder {path}, expected text logs")
    return found


def _open(path: str):
    """A regular file, opened for reading bytes. Never a device, a socket, or what looks like a key."""
    name = os.path.basename(path)
    try:
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            kind = "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "no regular file"
            raise Unreadable(f"found {kind} at {path}, expected a log file or a folder of logs")
        if _KEY_NAME.search(name) or f"{os.sep}.ssh{os.sep}" in os.path.realpath(path):
            raise Unreadable(f"found {name}, which looks like a key or a secret, expected a log file; it was not opened")
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        raise Unreadable(f"found no file {path}, expected a log file or a folder of logs") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unreadable(f"found {path} unreadable ({reason}), expected a log that this user may read") from None


def _log_files(folder: str) -> list[str]:
    found = []
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("__pycache__", "wandb", "node_modules"))
        for name in sorted(names):
            full = os.path.join(base, name)
            if name.startswith(".") or _NOT_LOGS.search(name) or _KEY_NAME.search(name) or "tfevents" in name or not os.path.isfile(full):
                continue
            found.append(os.path.relpath(full, folder).replace(os.sep, "/"))
            if len(found) == MAX_FILES:
                return found
    return found


def _refuse_binary(head: bytes, source: str) -> None:
    if head.count(0) * 100 > len(head):
        raise Unreadable(f"found NUL bytes in {source} (a binary file?), expected UTF-8 text")
    if head.lstrip()[:11] == b"-----BEGIN " and b"PRIVATE KEY" in head[:80]:
        raise Unreadable(f"found a private key in {source}, expected a log; it was not read further")


def _blocks(pieces: Iterable[bytes], source: str = "text") -> Iterator[bytes]:
    """Re-cut pieces at line ends. The middle of an endless line is left out; a file of nothing else is refused."""
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
        raise Unreadable(f"found one line of {endless // 1_000_000} MB in {source}, expected a log with lines")
    if any(rest):
        yield b"".join(rest)
