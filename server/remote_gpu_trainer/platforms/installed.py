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
import sys
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
    result: Versions = {}
    rows = (
        _of_lock(text)
        if _LOCK.search(text)
        else _of_json(text)
        if text.lstrip()[:1] == "["
        else _of_lines(text)
    )
    for written_name, written_version in rows:
        canonical = canonicalize_name(written_name)
        name = _CONDA_NAMES.get(canonical, canonical)
        known = result.get(name, ())
        try:
            version = Version(written_version)
        except InvalidVersion:
            continue
        if version not in known:
            result[name] = (*known, version)
    if not result:
        raise InstalledError(
            f"no package with a version in {' '.join(text.split())[:40]!r}; {PASS}"
        )
    return result


def _of_lines(text: str) -> Iterator[tuple[str, str]]:
    """The rows of a listing, or the lines of a requirements file that name an exact version."""
    row_form = _ROW if _COLUMNS.search(text) else _CONDA
    for line in map(str.strip, text.splitlines()):
        row = row_form.fullmatch(line)
        pair = (row[1], row[2]) if row else _of_requirement(line)
        if pair:
            yield pair


def _of_requirement(line: str) -> tuple[str, str] | None:
    """(name, version) of a line of a requirements file.

    None for a line that gives no exact version, or isn't about Linux. A line may also be the name
    of a wheel alone.
    """
    try:
        if line.split("#")[0].endswith(".whl") and "@" not in line:
            return _of_wheel(line)
        requirement = Requirement(_BEHIND.sub("", line))
        if requirement.marker and not _applies_here([str(requirement.marker)]):
            return None
        if requirement.url:
            return requirement.name, _of_wheel(requirement.url)[1]
    except (InvalidRequirement, InvalidWheelFilename, InvalidVersion):
        return None
    pins = [s.version for s in requirement.specifier if s.operator in ("==", "===")]
    return (requirement.name, pins[0]) if pins else None


def _of_wheel(address: str) -> tuple[str, str]:
    """(name, version) of a wheel by its path or URL. Raises InvalidWheelFilename."""
    name, version, *_ = parse_wheel_filename(unquote(address.split("#")[0]).split("/")[-1])
    return name, str(version)


def _of_json(text: str) -> Iterator[tuple[str, str]]:
    """`pip list --format=json` and `conda list --json`."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = []
    return _pairs(rows)


def _of_lock(text: str) -> Iterator[tuple[str, str]]:
    """The packages that uv.lock, poetry.lock or pylock.toml has for Linux."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        lock = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InstalledError(
            f"the lock file isn't TOML ({error}); write it again, for example with 'uv lock'"
        ) from None
    return _pairs(lock.get("package") or lock.get("packages"))


def _pairs(rows: object) -> Iterator[tuple[str, str]]:
    """(name, version) of the rows that have both and apply to Linux."""
    for row in rows if isinstance(rows, list) else ():
        if (
            isinstance(row, dict)
            and isinstance(row.get("name"), str)
            and isinstance(row.get("version"), str)
        ):
            markers = row.get("resolution-markers") or row.get("marker") or row.get("markers") or []
            if isinstance(markers, str):
                markers = [markers]
            if _applies_here(markers if isinstance(markers, list) else []):
                yield row["name"], row["version"]


def _applies_here(markers: Iterable[object]) -> bool:
    """Whether one of the markers applies to Linux, can't be read, or there is none."""
    texts = [marker for marker in markers if isinstance(marker, str)]
    for text in texts:
        try:
            if Marker(text).evaluate(_BOX):
                return True
        except (InvalidMarker, UndefinedEnvironmentName):
            return True
    return not texts


def read_packages(place: str) -> str:
    """The text for `versions`: from a file or an interpreter. Raises InstalledError."""
    path = Path(place)
    if path.is_dir():  # a virtual environment
        path = next(
            (p for p in (path / "bin/python", path / "Scripts/python.exe") if p.exists()), path
        )
    if path.is_file() and os.access(path, os.X_OK) and _PYTHON.fullmatch(path.name):
        return _listed_by(path, place)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InstalledError(f"can't read {place} ({error.strerror}); {PASS}") from None
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")  # what PowerShell writes
    return data.decode("utf-16" if wide else "utf-8", errors="replace")


def _listed_by(interpreter: Path, place: str) -> str:
    """The packages of an interpreter, in the form of `pip freeze`. `place`: as typed."""
    try:
        done = subprocess.run(
            [str(interpreter.absolute()), "-c", _LIST],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=LONGEST,
            check=True,
            cwd=interpreter.parent,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InstalledError(
            f"{place} doesn't list its packages ({error}); "
            "pass a Python that has importlib.metadata, or 'pip freeze' text"
        ) from None
    return done.stdout


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


def split_requirements(
    applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]
) -> tuple[list[Match], list[Match]]:
    """The requirements that `have` meets, and those it doesn't meet.

    Skips requirements without a range and packages that aren't installed. If a package may have
    several versions, one that fits is enough.
    """
    fits: list[Match] = []
    fails: list[Match] = []
    for requirement in requirements(applies_to):
        versions = have.get(canonicalize_name(requirement.name), ())
        if versions and requirement.specifier:
            fitting = [
                version
                for version in versions
                if requirement.specifier.contains(plain(version), prereleases=True)
            ]
            (fits if fitting else fails).append((requirement, (fitting or versions)[0]))
    return fits, fails


def out_of_range(applies_to: Iterable[str], have: Mapping[str, Sequence[Version]]) -> str:
    """Why an entry is about other versions than these; '' if it isn't.

    A library that isn't installed doesn't count.
    """
    _, fails = split_requirements(applies_to, have)
    return f"about {fails[0][0]}, installed is {fails[0][1]}" if fails else ""
