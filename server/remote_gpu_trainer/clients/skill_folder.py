"""The skill's folder in a client: install, update and remove it without losing a user's file."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..catalogue import bundle
from .errors import InstallError

SKILL = ("SKILL.md", "references", "profiles", "scripts")  # what skills/list of the server lists
PARTS = (*SKILL, "hooks/suggest.py", "hooks/signatures.txt", "hooks/opencode.js")
_COMPILED = "__pycache__"  # Python makes it, wherever a script of the skill has run


@dataclass(frozen=True)
class Step:
    """What to do with a skill's folder: files to write, files to remove, and others that stay.

    Files are paths relative to `folder`.
    """

    folder: Path
    write: dict[str, bytes]
    remove: tuple[str, ...]
    stays: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.write or self.remove)


def contents() -> dict[str, bytes]:
    """The skill's files by relative path. Raises InstallError when one is missing here."""
    root, files = bundle.bundle_root(), {}
    for part in PARTS:
        place = root / part
        paths = sorted(place.rglob("*")) if place.is_dir() else [place] if place.is_file() else []
        if not paths:
            raise InstallError(f"no {part} in {root}; install remote-gpu-trainer again")
        for path in paths:
            if path.is_file() and _COMPILED not in path.parts:
                files[path.relative_to(root).as_posix()] = path.read_bytes()
    return files


def sums_of(files: dict[str, bytes]) -> dict[str, str]:
    """The sum of each file."""
    return {name: sum_of(data) for name, data in files.items()}


def sum_of(data: bytes) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sums_in(folder: Path) -> dict[str, str] | None:
    """The sums of the files in a folder by relative path, None if there is no folder.

    Anything that isn't a regular file has the sum ''. Raises InstallError.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        kind = "link" if folder.is_symlink() else "file"
        raise InstallError(f"{folder}: a {kind}, not a folder; move it away, then run this again")
    if not folder.exists():
        return None
    sums = {}
    try:
        for parent, folders, files in os.walk(folder):
            # os.walk calls a link to a folder a folder, and doesn't go into it.
            for name in [*files, *(name for name in folders if (Path(parent) / name).is_symlink())]:
                path = Path(parent) / name
                plain = path.is_file() and not path.is_symlink()
                sums[path.relative_to(folder).as_posix()] = (
                    sum_of(path.read_bytes()) if plain else ""
                )
    except OSError as error:
        raise InstallError(
            f"{folder}: can't be read ({error.strerror}); make it readable, then run this again"
        ) from None
    return {name: value for name, value in sums.items() if _COMPILED not in name.split("/")}


def to_install(folder: Path, written: dict[str, str] | None) -> Step:
    """The step that installs or updates the skill.

    `written` has the sums of what we wrote before, None if that isn't known. Raises InstallError
    if a file would be lost.
    """
    files, present = contents(), sums_in(folder)
    if present is None:
        return Step(folder, files, (), ())
    ours = written if written is not None else sums_of(files)
    foreign = sorted(name for name in present if name not in ours)
    changed = sorted(
        name
        for name in present
        if name in ours and present[name] not in (ours[name], sum_of(files.get(name, b"")))
    )
    # Without a memory of it, a folder with files of others isn't ours, whatever else it holds.
    if (written is None and foreign) or changed or set(foreign) & set(files):
        raise InstallError(
            f"{folder}: {(changed or foreign)[0]} differs from what this command wrote; "
            "move it away, then run this again"
        )
    return Step(
        folder,
        {name: data for name, data in files.items() if present.get(name) != sum_of(data)},
        tuple(sorted(name for name in present if name in ours and name not in files)),
        tuple(foreign),
    )


def to_remove(folder: Path, written: dict[str, str] | None) -> Step:
    """The step that removes the files that we wrote and nobody changed. Raises InstallError."""
    present = sums_in(folder) or {}
    ours = written if written is not None else sums_of(contents())
    gone = tuple(
        sorted(name for name in present if present[name] and present[name] == ours.get(name))
    )
    return Step(folder, {}, gone, tuple(sorted(set(present) - set(gone))))


def take(step: Step, staging: str) -> None:
    """Carry the step out. A new folder appears at once, in an old one each file does.

    `staging` is the suffix of files while they are written. Raises OSError.
    """
    if step.write and not step.folder.exists():
        _write_folder(step, staging)
        return
    # SKILL.md last: a client that reads the folder meanwhile finds every page that it names.
    for name, data in sorted(step.write.items(), key=lambda item: item[0] == "SKILL.md"):
        new = step.folder / (name + staging)
        _write_bytes(new, data)
        os.replace(new, step.folder / name)
    for name in step.remove:
        (step.folder / name).unlink(missing_ok=True)
    if step.remove:
        _tidy(step.folder)


def _write_folder(step: Step, staging: str) -> None:
    new = step.folder.with_name(f".{step.folder.name}{staging}")
    try:
        for name, data in step.write.items():
            _write_bytes(new / name, data)
        os.replace(new, step.folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _tidy(folder: Path) -> None:
    """Remove compiled Python and empty folders in it, and the folder itself if it is empty."""
    for parent, _, _ in os.walk(folder, topdown=False):
        if Path(parent).name == _COMPILED:
            shutil.rmtree(parent, ignore_errors=True)
        elif not os.listdir(parent):
            os.rmdir(parent)
