"""The skill's folder: what belongs in it, and how to install, update and remove it.

No other file is lost: a file that this package didn't write, or that was changed, is refused or
stays.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from ..catalogue import bundle
from .config_file import InstallError

PARTS = ("SKILL.md", "references", "profiles", "scripts", "hooks/suggest.py", "hooks/opencode.js")
_LEFT_OUT = {"__pycache__"}


@dataclass
class Folder:
    """A folder that we wrote: its files' sums by relative path, and the parents made for it."""

    path: str
    sums: dict[str, str]
    folders: list[str] = field(default_factory=list)


def contents() -> dict[str, bytes]:
    """The skill's files by relative path. Raises InstallError when one is missing here."""
    root, found = bundle.bundle_root(), {}
    for part in PARTS:
        place = root / part
        files = sorted(place.rglob("*")) if place.is_dir() else [place] if place.is_file() else []
        if not files:
            raise InstallError(f"no {part} in {root}; install remote-gpu-trainer again")
        for file in files:
            if file.is_file() and not _LEFT_OUT & set(file.parts):
                found[file.relative_to(root).as_posix()] = file.read_bytes()
    return found


def there(folder: Path) -> dict[str, str] | None:
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
    return {name: value for name, value in sums.items() if not _LEFT_OUT & set(name.split("/"))}


def sum_of(data: bytes) -> str:
    """The SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Step:
    """What to do with a skill's folder: files to write, files to remove, and others that stay."""

    folder: Path
    write: dict[str, bytes]
    remove: tuple[str, ...]
    stays: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.write or self.remove)


def to_install(folder: Path, known: dict[str, str] | None) -> Step:
    """The step that installs or updates the skill.

    `known` has the sums of what we wrote before. Raises InstallError if a file would be lost.
    """
    files, now = contents(), there(folder)
    if now is None:
        return Step(folder, files, (), ())
    ours = known if known is not None else {name: sum_of(data) for name, data in files.items()}
    foreign = sorted(name for name in now if name not in ours)
    changed = sorted(
        name
        for name in now
        if name in ours and now[name] not in (ours[name], sum_of(files.get(name, b"")))
    )
    if (known is None and foreign) or changed or set(foreign) & set(files):
        raise InstallError(
            f"{folder}: {(changed or foreign)[0]} differs from what this command wrote; "
            "move it away, then run this again"
        )
    write = {name: data for name, data in files.items() if now.get(name) != sum_of(data)}
    return Step(
        folder,
        write,
        tuple(sorted(name for name in now if name in ours and name not in files)),
        tuple(foreign),
    )


def to_remove(folder: Path, known: dict[str, str] | None) -> Step:
    """The step that removes the files that we wrote and nobody changed. Raises InstallError."""
    now = there(folder) or {}
    ours = known if known is not None else {name: sum_of(data) for name, data in contents().items()}
    gone = tuple(sorted(name for name in now if now[name] and now[name] == ours.get(name)))
    return Step(folder, {}, gone, tuple(sorted(set(now) - set(gone))))


def take(step: Step, staging: str) -> None:
    """Carry the step out. A new folder appears at once, in an old one each file does.

    `staging` is the suffix of files while they are written. Raises OSError.
    """
    if step.write and not step.folder.exists():
        new = step.folder.with_name(f".{step.folder.name}{staging}")
        try:
            for name, data in step.write.items():
                _write(new / name, data)
            os.replace(new, step.folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return
    for name, data in sorted(step.write.items(), key=lambda item: item[0] == "SKILL.md"):
        new = step.folder / (name + staging)
        _write(new, data)
        os.replace(new, step.folder / name)
    for name in step.remove:
        (step.folder / name).unlink(missing_ok=True)
    if step.remove:
        _tidy(step.folder)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _tidy(folder: Path) -> None:
    """Remove compiled Python and empty folders in it, and the folder itself if it is empty."""
    for parent, _, _ in os.walk(folder, topdown=False):
        if Path(parent).name in _LEFT_OUT:
            shutil.rmtree(parent, ignore_errors=True)
        elif not os.listdir(parent):
            os.rmdir(parent)
