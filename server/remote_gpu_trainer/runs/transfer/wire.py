"""Both ends of a transfer, here and on the box: files over a pipe, resumed and compared by content.

The sender lists its files. Of each the receiver says what it has: the SHA-256 of a file of the same
size, and of a part that an earlier transfer left, those of its blocks. The sender sends what is
lacking, and behind it the SHA-256 of the whole file. What arrives lies in a folder of parts until
its digest is the sender's; then it is moved into place. So a transfer that broke off goes on where
it was, and no name ever stands for half a file.

A message is a line of JSON; `{}` only says that this end works. Behind one with "file" come its
bytes, in pieces: a line with the length, with a z in front if the piece is deflated, and the bytes;
a length of 0 ends them.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import shutil
import signal
import stat
import threading
import time
import unicodedata
import zlib
from contextlib import contextmanager, suppress
from functools import partial

from ...text.locking import lock

PARTS = ".rgt-transfer"  # the folder of what has come and isn't in place yet
PIECE = 1 << 20
BLOCK = 4 << 20  # bytes of a part that are compared at a time
PROBE = 16 << 10  # bytes of a piece that tell whether it shrinks
LARGE = 8 << 20  # bytes from which a file is deflated fast rather than small
MOST_LINE = 256 << 20
PACKINGS = ("bz2", "zlib")  # modules that pack small files, the best first; a Python may lack one
TRIES = 5  # how often a file is sent that changes while it is read
NAP = 0.3  # seconds before the next of them
PING = 5.0  # seconds of work after which this end says that it works
FLUSH = 0.02  # seconds that a line may wait for the next ones
TAKEN_OVER = 5.0  # seconds that an older transfer gets to end
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{name}{one}" for name in ("com", "lpt") for one in range(10))]
)


class Broken(Exception):
    """The other end is gone, or says what can't be read."""


class Refused(Exception):
    """The other end, or this one, can't go on. One line: why."""


class Wire:
    """Messages and bytes to the other end and from it. `moved`: bytes of files, both ways.

    `touched`: when the other end last took or gave something, by time.monotonic.
    """

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.moved, self.touched = 0, time.monotonic()
        self._lock = threading.Lock()
        self._flushed = time.monotonic()

    def tell(self, row, now=False):
        """Send a message; `now`: at once. Raises Broken."""
        self._write(json.dumps(row).encode() + b"\n", now)

    def ping(self):
        """Say that this end works, if it said nothing for a while. Raises Broken."""
        if time.monotonic() - self._flushed > PING:
            self.tell({}, now=True)

    def row(self):
        """Return the next message. Raises Broken, and Refused where the other end gives up."""
        while True:
            try:
                line = self.source.readline(MOST_LINE)
                found = json.loads(line.decode("utf-8"))
            except (OSError, ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise Broken("the connection broke")
            self.touched = time.monotonic()
            if "error" in found:
                raise Refused(str(found["error"]))
            if found:
                return found

    def send_pieces(self, file, size, digest):
        """Send so many bytes of a file, and add them to the digest; return how many were lacking.

        Raises Broken and OSError.
        """
        packs, level = True, 1 if size >= LARGE else 6
        while size:
            piece = file.read(min(size, PIECE))
            if not piece:
                break
            size -= len(piece)
            digest.update(piece)
            self.moved += len(piece)
            length = len(piece)
            if packs and length > PROBE:
                packs = len(zlib.compress(piece[:PROBE], 1)) < 0.9 * PROBE
            packed = zlib.compress(piece, level) if packs else piece
            if packs and len(packed) < length:
                piece = packed
            else:
                packs = False
            self._write(b"%s%d\n" % (b"z" if packs else b"", len(piece)))
            self._write(piece)
            if length == PIECE:
                self.touched = time.monotonic()
        self._write(b"0\n")
        return size

    def pieces(self):
        """Yield the bytes of a file as they come. Raises Broken."""
        while True:
            line = self._read(self.source.readline, 32)
            packed, count = line.startswith(b"z"), line.rstrip(b"\n").lstrip(b"z")
            if not line.endswith(b"\n") or not count.isdigit() or int(count) > 2 * PIECE:
                raise Broken("the connection broke")
            if not int(count):
                return
            piece = self._read(self.source.read, int(count))
            if len(piece) < int(count):
                raise Broken("the connection broke")
            self.touched = time.monotonic()
            if packed:
                piece = _inflated(piece)
            self.moved += len(piece)
            yield piece

    def flush(self):
        """Send what waits. Raises Broken."""
        self._write(b"", now=True)

    def _write(self, data, now=False):
        with self._lock:
            try:
                self.target.write(data)
                if now or time.monotonic() - self._flushed > FLUSH:
                    self.target.flush()
                    self._flushed = time.monotonic()
            except (OSError, ValueError):
                raise Broken("the connection broke") from None

    def _read(self, read, count):
        try:
            return read(count)
        except (OSError, ValueError):
            raise Broken("the connection broke") from None


def _inflated(piece):
    try:
        packed = zlib.decompressobj()
        found = packed.decompress(piece, PIECE)
    except zlib.error:
        raise Broken("the connection broke") from None
    if packed.unconsumed_tail:
        raise Broken("the connection broke")
    return found


class Sender:
    """Sends files whose list went out. `digests`: {name: SHA-256} of what the other end has now.

    `new`: {name: bytes} of what it didn't have. `done`: bytes of both.
    """

    def __init__(self, wire, names):
        """`names`: of the list that went out."""
        self.wire, self.digests, self.new, self.done = wire, {}, {}, 0
        self._listed, self._answers = frozenset(names), {}

    def send(self, name, path, mode=None):
        """Send a file as it was at one moment; return why it can't be, '' once it has gone.

        `mode`: its permissions, None for its own. Raises Broken and Refused.
        """
        for _ in range(TRIES):
            if why := self.answer(name).get("no"):
                return str(why)
            try:
                with open(path, "rb") as file:
                    info = os.fstat(file.fileno())
                    own = info.st_mode & 0o777 if mode is None else mode
                    head = {"file": name, "time": info.st_mtime, "mode": own}
                    if self._send(head, file, info.st_size, partial(_is_still, file, info)):
                        return ""
            except OSError as error:
                return f"{name}: {error.strerror or error}"
            self._answers[name] = {}  # what came of it is no use
            time.sleep(NAP)
        return f"{name} changed each time while it was read"

    def send_texts(self, texts, packs):
        """Send files in memory, {name: (bytes, mode)}, what is lacking packed as one piece; return
        why some couldn't be. Raises Broken and Refused.

        `packs`: what the other end can unpack, of PACKINGS.
        """
        wrong, lacking = [], []
        for name, (content, mode) in texts.items():
            answer, digest = self.answer(name), hashlib.sha256(content)
            if answer.get("no"):
                wrong.append(str(answer["no"]))
            elif answer.get("sha256") == digest.hexdigest():
                head = {"file": name, "time": None, "mode": mode}
                self.wire.tell({**head, "same": digest.hexdigest()})
                self._sent(name, len(content), digest)
            else:
                lacking.append((name, content, mode, digest))
        if lacking:
            packing = next(one for one in PACKINGS if one in packs)
            packed = importlib.import_module(packing).compress(b"".join(one[1] for one in lacking))
            rows = [
                [name, len(content), mode, one.hexdigest()] for name, content, mode, one in lacking
            ]
            self.wire.tell({"texts": rows, "packing": packing})
            self.wire.send_pieces(io.BytesIO(packed), len(packed), hashlib.sha256())
        for name, content, _, digest in lacking:
            self.new[name] = len(content)
            self._sent(name, len(content), digest)
        return wrong

    def link(self, name, target):
        """Send a symbolic link. Raises Broken and Refused."""
        if self.answer(name).get("link") != target:
            self.new[name] = 0
        self.wire.tell({"file": name, "link": target})

    def is_there(self, name, file, size):
        """Return whether the other end has a file of this content. Raises Broken and Refused."""
        digest = hashlib.sha256()
        lacking = _add(digest, file, size, self.wire)
        return not lacking and self.answer(name).get("sha256") == digest.hexdigest()

    def answer(self, name):
        """Return what the receiver says of a file. Raises Broken and Refused."""
        while name in self._listed and name not in self._answers:
            row = self.wire.row()
            self._answers[str(row.get("of"))] = row
        return self._answers.get(name, {})

    def _send(self, head, file, size, is_still):
        """Send what the receiver lacks; return whether that is the file as it was at one moment."""
        name, answer, digest = head["file"], self.answer(head["file"]), hashlib.sha256()
        if answer.get("sha256"):
            if not _add(digest, file, size, self.wire) and digest.hexdigest() == answer["sha256"]:
                if is_still():
                    self.wire.tell({**head, "same": digest.hexdigest()})
                    self._sent(name, size, digest)
                    return True
                return False
            file.seek(0)
            digest = hashlib.sha256()
        start = _add_equal(digest, file, size, answer.get("blocks") or [], self.wire)
        self.wire.tell({**head, "from": start})
        is_whole = False
        try:
            file.seek(start)
            lacking = self.wire.send_pieces(file, size - start, digest)
            is_whole = not lacking and (is_still() or self._begins_with(file, size, digest))
        finally:
            self.wire.tell({"sha256": digest.hexdigest() if is_whole else ""})
        if is_whole:
            self.new[name] = size
            self._sent(name, size, digest)
        return is_whole

    def _begins_with(self, file, size, digest):
        """Return whether a file only grew: a log does all the time, and its beginning is whole."""
        again = hashlib.sha256()
        file.seek(0)
        # The receiver waits for the end of the file: no sign of work may come between.
        return not _add(again, file, size, None) and again.digest() == digest.digest()

    def _sent(self, name, size, digest):
        self._answers[name] = {"sha256": digest.hexdigest()}
        self.digests[name] = digest.hexdigest()
        self.done += size


class Receiver:
    """Takes files into a folder. `moved_in`: called with a name, its SHA-256 ('' of a link) and its
    bytes, once it is in place. `may_replace`: whether what has that name here may be replaced.

    A name never leads out of the folder, nor through a link in it.
    """

    def __init__(self, wire, top, may_replace=lambda name: True, moved_in=lambda *_: None):
        self.wire, self.top, self.parts = wire, top, os.path.join(top, PARTS)
        self._may_replace, self._moved_in = may_replace, moved_in
        self._staged, self._seen = {}, {}  # {name: its message, digest, bytes}; {name: answer}
        self._states = {}  # {name: [(bytes, hash so far)]} of a part
        self._lock, self.coming = None, 0  # `coming`: bytes that are here and not in place

    def begin(self, takes_over=False):
        """Make the folder of parts, and let no second transfer work in it.

        `takes_over`: end an older one: its connection may be lost, and it doesn't know. Raises
        Refused and OSError.
        """
        os.makedirs(self.parts, exist_ok=True)
        if os.path.islink(self.parts):
            raise Refused(f"{self.parts} is a link; remove it")
        until = time.monotonic() + TAKEN_OVER
        while not self._lock:
            self._lock = _locked(os.path.join(self.parts, "lock"), takes_over)
            if not self._lock and (not takes_over or time.monotonic() > until):
                raise Refused(f"another transfer to {self.top} is under way; wait for its end")
            if not self._lock:
                time.sleep(0.05)

    def answer(self, names):
        """Say of each file, [(name, bytes)], what is here, while others arrive."""
        self._refuse_twins([name for name, _ in names])

        def answer_all():
            with suppress(Broken):
                for name, size in names:
                    self._seen[name] = self._see_here(name, size)
                    self.wire.tell({"of": name, **self._seen[name]})
                self.wire.flush()

        threading.Thread(target=answer_all, daemon=True).start()

    def take(self, row, moves=lambda: None):
        """Take the file or link of this message. `moves`: called with each piece.

        Raises Broken, Refused and OSError.
        """
        name = str(row["file"])
        if why := unfit(name):
            raise Refused(why)
        came = self._staged.pop(name, None)
        if "link" in row:
            self._staged[name] = row, "", 0
        elif came and came[1] == row.get("same"):  # it came before, in this transfer
            self._staged[name] = {**row, "same": None}, *came[1:]
        elif "same" in row:
            if self._seen.get(name, {}).get("sha256") != row["same"]:
                raise Broken("the other end says what isn't so")
            self._staged[name] = row, row["same"], os.path.getsize(os.path.join(self.top, name))
        else:
            self._take_bytes(name, row, moves)

    def take_texts(self, row):
        """Take the small files of this message. Raises Broken, Refused and OSError."""
        packing, packed = row["packing"], b"".join(self.wire.pieces())
        if packing not in PACKINGS:
            raise Broken("the connection broke")
        try:
            content = importlib.import_module(packing).decompress(packed)
        except (OSError, EOFError, ValueError, zlib.error):
            raise Broken("the connection broke") from None
        for name, size, mode, digest in row["texts"]:
            if why := unfit(name):
                raise Refused(why)
            own, content = content[:size], content[size:]
            if hashlib.sha256(own).hexdigest() != digest:
                raise Broken("the connection broke")
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            flags |= getattr(os, "O_BINARY", 0)
            with os.fdopen(os.open(self._part(name), flags, 0o600), "wb") as file:
                file.write(own)
            self._staged[name] = {"time": None, "mode": mode}, digest, size

    def take_all(self, names, came, moves):
        """Take all that is listed, [(name, bytes)], one item after the other, and put each in place
        once all of it is there. Raises Broken, Refused and OSError.

        `came`: called with the message of each item, whose "why" says why it isn't in place.
        `moves`: called with each piece.
        """
        self.begin()
        try:
            self.answer(names)
            while not (row := self.wire.row()).get("end"):
                if "file" in row:
                    self.take(row, moves)
                    continue
                if row.get("why"):
                    self.drop()
                else:
                    self.put()
                came(row)
        except BaseException:
            self.end(removes=False)
            raise
        self.end()

    def put(self):
        """Move what has come into place. Raises Refused and OSError."""
        for name, (row, digest, size) in self._staged.items():
            self._put(name, row)
            self._moved_in(name, digest, size)
        self._staged.clear()
        self.coming = 0

    def drop(self):
        """Forget what has come and isn't in place: it isn't wanted."""
        for name in self._staged:
            with suppress(OSError):
                os.unlink(self._part(name))
        self._staged.clear()
        self.coming = 0

    def end(self, removes=True):
        """Let another transfer work here; `removes`: nothing is left to go on with."""
        if self._lock:
            self._lock.close()
            self._lock = None
        if removes:
            shutil.rmtree(self.parts, ignore_errors=True)

    def _part(self, name):
        return os.path.join(self.parts, hashlib.sha256(os.fsencode(name)).hexdigest()[:40])

    def _refuse_twins(self, names):
        """Raise Refused where two names are one for the file system here."""
        if not os.path.exists(os.path.join(self.top, PARTS.upper())):
            return
        known = {}
        for name in names:
            other = known.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
            if other != name:
                raise Refused(f"{other} and {name} would be the same file here; rename one")

    def _see_here(self, name, size):
        """Return what is here of a file."""
        if why := unfit(name):
            return {"no": why}
        path, found = os.path.join(self.top, name), {}
        try:
            if way_of(self.top, name):
                return found
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                found["link"] = os.readlink(path)
            elif stat.S_ISREG(info.st_mode) and info.st_size == size:
                if size > PIECE:
                    self.wire.flush()
                digest = hashlib.sha256()
                with open(path, "rb") as file:
                    if not _add(digest, file, size, self.wire):
                        found["sha256"] = digest.hexdigest()
        except OSError:
            pass
        with suppress(OSError), open(self._part(name), "rb") as file:
            found["blocks"], digest, done = [], hashlib.sha256(), 0
            self._states[name] = []
            while piece := file.read(BLOCK):
                digest.update(piece)
                done += len(piece)
                found["blocks"].append([len(piece), hashlib.sha256(piece).hexdigest()])
                self._states[name].append((done, digest.copy()))
                self.wire.ping()
        return found

    def _take_bytes(self, name, row, moves):
        start, path = row["from"], self._part(name)
        self.coming += start
        known = dict(self._states.pop(name, []))
        digest = known.get(start) if start else hashlib.sha256()
        if digest is None:
            raise Broken("the other end goes on from a place that isn't known here")
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags, 0o600), "r+b") as file:
            file.truncate(start)
            file.seek(start)
            for piece in self.wire.pieces():
                file.write(piece)
                digest.update(piece)
                self.coming += len(piece)
                moves()
            size = file.tell()
        end = self.wire.row()
        if end.get("sha256") == digest.hexdigest():
            self._staged[name] = row, digest.hexdigest(), size
            return
        os.unlink(path)
        if end.get("sha256"):
            raise Refused(
                f"{name} isn't the same here as at the other end; try again, and check the disk"
            )

    def _put(self, name, row):
        path, part = os.path.join(self.top, name), self._part(name)
        if link := way_of(self.top, name):
            raise Refused(f"{link} in {self.top} is in the way of {name}; move it away")
        if not row.get("same"):
            if os.path.lexists(path) and not self._may_replace(name):
                raise Refused(f"{name} in {self.top} isn't of this transfer; move it away")
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
        if "link" in row:
            with suppress(OSError):
                os.unlink(part)
            os.symlink(row["link"], part)
        else:
            _set_times_and_mode(path if row.get("same") else part, row)
        if not row.get("same"):
            os.replace(part, path)


@contextmanager
def ended_output():
    """At the end of the block let nothing be written that waits for a reader that is gone."""
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def size_of(path):
    """Return the bytes of a file, 0 where it is gone."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def leads_out(name, windows=os.name == "nt"):
    """Whether a path of the other end, below a folder, could lead out of that folder here."""
    parts = name.split("/")
    odd = not name or "\0" in name or name.startswith("/") or not any(parts)
    if windows:  # a drive, another stream of a file, a second way to part folders
        odd = odd or "\\" in name or ":" in name
    return odd or ".." in parts or set(parts) == {"."}


def unfit(name, windows=os.name == "nt"):
    """Return why no file here can have this name, '' where one can."""
    if leads_out(name, windows):
        return f"{ascii(name)[:100]} is no name that a file here may have; rename it there"
    if name.split("/")[0].casefold() == PARTS:
        return f"{PARTS} is the folder of a transfer; rename it there"
    for part in name.split("/") if windows else ():
        stem = part.partition(".")[0].rstrip().casefold()
        odd = any(one in '<>"|?*' or ord(one) < 32 for one in part)
        if odd or part.endswith((".", " ")) or stem in _RESERVED:
            return f"{ascii(name)[:100]} is no name for Windows; rename it there"
    return ""


def way_of(top, name):
    """Return what lies on the way to a file below a folder and is no plain folder, '' for none."""
    above = top
    for part in name.split("/")[:-1]:
        above = os.path.join(above, part)
        if not os.path.lexists(above):
            return ""
        if os.path.islink(above) or not os.path.isdir(above):
            return os.path.relpath(above, top).replace(os.sep, "/")
    return ""


def _set_times_and_mode(path, row):
    when, mode = row.get("time"), row.get("mode")
    if isinstance(when, (int, float)):
        with suppress(OSError, OverflowError, ValueError):
            os.utime(path, (when, when))
    if isinstance(mode, int) and os.name == "posix":
        with suppress(OSError):
            os.chmod(path, mode & 0o777 & ~_umask() | 0o600)


def _umask():
    """Return the permissions that new files of this process don't have."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _add(digest, file, size, wire):
    """Add so many bytes of a file to a digest; return how many were lacking."""
    while size:
        piece = file.read(min(size, PIECE))
        if not piece:
            break
        digest.update(piece)
        size -= len(piece)
        if wire:
            wire.ping()
    return size


def _add_equal(digest, file, size, blocks, wire):
    """Add the first blocks of a file that the receiver has; return how many bytes those are."""
    start = 0
    for length, wanted in blocks:
        if not 0 < length <= BLOCK or start + length > size:
            break
        piece = file.read(length)
        if len(piece) < length or hashlib.sha256(piece).hexdigest() != wanted:
            break
        digest.update(piece)
        start += length
        wire.ping()
    return start


def _is_still(file, before):
    return _stamp(os.fstat(file.fileno())) == _stamp(before)


def _stamp(info):
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns


def _locked(path, takes_over):
    """Return the open lock file; None while another process has it. Raises OSError."""
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    try:
        lock(file.fileno(), waits=False)
    except (BlockingIOError, PermissionError):
        with file:
            pid = file.read(20)
        if takes_over and pid.isdigit():
            with suppress(OSError):
                os.kill(int(pid), signal.SIGTERM)
        return None
    except OSError:
        pass  # a file system without locks
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
