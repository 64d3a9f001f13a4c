"""Read what this program keeps on the user's machine: each file by one model, a dataclass.

A file that isn't as it was written is never taken for an empty one: it is `Damaged`, and the text
says which file, what is wrong and what to do.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from ..text import UserError, write_whole
from ..text.locking import lock

STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}  # of a model of a whole file
LINE = {"strict": True, "extra": "ignore", "allow_inf_nan": False}  # of one of a line


class _Seconds:
    """Let a model take only seconds since 1970 until the year 5138; milliseconds lie above."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "ge": 0.0, "lt": 1e11, "allow_inf_nan": False}


Seconds = Annotated[float, _Seconds()]


class Damaged(UserError):
    """A file that isn't taken for what it was written as. What is wrong; what to do.

    `at`: when it was last written, in seconds since 1970, inf where that isn't known. What it held
    is of no later time.
    """

    def __init__(self, file: Path, fault: str):
        super().__init__(fault)
        try:
            self.at = file.lstat().st_mtime
        except OSError:
            self.at = float("inf")


class Withheld(Damaged):
    """A file that isn't read, because others may have written it, or this user may not read it."""


def read(file: Path, model: Any, do: str) -> Any:
    """Return what a file of JSON holds, None where there is none. Raises Damaged."""
    _see_owner(file)
    try:
        return _model(model).validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(file, error, do) from None


def read_all(folder: Path, model: Any, do: str) -> tuple[list[Any], list[Damaged]]:
    """Return what each *.json of a folder holds, and what is wrong with the others."""
    found, damage = [], []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except FileNotFoundError:
        names = []
    except OSError as error:
        damaged = _damaged(folder, error, do)
        damaged.at = float("inf")  # a folder's time isn't that of what its files hold
        return [], [damaged]
    for name in names:
        try:
            value = read(folder / name, model, do)
            found += [] if value is None else [value]
        except Damaged as error:
            damage.append(error)
    return found, damage


def read_lines(file: Path, model: Any, do: str, most: int) -> tuple[list[Any], Damaged | None]:
    """Return what the lines of a file hold, and what is wrong with it, None for nothing.

    `most`: bytes of its end that are read.
    """
    try:
        _see_owner(file)
        with file.open("rb") as data:
            size = data.seek(0, os.SEEK_END)
            data.seek(max(0, size - most))
            lines = data.read(most).split(b"\n")
    except FileNotFoundError:
        return [], None
    except Damaged as error:
        return [], error
    except (OSError, ValueError) as error:
        return [], _damaged(file, error, do)
    lines = lines[1:] if size > most else lines
    found, bad, what = [], [], ""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_model(model).validate_json(line))
            except ValueError as error:
                bad.append(number)
                what = what or _what(error)
    if not bad:
        return found, None
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    of = " of its end" if size > most else ""
    return found, Damaged(file, f"{file} is damaged (line {bad[0]}{of}{more}: {what}); {do}")


def append(file: Path, line: bytes, sync: bool = False) -> None:
    """Add a whole line or nothing, under a lock; a cut last one stays alone. Raises OSError."""
    make_folder(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        lock(descriptor)
        size = os.fstat(descriptor).st_size
        if size and os.lseek(descriptor, size - 1, os.SEEK_SET) and os.read(descriptor, 1) != b"\n":
            line = b"\n" + line
        if os.write(descriptor, line + b"\n") <= len(line):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(file: Path, waits: bool = True) -> Iterator[None]:
    """Let one process at a time have a file of locks. Raises OSError, as `lock` does."""
    make_folder(file.parent)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(descriptor, waits)
        yield
    finally:
        os.close(descriptor)


def write(file: Path, data: bytes) -> None:
    """Write a whole file that only this user can read. Raises OSError."""
    make_folder(file.parent)
    write_whole(file, data, 0o600)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above that aren't there, which only this user can change whatever
    the umask. Raises OSError."""
    for one in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        one.mkdir(0o700, exist_ok=True)


def exposed(*folders: Path) -> list[str]:
    """Return why others may have changed what lies in these folders and what to do, a sentence
    each; [] where they can't have.

    Whoever can change a folder above can put another in the place of one of these: so those count
    too, up to the home. Above, one like /tmp may be written by all: there each keeps its own.
    """
    own = {one for folder in folders for one in (folder.absolute(), folder.resolve())}
    home = Path(os.path.expanduser("~"))
    higher = {*home.parents, *home.resolve().parents}
    above = {one for folder in own for one in folder.parents} - own - higher
    shared = {one for one in above if (info := _stat(one)) and info.st_mode & stat.S_ISVTX}
    return _theirs(own | above, shared)


def _theirs(paths: set[Path], shared: set[Path] | None = None) -> list[str]:
    """Return why others may have changed these paths and what to do. `shared`: all may write it."""
    user = getattr(os, "geteuid", lambda: None)()
    if user is None:  # Windows has no such users
        return []
    found = {path: info for path in sorted(paths) if (info := _stat(path))}
    owned = [path for path, info in found.items() if info.st_uid not in (0, user)]
    closed = {*owned, *(shared or ())}
    written = [one for one, info in found.items() if info.st_mode & 0o022 and one not in closed]
    said = []
    for what, command, some in (
        ("others can write", "chmod go-w", written),
        ("another user owns", f"sudo chown {user}", owned),
    ):
        which, it = shlex.join(map(str, some)), "it holds" if len(some) == 1 else "they hold"
        said += [f"{what} {which}; look at what {it}, then run {command} {which}"] if some else []
    return said


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _see_owner(file: Path) -> None:
    """Raise Damaged for a file that another user made or may change, or that is a pipe."""
    info = _stat(file)
    if info is None:  # who reads it says so
        return
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
        raise Damaged(file, f"{file} is damaged (it is no plain file); delete it")
    if why := _theirs({file}):
        raise Withheld(file, why[0])


def _damaged(file: Path, error: OSError | ValueError, do: str) -> Damaged:
    what = _what(error)
    if isinstance(error, PermissionError):
        which = shlex.quote(str(file))
        return Withheld(file, f"{file} can't be read ({what}); run chmod u+r {which}")
    return Damaged(file, f"{file} is damaged ({what}); {do}")


@cache
def _model(model: Any) -> Any:
    from pydantic import TypeAdapter  # most commands read no such file

    return TypeAdapter(model)


def _what(error: OSError | ValueError) -> str:
    """Return what is wrong with a file, in words of ours: its own may be anybody's."""
    if isinstance(error, OSError):
        return (error.strerror or "it can't be opened").lower()
    if isinstance(error, UnicodeDecodeError):
        return "it isn't UTF-8"
    from pydantic import ValidationError

    first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else {}
    at = ".".join(str(part) for part in first.get("loc", ()) if str(part).isidentifier())
    if first.get("type") == "json_invalid":
        return "it isn't JSON"
    if first.get("type") == "missing":
        return f"{at} is missing"
    return f"{at or 'what it holds'} isn't what belongs there"
