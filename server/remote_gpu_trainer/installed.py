"""What is installed, from whatever tells it: `pip freeze` text, a requirements file, a `uv.lock`, or an interpreter.

Only what is pinned counts: `torch==2.13.0`, `name @ …/name-1.0-py3-none-any.whl`, a package of a lock file. A range says nothing about what is there.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from .ages import BadQuestion

_BEHIND = re.compile(r"\s+(?:#|--|\\).*")  # a comment, an option such as a hash, a continued line
_LOCK = re.compile(r"^\[\[package\]\]\s*$", re.M)
_LIST = "import importlib.metadata as m\nfor d in m.distributions():\n n = d.metadata['Name']\n n and print(n + '==' + d.version)"
LONGEST = 30  # seconds that an interpreter may take to list its packages


class InstalledError(BadQuestion):
    """What is installed can't be read. One line: what was found, what was expected."""


def versions(text: str) -> dict[str, Version]:
    """{canonical name: version} of a freeze, a requirements file or a lock file. Raises InstalledError for a broken lock file."""
    if _LOCK.search(text):
        return _of_lock(text)
    found: dict[str, Version] = {}
    for line in text.lstrip("\ufeff").splitlines():
        try:
            wanted = Requirement(_BEHIND.sub("", line.strip()))
            if wanted.url:
                _, version, *_ = parse_wheel_filename(unquote(wanted.url.split("#")[0]).split("/")[-1])
                found[canonicalize_name(wanted.name)] = version
        except (InvalidRequirement, InvalidWheelFilename, InvalidVersion):
            continue
        pins = [s.version for s in wanted.specifier if s.operator in ("==", "===")]
        if pins:
            _add(found, wanted.name, pins[0])
    return found


def _of_lock(text: str) -> dict[str, Version]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    try:
        packages = tomllib.loads(text).get("package", [])
    except tomllib.TOMLDecodeError as error:
        raise InstalledError(f"found a lock file that is broken ({error}), expected uv.lock as uv wrote it; run 'uv lock'") from None
    found: dict[str, Version] = {}
    for package in packages if isinstance(packages, list) else ():
        if isinstance(package, dict) and isinstance(package.get("name"), str) and isinstance(package.get("version"), str):
            _add(found, package["name"], package["version"])
    return found


def _add(found: dict[str, Version], name: str, version: str) -> None:
    try:
        found[canonicalize_name(name)] = Version(version)
    except InvalidVersion:
        pass


def read(place: str) -> str:
    """Text for `versions` from a path: a file as it is, or what an interpreter lists. Raises InstalledError."""
    path = Path(place)
    if path.is_dir():  # a virtual environment
        path = next((p for p in (path / "bin/python", path / "Scripts/python.exe") if p.exists()), path)
    if path.is_file() and os.access(path, os.X_OK) and path.name.lower().startswith(("python", "pypy")):
        try:
            done = subprocess.run([str(path.absolute()), "-c", _LIST], capture_output=True, text=True, timeout=LONGEST, check=True, cwd=path.parent)
        except (OSError, subprocess.SubprocessError) as error:
            raise InstalledError(f"found interpreter {place} that doesn't list its packages ({error}), expected a Python with importlib.metadata") from None
        return done.stdout
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InstalledError(
            f"found {place} unreadable ({error.strerror}), expected 'pip freeze' text, requirements.txt, uv.lock, an interpreter or a virtual environment"
        ) from None
