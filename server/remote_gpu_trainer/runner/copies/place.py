"""Places for copies: a folder of this box, and one over ssh. By rsync, or without it."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable
from contextlib import suppress

from .listing import OURS, Listing, look, stamp
from .tool import Answer, Failed, Tools

BLOCK = 1 << 22
SLOWEST = 50_000_000  # bytes a second that a far machine hashes, without a word meanwhile
SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4",
)  # fmt: skip
NO_RSYNC = re.compile(r"rsync: (command )?not found|not found: rsync|rsync is missing", re.I)


def kind_of(address: str) -> str:
    """Return local, ssh, rclone, s3 or gs; '' for no address."""
    for start, kind in (("rclone:", "rclone"), ("s3://", "s3"), ("gs://", "gs"), ("/", "local")):
        if address.startswith(start):
            return kind
    return "ssh" if ":" in address else "local" if address else ""


def join(address: str, name: str) -> str:
    """Return the address of a name below an address."""
    return address.rstrip("/") if name in ("", ".") else f"{address.rstrip('/')}/{name}"


def at(address: str, tools: Tools, without_rsync: bool = False, mask: int = 0o022) -> Place:
    """Return the place that holds an address."""
    from . import clouds

    kind = kind_of(address)
    if kind in clouds.KINDS:
        return clouds.KINDS[kind](tools)
    return (Ssh if kind == "ssh" else Local)(tools, without_rsync, mask)


class Place:
    """Where copies lie. All addresses are whole ones; every method raises Failed.

    `checks_often`: comparing a few files by content is cheap enough for each round of copies.
    """

    checks_often = True

    def __init__(self, tools: Tools, without_rsync: bool = False, mask: int = 0o022):
        self.tools, self.mask = tools, mask
        self.without_rsync = without_rsync or not tools.has("rsync")

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        raise NotImplementedError

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        raise NotImplementedError

    def has_folder(self, path: str) -> bool:
        """Return whether there may be a folder."""
        return True

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy a folder, or names in it, to the folder there.

        `again`: what is the same by size and time is compared too. `names`: of the files that
        haven't been compared there since they changed here.
        """
        raise NotImplementedError

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Compare these files by content; return those that differ or aren't there."""
        raise NotImplementedError

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder here, or only some names in it."""
        raise NotImplementedError


def same_or_failed(answer: Answer, tool: str, fine: tuple[int, ...] = (0,)) -> Answer:
    """Raise Failed for a code that isn't fine."""
    if answer.code not in fine:
        raise Failed(f"{tool} {answer.code}: {answer.said[:300]}")
    return answer


class ByRsync(Place):
    """What both kinds of folders have in common."""

    def rsync(
        self, flags: list[str], source: str, target: str, only: list[str] | None = None
    ) -> bool:
        """Copy from one end to the other; False where no rsync is on one of the two sides.

        `only`: names in the source, those that aren't there passed over; [] for all of it.
        """
        if self.without_rsync:
            return False
        # The quoted far path is whole; without its ~/ it begins in the same home.
        slash = "" if only is None else "/"
        ends = [_for_rsync(address) + slash for address in (source, target)]
        words = [
            "rsync", "-rlt", "-8", "--omit-dir-times", "--executability", "--partial",
            "--partial-dir=.rgt-partial", "-s", "-e", " ".join(SSH), *flags,
            *(f"--exclude={name}*" for name in OURS),
        ]  # fmt: skip
        names = b"\0".join(os.fsencode(name) for name in only or ())
        if only:
            words += ["--files-from=-", "--from0", "--ignore-missing-args"]
        answer = self.tools.run([*words, "--", *ends], names)
        if answer.code in (12, 127) and NO_RSYNC.search(answer.said):
            self.without_rsync = True
            return False
        # 24: a file went away meanwhile, as old checkpoints do.
        same_or_failed(answer, "rsync", (0, 24))
        return True

    def rsync_there(self, listing: Listing, there: str, again: bool) -> bool:
        """Copy what is listed; False without rsync."""
        flags = {"out": ["--copy-unsafe-links"], "item": ["--copy-links"]}.get(listing.follow, [])
        flags = flags + [f"--exclude=/{_literal(name)}" for name in listing.leave]
        return self.rsync(
            flags + (["--checksum"] if again else []), listing.folder, there, listing.only
        )


class Local(ByRsync):
    """A folder of this box."""

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        try:
            with open(path, "rb") as file:
                return file.read(1 << 20)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Failed(f"can't read {path}: {error.strerror}") from None

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        _make(os.path.dirname(path))
        temporary = os.path.join(os.path.dirname(path), ".rgt-write")
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise Failed(f"can't write {path}: {error.strerror}") from None

    def has_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        return os.path.isdir(path)

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy what is listed there."""
        _make(there)
        if not self.rsync_there(listing, there, again):
            self._copy(listing, there, again)

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder, or names in it, here."""
        if not os.path.isdir(there) and not only:
            _make(os.path.dirname(here))
            target = os.path.join(here, os.path.basename(there)) if os.path.isdir(here) else here
            if not self.rsync([], there, target):
                try:
                    self._copy_file(there, target)
                except OSError as error:
                    raise Failed(f"can't copy {there}: {error.strerror}") from None
            return
        _make(here)
        if not self.rsync([], there, here, only):
            for path in [os.path.join(there, name) for name in only] or [there]:
                if os.path.lexists(path):
                    listing = look(path)
                    inside = "" if listing.only else os.path.relpath(path, there)
                    self._copy(listing, join(here, inside), False)

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Return which files differ there, or aren't there."""
        return [name for name in names if not self._is_same(listing.at(name), join(there, name))]

    def _copy(self, listing: Listing, there: str, again: bool) -> None:
        """Copy without rsync: what differs by size or time, or by content."""
        try:
            for name in listing.outward:
                if os.path.islink(join(there, name)):
                    os.unlink(join(there, name))  # else one would write through it
            for name in listing.files:
                source, target = listing.at(name), join(there, name)
                is_same = self._is_same(source, target) if again else _looks_same(source, target)
                if not is_same and os.path.exists(source):
                    self._copy_file(source, target)
            for name, target in listing.links.items():
                link = join(there, name)
                if not os.path.islink(link) or os.readlink(link) != target:
                    os.makedirs(os.path.dirname(link), exist_ok=True)
                    with suppress(FileNotFoundError):
                        os.unlink(link)
                    os.symlink(target, link)
        except OSError as error:
            raise Failed(f"can't copy to {error.filename or there}: {error.strerror}") from None

    def _copy_file(self, source: str, target: str) -> None:
        folder, name = os.path.split(target)
        os.makedirs(folder, exist_ok=True)
        partial = os.path.join(
            folder, ".rgt-partial." + hashlib.sha1(os.fsencode(name)).hexdigest()[:16]
        )
        with open(source, "rb") as here, open(partial, "wb") as far:
            told = os.fstat(here.fileno())
            block = here.read(BLOCK)
            while block:
                far.write(block)
                self.tools.moved()
                block = here.read(BLOCK)
            far.flush()
            os.fsync(far.fileno())
            os.fchmod(far.fileno(), (0o666 | told.st_mode & 0o111) & ~self.mask)
        os.utime(partial, ns=(told.st_atime_ns, told.st_mtime_ns))
        os.replace(partial, target)

    def _is_same(self, source: str, target: str) -> bool:
        """Compare two files. The one there is read from its disk, not from this box's memory."""
        try:
            with open(source, "rb") as here, open(target, "rb") as far:
                if os.fstat(here.fileno()).st_size != os.fstat(far.fileno()).st_size:
                    return False
                with suppress(OSError):
                    os.fsync(far.fileno())
                    os.posix_fadvise(far.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                while True:
                    block = here.read(BLOCK)
                    if block != far.read(BLOCK):
                        return False
                    if not block:
                        return True
                    self.tools.moved()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        except OSError as error:
            raise Failed(f"can't compare {error.filename or target}: {error.strerror}") from None


class Ssh(ByRsync):
    """A folder behind HOST:."""

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        name = _quoted(path)
        script = f"if test -e {name}; then cat -- {name}; else exit 44; fi"
        answer = same_or_failed(self.script(path, script), "ssh", (0, 44))
        return None if answer.code else answer.out

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        name = _quoted(path)
        script = f"mkdir -p -- {_quoted(os.path.dirname(path))} && cat >{name}"
        same_or_failed(self.script(path, script, data), "ssh")

    def has_folder(self, path: str) -> bool:
        """Return whether there is a folder."""
        answer = self.script(path, f"test -d {_quoted(path)}")
        return same_or_failed(answer, "no answer, ssh", (0, 1)).code == 0

    def put(self, listing: Listing, there: str, again: bool, names: Iterable[str]) -> None:
        """Copy what is listed there."""
        try:
            if self.rsync_there(listing, there, again):
                return
        except Failed as error:
            if "No such file or directory" not in str(error):
                raise
            self._make(there)
            if self.rsync_there(listing, there, again):
                return
        self._make(there)
        for name in self.wrong(listing, there, sorted(listing.files if again else names)):
            self._send(listing.at(name), join(there, name))
        if listing.links:
            lines = [f"cd {_quoted(there)}"]
            for name, target in listing.links.items():
                folder = shlex.quote("./" + os.path.dirname(name))
                link = f"ln -sfn -- {shlex.quote(target)} {shlex.quote('./' + name)}"
                lines.append(f"mkdir -p -- {folder} && {link}")
            text = " && ".join(lines).encode("utf-8", "surrogateescape")
            same_or_failed(self.script(there, "sh -s", text), "ssh")

    def wrong(self, listing: Listing, there: str, names: list[str]) -> list[str]:
        """Return which files differ there, or aren't there."""
        if not names:
            return []
        here = {name: self._hash(listing.at(name)) for name in names}
        largest = max(listing.files[name].size for name in names)
        answer = same_or_failed(
            self.script(
                there,
                f"cd {_quoted(there)} || exit 44; if command -v sha256sum >/dev/null; "
                "then xargs -0 sha256sum --; else xargs -0 shasum -a 256 --; fi",
                b"\0".join(os.fsencode("./" + name) for name in names),
                patience=largest / SLOWEST,
            ),
            "ssh, while checking,",
            (0, 1, 123),
        )
        far = dict(map(_hashed, answer.out.splitlines()))
        return [name for name in names if far.get(os.fsencode("./" + name)) != here[name]]

    def get(self, there: str, here: str, only: list[str]) -> None:
        """Bring a folder, or names in it, here."""
        if not only and not self.has_folder(there):
            _make(os.path.dirname(here))
            if self.rsync([], there, here):
                return
            script, take = f"cat -- {_quoted(there)}", 'cat >"$1"'
        else:
            _make(here)
            if self.rsync([], there, here, only):
                return
            names = " ".join(shlex.quote("./" + name) for name in only) or "."
            script = (
                f"cd {_quoted(there)} && set -- {names} && for n do shift; "
                'if test -e "$n"; then set -- "$@" "$n"; fi; done; tar -cf - -- "$@"'
            )
            take = 'tar -xf - -C "$1"'
        words = ["bash", "-c", f'set -o pipefail; "${{@:2}}" | {take}', "rgt", here]
        far = [*SSH, "--", _host(there), script]
        same_or_failed(self.tools.run([*words, *far]), "ssh")

    def script(
        self, address: str, script: str, source: bytes = b"", patience: float = 0.0
    ) -> Answer:
        """Run a line of shell on the place's machine."""
        return self.tools.run([*SSH, "--", _host(address), script], source, patience)

    def _make(self, there: str) -> None:
        made = self.script(there, f"mkdir -p -- {_quoted(there)}")
        if made.code:
            raise Failed(f"can't make {there}: {made.said[:300]}")

    def _send(self, path: str, there: str) -> None:
        """Write one file under another name, and then give it its own."""
        folder, name = os.path.dirname(there), _quoted(there)
        partial = join(folder, f".rgt-partial.{hashlib.sha1(os.fsencode(there)).hexdigest()[:16]}")
        if not os.path.exists(path):
            return  # it went away meanwhile
        with open(path, "rb") as source:
            seconds = int(os.fstat(source.fileno()).st_mtime)
            script = (
                f"mkdir -p -- {_quoted(folder)} && cat >{_quoted(partial)} && "
                f"{{ touch -d @{seconds} {_quoted(partial)} 2>/dev/null || :; }} && "
                f"test ! -d {name} && mv -f -- {_quoted(partial)} {name}"
            )
            words = [*SSH, "--", _host(there), script]
            same_or_failed(self.tools.run(words, source), f"can't copy to {there}: ssh")

    def _hash(self, path: str) -> bytes:
        """Return a file's SHA-256; b'' where it is gone."""
        total = hashlib.sha256()
        try:
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(BLOCK), b""):
                    total.update(block)
                    self.tools.moved()
        except OSError:
            return b""
        return total.hexdigest().encode()


def _hashed(line: bytes) -> tuple[bytes, bytes]:
    """Return (name, hash) of a line of sha256sum; a backslash in front says: it is escaped."""
    escaped = line.startswith(b"\\")
    code, _, name = line.lstrip(b"\\").partition(b" ")
    name = name[1:]
    if escaped:
        pairs = {b"\\n": b"\n", b"\\r": b"\r", b"\\\\": b"\\"}
        name = re.sub(rb"\\[nr\\]", lambda match: pairs[match.group()], name)
    return name, code


def _host(address: str) -> str:
    return address.partition(":")[0]


def _far_path(address: str) -> str:
    """Return the path behind HOST:, without the ~/ that a quoted path would keep."""
    path = address.partition(":")[2]
    return (path[2:] if path.startswith("~/") else "" if path == "~" else path) or "."


def _quoted(address: str) -> str:
    path = _far_path(address)
    return shlex.quote(path if path.startswith("/") else "./" + path)


def _for_rsync(address: str) -> str:
    return address if kind_of(address) == "local" else f"{_host(address)}:{_far_path(address)}"


def _literal(name: str) -> str:
    """Return a name as a pattern of rsync, where a backslash counts only beside a wildcard."""
    return re.sub(r"([\\*?\[])", r"\\\1", name) if re.search(r"[*?\[]", name) else name


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Failed(f"can't make {folder}: {error.strerror}") from None


def _looks_same(source: str, target: str) -> bool:
    """Return whether two files agree in size and time."""
    try:
        here, far = stamp(source), stamp(target)
    except OSError:
        return False
    if os.path.islink(target):
        return False
    return here.size == far.size and abs(here.time - far.time) < 1_000_000_000
