"""Read what this program keeps on the user's machine: each file by one model, a dataclass.

A file that isn't as it was written is never taken for an empty one: it is `Damaged`, and the text
says which file, what is wrong and what to do.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from ..text import UserError
from ..text.locking import lock

STRICT = {"strict": True, "extra": "forbid", "allow_inf_nan": False}  # of a model of a whole file
LINE = {"strict": True, "extra": "ignore", "allow_inf_nan": False}  # of one of a line


class _Seconds:
    """Let a model take only seconds since 1970 until the year 5138; milliseconds lie above."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return {**handler(source), "ge": 0.0, "lt": 1e11, "allow_inf_nan": False}


Seconds = Annotated[float, _Seconds()]


class Damaged(UserError):
    """A file that can't be read as what it was written. What is wrong; what to do.

    `at`: when it was last written, in seconds since 1970, inf where that isn't known. What it held
    is of no later time.
    """

    def __init__(self, file: Path, what: str, do: str):
        super().__init__(f"{file} is damaged ({what}); {do}")
        try:
            self.at = file.lstat().st_mtime
        except OSError:
            self.at = float("inf")


def read(file: Path, model: Any, do: str) -> Any:
    """Return what a file of JSON holds, None where there is none. Raises Damaged."""
    _see_owner(file)
    try:
        return _model(model).validate_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise Damaged(file, _what(error), do) from None


def read_all(folder: Path, model: Any, do: str) -> tuple[list[Any], list[Damaged]]:
    """Return what each *.json of a folder holds, and what is wrong with the others."""
    found, damage = [], []
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except FileNotFoundError:
        names = []
    except OSError as error:
        damaged = Damaged(folder, _what(error), do)
        damaged.at = float("inf")  # a folder's time isn't that of what its files hold
        return [], [damaged]
    for name in names:
        try:
            told = read(folder / name, model, do)
            found += [] if told is None else [told]
        except Damaged as error:
            damage.append(error)
    return found, damage


def read_lines(file: Path, model: Any, do: str, most: int) -> tuple[list[Any], str]:
    """Return what the lines of a file hold, and what is wrong with it, '' for nothing.

    `most`: bytes of its end that are read.
    """
    try:
        _see_owner(file)
        with file.open("rb") as data:
            size = data.seek(0, os.SEEK_END)
            data.seek(max(0, size - most))
            lines = data.read(most).split(b"\n")
    except FileNotFoundError:
        return [], ""
    except Damaged as error:
        return [], str(error)
    except (OSError, ValueError) as error:
        return [], str(Damaged(file, _what(error), do))
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
        return found, ""
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    of = " of its end" if size > most else ""
    return found, str(Damaged(file, f"line {bad[0]}{of}{more}: {what}", do))


def append(file: Path, line: bytes, sync: bool = False) -> None:
    """Add a whole line or nothing, under a lock; a cut last one stays alone. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


def _see_owner(file: Path) -> None:
    """Raise Damaged for a file that another user made or may change, or that is a pipe."""
    try:
        told = file.stat()
    except OSError:  # who reads it says so
        return
    if not stat.S_ISREG(told.st_mode) and not stat.S_ISDIR(told.st_mode):
        raise Damaged(file, "it is no plain file", "delete it")
    own_user = getattr(os, "geteuid", None)  # Windows has no such users
    if own_user and (told.st_uid not in (0, own_user()) or told.st_mode & 0o022):
        raise Damaged(
            file, "another user made it or can write it",
            "read it, and once it is as you left it, make it yours and run chmod 600 on it",
        )  # fmt: skip


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
