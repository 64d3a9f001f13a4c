"""What is installed, from whatever tells it: `pip freeze`, `pip list`, `conda list`, a requirements file, a lock file, or an interpreter.

Only what is pinned counts: `torch==2.13.0`, `name @ …/name-1.0-py3-none-any.whl`, a row of a listing, a package of a lock file. A range says nothing
about what is there. Markers are judged for Linux, where the box is; a package that stays with several versions has them all.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .ages import BadQuestion

_BEHIND = re.compile(r"\s+(?:#|--|\\).*")  # a comment, an option such as a hash, a continued line
_LOCK = re.compile(r"^\[\[packages?\b|^(?:lock-)?version = ", re.M)
_COLUMNS = re.compile(r"^(?:#\s*Name|Package)\s+Version\b|^# packages in environment at ", re.M)
_ROW = re.compile(r"([A-Za-z0-9][\w.-]*)\s+(\d\S*)(?:\s.*)?")
_CONDA = re.compile(r"([A-Za-z0-9][\w.-]*)=(\d[^=\s]*)(?:=\S+)?")  # of `conda list --export`
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.I)
_LIST = "import importlib.metadata as m\nfor d in m.distributions():\n n = d.metadata['Name']\n n and print(n + '==' + d.version)"
_BOX = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "extra": "",
}
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "tensorflow-gpu": "tensorflow"}
EXPECTED = "expected 'pip freeze' text, requirements.txt, uv.lock, 'pip list', 'conda list', an interpreter or a virtual environment"
LONGEST = 30  # seconds that an interpreter may take to list its packages

Versions = dict[
    str, tuple[Version, ...]
]  # canonical name: the versions that may be there, nearly always one


class InstalledError(BadQuestion):
    """What is installed can't be read. One line: what was found, what was expected."""


def versions(text: str) -> Versions:
    """The pinned packages of a listing, a requirements file or a lock file. Raises InstalledError when it is broken, or pins nothing."""
    text = text.lstrip("\ufeff")
    found: Versions = {}
    rows = (
        _of_lock(text)
        if _LOCK.search(text)
        else _of_json(text)
        if text.lstrip()[:1] == "["
        else _of_lines(text)
    )
    for name, version in rows:
        name = canonicalize_name(name)
        name = _CONDA_NAMES.get(name, name)
        known = found.get(name, ())
        try:
            read = Version(version)
        except InvalidVersion:
            continue
        if read not in known:
            found[name] = (*known, read)
    if not found:
        raise InstalledError(
            f"found no package with a version in it ({' '.join(text.split())[:40]!r}), {EXPECTED}"
        )
    return found


def _of_lines(text: str) -> Iterator[tuple[str, str]]:
    columns = _COLUMNS.search(text) is not None
    for line in text.splitlines():
        line = line.strip()
        row = _ROW.fullmatch(line) if columns else _CONDA.fullmatch(line)
        if row:
            yield row[1], row[2]
            continue
        try:
            if line.split("#")[0].endswith(".whl") and "@" not in line:
                name, version, *_ = parse_wheel_filename(unquote(line.split("#")[0]).split("/")[-1])
                yield name, str(version)
                continue
            wanted = Requirement(_BEHIND.sub("", line))
            if wanted.marker and not _holds([str(wanted.marker)]):
                continue
            if wanted.url:
                _, version, *_ = parse_wheel_filename(
                    unquote(wanted.url.split("#")[0]).split("/")[-1]
                )
                yield wanted.name, str(version)
        except (InvalidRequirement, InvalidWheelFilename, InvalidVersion):
            continue
        pins = [s.version for s in wanted.specifier if s.operator in ("==", "===")]
        if pins:
            yield wanted.name, pins[0]


def _of_json(text: str) -> Iterator[tuple[str, str]]:
    """`pip list --format=json` and `conda list --json`."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = []
    return _pairs(rows)


def _of_lock(text: str) -> Iterator[tuple[str, str]]:
    """uv.lock, poetry.lock and pylock.toml: their packages, without those that another system gets."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InstalledError(
            f"found a lock file that is broken ({error}), expected uv.lock as uv wrote it; run 'uv lock'"
        ) from None
    return _pairs(read.get("package") or read.get("packages"))


def _pairs(rows: object) -> Iterator[tuple[str, str]]:
    """(name, version) of the rows that have both and are for Linux."""
    for row in rows if isinstance(rows, list) else ():
        if (
            isinstance(row, dict)
            and isinstance(row.get("name"), str)
            and isinstance(row.get("version"), str)
        ):
            told = row.get("resolution-markers") or row.get("marker") or row.get("markers") or []
            if _holds([told] if isinstance(told, str) else told if isinstance(told, list) else []):
                yield row["name"], row["version"]


def _holds(markers: Iterable[object]) -> bool:
    """Whether one of them holds on the box, or there is none. One that can't be read holds."""
    markers = [told for told in markers if isinstance(told, str)]
    for told in markers:
        try:
            if Marker(told).evaluate(_BOX):
                return True
        except (InvalidMarker, UndefinedEnvironmentName):
            return True
    return not markers


def read(place: str) -> str:
    """Text for `versions` from a path: a file as it is, or what an interpreter lists. Raises InstalledError."""
    path = Path(place)
    if path.is_dir():  # a virtual environment
        path = next(
            (p for p in (path / "bin/python", path / "Scripts/python.exe") if p.exists()), path
        )
    if path.is_file() and os.access(path, os.X_OK) and _PYTHON.fullmatch(path.name):
        try:
            done = subprocess.run(
                [str(path.absolute()), "-c", _LIST],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=LONGEST,
                check=True,
                cwd=path.parent,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise InstalledError(
                f"found interpreter {place} that doesn't list its packages ({error}), expected a Python with importlib.metadata"
            ) from None
        return done.stdout
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InstalledError(f"found {place} unreadable ({error.strerror}), {EXPECTED}") from None
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # what PowerShell writes
    return data.decode("utf-16" if wide else "utf-8", errors="replace")
