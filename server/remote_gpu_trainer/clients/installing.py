"""Install server, skill and hooks into a client's configuration, and uninstall them.

Everything is planned first; then all of it is written, or nothing.
`~/.local/state/remote-gpu-trainer/installed.json` remembers what was written as offsets and sums,
not as content, because configurations hold keys. There is no lock against a second installation at
the same time, but a file that changes between reading and writing is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

from .. import __version__
from ..catalogue import bundle
from ..text import write_whole
from .config_file import InstallError, Remembered, planned, text_of
from .configs import NAME, Wanted, wanted

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
                _write_bytes(new / name, data)
            os.replace(new, step.folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return
    for name, data in sorted(step.write.items(), key=lambda item: item[0] == "SKILL.md"):
        new = step.folder / (name + staging)
        _write_bytes(new, data)
        os.replace(new, step.folder / name)
    for name in step.remove:
        (step.folder / name).unlink(missing_ok=True)
    if step.remove:
        _tidy(step.folder)


def _write_bytes(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _tidy(folder: Path) -> None:
    """Remove compiled Python and empty folders in it, and the folder itself if it is empty."""
    for parent, _, _ in os.walk(folder, topdown=False):
        if Path(parent).name in _LEFT_OUT:
            shutil.rmtree(parent, ignore_errors=True)
        elif not os.listdir(parent):
            os.rmdir(parent)


@dataclass(frozen=True)
class Change:
    """A configuration file before and after the change; None: no file."""

    file: Path
    before: str | None
    after: str | None

    def __bool__(self) -> bool:
        return self.before != self.after


@dataclass
class Plan:
    """Everything that one command will do, and what to remember about it."""

    changes: list[Change]
    skill: Step
    note: str = ""
    shared_with: tuple[str, ...] = ()
    memory: dict = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)  # to remove when they are empty

    def __bool__(self) -> bool:
        return any(self.changes) or bool(self.skill)


def memory_file(env: Mapping[str, str], home: Path) -> Path:
    """The file in which this package remembers what it installed."""
    state = env.get("XDG_STATE_HOME", "")
    return (
        (Path(state) if os.path.isabs(state) else home / ".local" / "state")
        / NAME
        / "installed.json"
    )


def _memory(file: Path) -> tuple[dict, list]:
    """What was installed before, by client, and the folders made for this file.

    A file that can't be read counts as missing.
    """
    try:
        found = json.loads(text_of(file) or "")
        clients = {
            key: value
            for key, value in found["clients"].items()
            if isinstance(value["files"], list) and isinstance(value["skill"], dict)
        }
        return clients, [str(name) for name in found["folders"]]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return {}, _missing(file.parent)


def home_folder(env: Mapping[str, str]) -> Path:
    """The user's home. Raises InstallError."""
    found = Path(env.get("HOME") or os.path.expanduser("~"))
    if not found.is_absolute() or not found.is_dir():
        raise InstallError(f"no home folder at {found}; set HOME, or pass --project DIR")
    return found


def serve_command() -> list[str]:
    """The words of a command that starts this installation's server and will keep working."""
    if "archive-v0" in Path(sys.prefix).parts:  # uvx may delete its environment
        direct = metadata.distribution(NAME).read_text("direct_url.json")
        source = json.loads(direct)["url"] if direct else f"{NAME}=={__version__}"
        return [shutil.which("uvx") or "uvx", "--from", source, NAME, "serve"]
    script = Path(sys.executable).parent / (NAME + (".exe" if os.name == "nt" else ""))
    return (
        [str(script), "serve"]
        if script.is_file()
        else [sys.executable, "-m", "remote_gpu_trainer", "serve"]
    )


def plan(
    client: str,
    env: Mapping[str, str],
    project: Path | None = None,
    *,
    hooks: bool = False,
    command: str | None = None,
    remove: bool = False,
) -> Plan:
    """What has to change for `client`, for the user or for one project. Writes nothing.

    `command` starts the server instead of `serve_command()`; `remove` uninstalls everything.
    Raises InstallError.
    """
    home = home_folder(env)
    if project:
        project = project.resolve()
        if not project.is_dir():
            raise InstallError(f"no folder at {project}; create it, or pass another with --project")
    place = memory_file(env, home)
    memory, own_folders = _memory(place)
    key = f"{client} {project or ''}".strip()
    entry = memory.pop(key, {"files": [], "skill": {}, "hooks": False})
    known = {
        Path(item["file"]): Remembered(**item) for item in _well_formed(entry["files"], Remembered)
    }
    folder = next((Folder(**item) for item in _well_formed([entry["skill"]], Folder)), None)
    hooks = hooks or bool(entry.get("hooks"))
    serve = _words(command) if command is not None else ["remove"] if remove else serve_command()
    target = wanted(client, home, env, project, serve, hooks or remove)

    changes, files = [], []
    for file in dict.fromkeys([*known, *(edit.file for edit in target.edits)]):
        candidates = [edit for edit in target.edits if edit.file == file] or [
            replace(edit, file=file) for edit in target.edits
        ]
        edits = [edit for edit in candidates if edit in target.edits and not remove]
        before, after, remembered = planned(file, edits, known.get(file), candidates)
        changes.append(Change(file, before, after))
        if remembered:
            remembered.folders = known[file].folders if file in known else _missing(file.parent)
            files.append(asdict(remembered))
    others = tuple(
        name for name, other in memory.items() if other["skill"].get("path") == str(target.skill)
    )
    if remove and folder and others:  # the last client to be uninstalled removes the parents
        memory[others[0]]["skill"]["folders"] = list(
            dict.fromkeys([*folder.folders, *memory[others[0]]["skill"].get("folders", [])])
        )
    result = Plan(
        changes,
        _skill_step(target, folder, others, remove),
        "" if remove else target.note,
        others if remove else (),
    )
    if remove:
        result.folders = [
            Path(name)
            for item in (*known.values(), *([folder] if folder and not others else []))
            for name in item.folders
        ]
    else:
        parents = folder.folders if folder else _missing(target.skill.parent)
        sums = {name: sum_of(data) for name, data in contents().items()}
        memory[key] = {
            "files": files,
            "skill": asdict(Folder(str(target.skill), sums, parents)),
            "hooks": hooks,
        }
    if memory:
        result.memory = {"folders": own_folders, "clients": memory}
    else:
        result.folders += [Path(name) for name in own_folders]
    return result


def _words(command: str) -> list[str]:
    with suppress(ValueError):
        if words := shlex.split(command):
            return words
    raise InstallError(
        f"--command {command[:60]!r} isn't a command line; write a command and close its quotes"
    )


def _skill_step(
    target: Wanted, folder: Folder | None, others: tuple[str, ...], remove: bool
) -> Step:
    known = folder.sums if folder and folder.path == str(target.skill) else None
    if not remove:
        return to_install(target.skill, known)
    return Step(target.skill, {}, (), ()) if others else to_remove(target.skill, known)


def _well_formed(items: list, kind: type) -> list[dict]:
    names = set(kind.__dataclass_fields__)
    return [item for item in items if isinstance(item, dict) and set(item) == names]


def _missing(folder: Path) -> list[str]:
    """The missing ones of a folder and its parents, deepest first."""
    found = []
    while not folder.exists() and folder != folder.parent:
        found.append(str(folder))
        folder = folder.parent
    return found


def carry_out(made: Plan, env: Mapping[str, str]) -> None:
    """Write what was planned, or restore everything if a part fails. Raises InstallError."""
    file = memory_file(env, home_folder(env))
    remembered = (
        json.dumps(made.memory, ensure_ascii=False, indent=1) + "\n" if made.memory else None
    )
    changes = [
        change for change in (*made.changes, Change(file, text_of(file), remembered)) if change
    ]
    done: list[Change] = []
    try:
        for change in changes:
            if text_of(change.file) != change.before:
                raise InstallError(f"{change.file}: changed while this command ran; run this again")
            _write(change.file, change.after)
            done.append(change)
        take(made.skill, f".{os.getpid()}.new")
    except (OSError, InstallError) as error:
        for change in reversed(done):
            with suppress(OSError):
                _write(change.file, change.before)
        if isinstance(error, InstallError):
            raise
        raise InstallError(
            f"{error.filename or made.skill.folder}: can't be written ({error.strerror}), "
            "nothing was changed; make it writable, then run this again"
        ) from None
    for folder in sorted(set(made.folders), key=lambda path: -len(path.parts)):
        with suppress(OSError):
            folder.rmdir()


def _write(file: Path, text: str | None) -> None:
    """Replace a file in one step and keep its mode; a link stays a link. Raises OSError."""
    target = Path(os.path.realpath(file))
    if text is None:
        target.unlink(missing_ok=True)
        return
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    write_whole(target, text.encode("utf-8", "surrogatepass"), mode)
