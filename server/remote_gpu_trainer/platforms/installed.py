"""Read which packages are installed, and which requirements of an entry they meet.

The list may be `pip freeze`, `pip list`, `conda list`, a requirements file, a lock file, or an
interpreter that lists its own packages. Only exact versions count: `torch==2.13.0`, a wheel's file
name, a row of a listing, a package of a lock file. A range doesn't say what is installed. Markers
are evaluated for Linux, where training runs. A package may be left with several versions.

A pre-release counts as its release: the nightly 2.14.0.dev20261101 behaves like 2.14, although
PEP 440 sorts it earlier. A local part (`+cu130`) names a build and is dropped.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from ..catalogue.freshness import BadQuestion

_BEHIND = re.compile(r"\s+(?:#|--|\\).*")  # a comment, an option such as a hash, a continued line
_LOCK = re.compile(r"^\[\[packages?\b|^(?:lock-)?version = ", re.M)
_COLUMNS = re.compile(r"^(?:#\s*Name|Package)\s+Version\b|^# packages in environment at ", re.M)
_ROW = re.compile(r"([A-Za-z0-9][\w.-]*)\s+(\d\S*)(?:\s.*)?")
_CONDA = re.compile(r"([A-Za-z0-9][\w.-]*)=(\d[^=\s]*)(?:=\S+)?")  # of `conda list --export`
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?", re.I)
_LIST = """\
import importlib.metadata as m
for d in m.distributions():
 n = d.metadata['Name']
 n and print(n + '==' + d.version)"""
_BOX = {
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "extra": "",
}
_CONDA_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "tensorflow-gpu": "tensorflow"}
PASS = (
    "pass 'pip freeze' text, requirements.txt, uv.lock, 'pip list', 'conda list', an interpreter "
    "or a virtual environment"
)
LONGEST = 30  # seconds that an interpreter may take to list its packages

# By canonical name: the versions that may be installed, nearly always one.
Versions = dict[str, tuple[Version, ...]]
Match = tuple[Requirement, Version]


class InstalledError(BadQuestion):
    """The list of packages can't be read. The text is one line: what is wrong; what to do."""


def versions(text: str) -> Versions:
    """The exact versions in a listing, a requirements file or a lock file.

    Raises InstalledError if the text is broken or has no exact version.
    """
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
            f"no package with a version in {' '.join(text.split())[:40]!r}; {PASS}"
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
    """The packages that uv.lock, poetry.lock or pylock.toml has for Linux."""
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InstalledError(
            f"the lock file isn't TOML ({error}); write it again, for example with 'uv lock'"
        ) from None
    return _pairs(read.get("package") or read.get("packages"))


def _pairs(rows: object) -> Iterator[tuple[str, str]]:
    """(name, version) of the rows that have both and apply to Linux."""
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
    """Whether one of the markers applies to Linux, can't be read, or there is none."""
    markers = [told for told in markers if isinstance(told, str)]
    for told in markers:
        try:
            if Marker(told).evaluate(_BOX):
                return True
        except (InvalidMarker, UndefinedEnvironmentName):
            return True
    return not markers


def read(place: str) -> str:
    """The text for `versions`: from a file or an interpreter. Raises InstalledError."""
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
                f"{place} doesn't list its packages ({error}); "
                "pass a Python that has importlib.metadata, or 'pip freeze' text"
            ) from None
        return done.stdout
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InstalledError(f"can't read {place} ({error.strerror}); {PASS}") from None
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # what PowerShell writes
    return data.decode("utf-16" if wide else "utf-8", errors="replace")


def plain(version: Version) -> Version:
    """A version without its pre-release and local parts: `1!2.14.0rc1+cu130` gives `1!2.14.0`."""
    kept = f"{version.epoch}!{'.'.join(map(str, version.release))}"
    return Version(f"{kept}.post{version.post}" if version.post is not None else kept)


def requirements(applies_to: Iterable[str]) -> Iterator[Requirement]:
    """The items of `Applies to` that name a package. Skips platforms, GPUs and CUDA."""
    for item in applies_to:
        if ":" in item or item.startswith("cuda"):
            continue
        first, *ranges = item.replace(",", " ").split()
        try:
            yield Requirement(
                ",".join([first, *ranges]) if ranges or any(c in first for c in "<>=!~") else first
            )
        except InvalidRequirement:
            continue


def judged(
    applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]
) -> tuple[list[Match], list[Match]]:
    """The requirements that `have` meets, and those it doesn't meet.

    Skips requirements without a range and packages that aren't installed. If a package may have
    several versions, one that fits is enough.
    """
    fits: list[Match] = []
    fails: list[Match] = []
    for wanted in requirements(applies_to):
        there = have.get(canonicalize_name(wanted.name), ())
        if there and wanted.specifier:
            fitting = [
                version
                for version in there
                if wanted.specifier.contains(plain(version), prereleases=True)
            ]
            (fits if fitting else fails).append((wanted, (fitting or there)[0]))
    return fits, fails


def out_of_range(applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]) -> str:
    """Why an entry is about other versions than these; '' if it isn't.

    A library that isn't installed doesn't count.
    """
    _, fails = judged(applies_to, have)
    return f"about {fails[0][0]}, installed is {fails[0][1]}" if fails else ""
