"""Places for copies: a folder of this box, and one over ssh, by rsync at both ends.

All kinds do the same few things, with files given as {name there: path here}; links are followed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Dict

from ..child import Failed
from .tool import Answer, Tools

Files = Dict[str, str]
BLOCK = 1 << 22
SLOWEST = 50_000_000  # bytes a second that a far machine hashes, without a word meanwhile
SSH = (
    "ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
    "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4",
)  # fmt: skip
PARTIAL = ".rgt-partial"


def join(address: str, name: str) -> str:
    """Return the address of a name below an address."""
    return address.rstrip("/") if name in ("", ".") else f"{address.rstrip('/')}/{name}"


class Place:
    """Where copies lie. All addresses are whole ones; every method raises Failed.

    `checks_often`: comparing a few files by content is cheap enough for each round of copies.
    `needs`: the programs that it runs here.
    """

    checks_often = True
    needs: tuple[str, ...] = ()

    def __init__(self, tools: Tools):
        self.tools = tools

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        raise NotImplementedError

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        raise NotImplementedError

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there; [] where there is none."""
        raise NotImplementedError

    def free(self, _folder: str) -> int | None:
        """Return the bytes that are free there; None where that isn't known."""
        return None

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there, below a folder. `again`: also what is the same by size and time."""
        raise NotImplementedError

    def wrong(self, files: Files, there: str) -> list[str]:
        """Compare files by content; return the names of those that differ or aren't there."""
        raise NotImplementedError

    def get(self, there: str, here: str) -> None:
        """Bring a folder, or a file, here."""
        raise NotImplementedError

    def drop(self, folder: str) -> None:
        """Remove a folder there, with all that lies in it."""
        raise NotImplementedError


def same_or_failed(answer: Answer, tool: str, fine: tuple[int, ...] = (0,)) -> Answer:
    """Raise Failed for a code that isn't fine."""
    if answer.code not in fine:
        raise Failed(f"{tool} {answer.code}: {answer.said[:300]}")
    return answer


@contextmanager
def gathered(files: Files) -> Iterator[str]:
    """Give a folder in which each file lies under its name there, as a link to it here.

    So a tool is handed a folder, and no name becomes a pattern.
    """
    import shutil

    folder = _scratch()
    try:
        for name, path in files.items():
            link = os.path.join(folder, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(os.path.abspath(path), link)
        yield folder
    except OSError as error:
        raise Failed(f"can't gather what is to be copied: {error.strerror}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _scratch() -> str:
    """Return a new folder in memory, where there is some: the disk may be full."""
    import tempfile

    for base in ("/dev/shm", None):
        with suppress(OSError):
            return tempfile.mkdtemp(prefix="rgt-copy-", dir=base)
    raise Failed("there is no room for a temporary folder")


class Local(Place):
    """A folder of this box. `mask`: the user's umask. `marker`: a file that has to be there for
    anything to be written: on a mount, which may go and leave an empty folder behind."""

    marker = ""

    def __init__(self, tools: Tools, mask: int = 0o022):
        super().__init__(tools)
        self.mask = mask

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        try:
            with open(path, "rb") as file:
                return file.read(1 << 24)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Failed(f"can't read {path}: {error.strerror}") from None

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        temporary = os.path.join(os.path.dirname(path), ".rgt-write")
        try:
            self._make(os.path.dirname(path))
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise Failed(f"can't write {path}: {error.strerror}") from None

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there."""
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Failed(f"can't list {folder}: {error.strerror}") from None

    def free(self, folder: str) -> int | None:
        """Return the bytes that are free there."""
        while not os.path.exists(folder):
            folder = os.path.dirname(folder) or "/"
        try:
            room = os.statvfs(folder)
        except OSError:
            return None
        return room.f_bavail * room.f_frsize

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there; each has its name only once all of it is there."""
        for name, source in files.items():
            target = join(there, name)
            try:
                if not (self._is_same(source, target) if again else _looks_same(source, target)):
                    self._copy(source, target)
            except OSError as error:
                if not os.path.exists(source):
                    continue  # it went away meanwhile
                what = error.filename or target
                raise Failed(f"can't copy to {what}: {error.strerror}") from None

    def wrong(self, files: Files, there: str) -> list[str]:
        """Return which files differ there, or aren't there."""
        return [name for name, path in files.items() if not self._is_same(path, join(there, name))]

    def get(self, there: str, here: str) -> None:
        """Bring a folder, or a file, here."""
        if os.path.isdir(there):
            found = {os.path.relpath(path, there): path for path in _walk(there)}
            _make(here)
            self.put(found, here)
            return
        if not os.path.exists(there):
            raise Failed(f"can't copy {there}: No such file or directory")
        folder, name = os.path.split(here)
        if os.path.isdir(here):
            folder, name = here, os.path.basename(there)
        self.put({name: there}, folder)

    def drop(self, folder: str) -> None:
        """Remove a folder there."""
        import shutil

        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Failed(f"can't remove {folder}: {error.strerror}") from None

    def _copy(self, source: str, target: str) -> None:
        folder, name = os.path.split(target)
        self._make(folder)
        partial = os.path.join(
            folder, f"{PARTIAL}.{hashlib.sha1(os.fsencode(name)).hexdigest()[:16]}"
        )
        try:
            with open(source, "rb") as here, open(partial, "wb") as far:
                file_stat = os.fstat(here.fileno())
                for block in iter(lambda: here.read(BLOCK), b""):
                    far.write(block)
                    self.tools.moved()
                far.flush()
                os.fsync(far.fileno())
                os.fchmod(far.fileno(), (0o666 | file_stat.st_mode & 0o111) & ~self.mask)
            os.utime(partial, ns=(file_stat.st_atime_ns, file_stat.st_mtime_ns))
            os.replace(partial, target)
        except OSError:
            with suppress(OSError):
                os.unlink(partial)
            raise

    def _make(self, folder: str) -> None:
        """Make a folder there. Raises OSError, and Failed where the place itself is gone."""
        if self.marker and not os.path.exists(self.marker):
            raise Failed(f"{os.path.dirname(self.marker)} is gone: its marker isn't there any more")
        os.makedirs(folder, exist_ok=True)

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


class Ssh(Place):
    """A folder behind HOST:."""

    needs = ("ssh", "rsync")

    def read(self, path: str) -> bytes | None:
        """Return a small file there; None where there is none."""
        name = _quoted(path)
        script = f"if test -e {name}; then cat -- {name}; else exit 44; fi"
        answer = same_or_failed(self._script(path, script), "ssh", (0, 44))
        return None if answer.code else answer.out

    def write(self, path: str, data: bytes) -> None:
        """Write a small file there."""
        name, folder = _quoted(path), _quoted(os.path.dirname(path))
        partial = _quoted(join(os.path.dirname(path), ".rgt-write"))
        script = f"mkdir -p -- {folder} && cat >{partial} && mv -f -- {partial} {name}"
        same_or_failed(self._script(path, script, data), "ssh")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder there."""
        name = _quoted(folder)
        answer = self._script(folder, f"if test -d {name}; then ls -1A -- {name}; fi")
        text = same_or_failed(answer, "no answer, ssh").out
        return text.decode("utf-8", "surrogateescape").splitlines()

    def free(self, folder: str) -> int | None:
        """Return the bytes that are free there."""
        script = (
            f'p={_quoted(folder)}; while ! test -e "$p"; do '
            'q=$(dirname -- "$p"); test "$q" != "$p" || break; p=$q; done; df -Pk -- "$p"'
        )
        answer = self._script(folder, script)
        words = answer.out.decode("utf-8", "replace").strip().rpartition("\n")[2].split()
        is_told = answer.code == 0 and len(words) > 3 and words[3].isdigit()
        return int(words[3]) * 1024 if is_told else None

    def put(self, files: Files, there: str, again: bool = False) -> None:
        """Copy files there."""
        if not files:
            return
        script = f"mkdir -p -- {_quoted(there)}"
        made = self._script(there, script)
        if made.code:
            raise Failed(f"can't make {there}: {made.said[:300]}")
        with gathered(files) as folder:
            self._rsync(["--checksum"] if again else [], folder + "/", _for_rsync(there) + "/")

    def wrong(self, files: Files, there: str) -> list[str]:
        """Return which files differ there, or aren't there."""
        if not files:
            return []
        here = {name: self._hash(path) for name, path in files.items()}
        largest = max(os.path.getsize(path) for path in files.values() if os.path.exists(path))
        answer = same_or_failed(
            self._script(
                there,
                f"cd {_quoted(there)} || exit 44; if command -v sha256sum >/dev/null; "
                "then xargs -0 sha256sum --; else xargs -0 shasum -a 256 --; fi",
                b"\0".join(os.fsencode("./" + name) for name in files),
                patience=largest / SLOWEST,
            ),
            "ssh, while checking,",
            (0, 1, 44, 123),
        )
        far = dict(map(_hashed, answer.out.splitlines()))
        return [name for name in files if far.get(os.fsencode("./" + name)) != here[name]]

    def get(self, there: str, here: str) -> None:
        """Bring a folder, or a file, here."""
        is_folder = self._script(there, f"test -d {_quoted(there)}")
        slash = "" if same_or_failed(is_folder, "no answer, ssh", (0, 1)).code else "/"
        _make(here if slash else os.path.dirname(here))
        self._rsync([], _for_rsync(there) + slash, here + slash)

    def drop(self, folder: str) -> None:
        """Remove a folder there."""
        same_or_failed(self._script(folder, f"rm -rf -- {_quoted(folder)}"), "ssh")

    def _rsync(self, flags: list[str], source: str, target: str) -> None:
        words = [
            "rsync", "-rt", "-8", "--copy-links", "--omit-dir-times", "--executability",
            "--partial", f"--partial-dir={PARTIAL}", "-s", "-e", " ".join(SSH), *flags,
        ]  # fmt: skip
        # 23, 24: a file went away meanwhile, as old checkpoints do; what lacks is found by `wrong`.
        answer = self.tools.run([*words, "--", source, target])
        gone = answer.code == 23 and "No such file or directory" in answer.said
        if not gone:
            same_or_failed(answer, "rsync", (0, 24))

    def _script(
        self, address: str, script: str, source: bytes = b"", patience: float = 0.0
    ) -> Answer:
        """Run a line of shell on the place's machine."""
        return self.tools.run([*SSH, "--", host_of(address), script], source, patience)

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


def host_of(address: str) -> str:
    """Return the host of an address."""
    return address.partition(":")[0]


def far_path(address: str) -> str:
    """Return the path behind HOST:, without the ~/ that a quoted path would keep."""
    path = address.partition(":")[2]
    return (path[2:] if path.startswith("~/") else "" if path == "~" else path) or "."


def _quoted(address: str) -> str:
    path = far_path(address)
    return shlex.quote(path if path.startswith("/") else "./" + path)


def _for_rsync(address: str) -> str:
    return f"{host_of(address)}:{far_path(address)}"


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Failed(f"can't make {folder}: {error.strerror}") from None


def _walk(folder: str) -> Iterator[str]:
    for root, _, names in os.walk(folder):
        for name in names:
            if not name.startswith(".rgt-") and os.path.isfile(os.path.join(root, name)):
                yield os.path.join(root, name)


def _looks_same(source: str, target: str) -> bool:
    """Return whether two files agree in size and time."""
    try:
        here, far = os.stat(source), os.stat(target)
    except OSError:
        return False
    is_near = abs(here.st_mtime_ns - far.st_mtime_ns) < 1_000_000_000
    return not os.path.islink(target) and here.st_size == far.st_size and is_near
