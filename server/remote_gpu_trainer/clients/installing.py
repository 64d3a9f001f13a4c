"""Install server, skill and hooks into a client's configuration, and uninstall them.

Everything is planned first; then all of it is written, or nothing.
`~/.local/state/remote-gpu-trainer/installed.json` remembers what was written. There is no lock
against a second installation at the same time, but a file that changes between reading and writing
is refused.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..text import write_whole
from . import skill_folder, start_command
from .config_file import Remembered, plan_file, text_of
from .errors import InstallError
from .memory import (
    NOTHING,
    Folder,
    memory_file,
    missing_folders,
    read_memory,
    remembered_files,
    remembered_folder,
)
from .skill_folder import Step
from .table import CLIENTS, Additions, Edit, additions_for, clients_here


@dataclass(frozen=True)
class Change:
    """A configuration file before and after the change; None: no file."""

    file: Path
    before: str | None
    after: str | None

    def __bool__(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True)
class Plan:
    """Everything that one command will do, and what to remember about it.

    `shared_with` are the clients that keep a skill's folder from being removed, `folders` are to
    be removed when they are empty.
    """

    changes: list[Change]
    skill: Step
    note: str = ""
    shared_with: tuple[str, ...] = ()
    memory: dict[str, Any] = field(default_factory=dict)
    folders: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(self.changes) or bool(self.skill)


@dataclass(frozen=True)
class _Before:
    """One client before the command: what it is to have, and what is remembered.

    `key` is its name in the memory, `others` are all other clients there, by name. `memory_folders`
    were made for the file of the memory.
    """

    key: str
    additions: Additions
    hooks: bool
    files: dict[Path, Remembered]
    folder: Folder | None
    others: dict[str, dict[str, Any]]
    memory_folders: list[str]

    @property
    def written(self) -> dict[str, str] | None:
        """The sums of the skill's files as we wrote them; None if that isn't remembered."""
        if self.folder and self.folder.path == str(self.additions.skill):
            return self.folder.sums
        return None


def home_folder(env: Mapping[str, str]) -> Path:
    """The user's home. Raises InstallError."""
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    if not home.is_absolute() or not home.is_dir():
        raise InstallError(f"no home folder at {home}; set HOME, or pass --project DIR")
    return home


def clients_found(env: Mapping[str, str]) -> list[str]:
    """The clients on this machine that can be installed into. Raises InstallError."""
    return clients_here(home_folder(env), env)


def clients_installed(env: Mapping[str, str], project: Path | None = None) -> list[str]:
    """The clients that were installed into, for the user or for one project.

    Raises InstallError.
    """
    home = home_folder(env)
    remembered, _ = read_memory(memory_file(env, home))
    return [client for client in CLIENTS if _key(client, project) in remembered]


def _key(client: str, project: Path | None) -> str:
    """A client's name in the memory."""
    return f"{client} {project.resolve() if project else ''}".strip()


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
    others, memory_folders = read_memory(memory_file(env, home))
    key = _key(client, project)
    remembered = others.pop(key, NOTHING)
    hooks = hooks or bool(remembered.get("hooks"))
    before = _Before(
        key,
        # What was installed with hooks earlier is removed with them, even if that isn't remembered.
        additions_for(client, home, env, project, _words(command, remove), hooks or remove),
        hooks,
        remembered_files(remembered),
        remembered_folder(remembered),
        others,
        memory_folders,
    )
    return _removal(before) if remove else _installation(before)


def _words(command: str | None, remove: bool) -> list[str]:
    """The words that start the server; any will do where it is removed."""
    if command is not None:
        return start_command.words_of(command)
    return ["remove"] if remove else start_command.serve_command()


def _installation(before: _Before) -> Plan:
    """What installs the client, or updates it."""
    changes, files = [], []
    for file in _files(before):
        candidates = _candidates(before, file)
        edits = [edit for edit in candidates if edit in before.additions.edits]
        change, remembered = _change(before, file, edits, candidates)
        changes.append(change)
        if remembered:
            remembered.folders = (
                before.files[file].folders if file in before.files else missing_folders(file.parent)
            )
            files.append(asdict(remembered))
    skill = before.additions.skill
    step = skill_folder.to_install(skill, before.written)
    parents = before.folder.folders if before.folder else missing_folders(skill.parent)
    sums = skill_folder.sums_of(skill_folder.contents())
    memory = {
        **before.others,
        before.key: {
            "files": files,
            "skill": asdict(Folder(str(skill), sums, parents)),
            "hooks": before.hooks,
        },
    }
    return Plan(
        changes,
        step,
        before.additions.note,
        memory={"folders": before.memory_folders, "clients": memory},
    )


def _removal(before: _Before) -> Plan:
    """What uninstalls the client. A skill's folder stays while another client uses it."""
    changes = [_change(before, file, [], _candidates(before, file))[0] for file in _files(before)]
    skill = before.additions.skill
    sharing = tuple(
        name for name, other in before.others.items() if other["skill"].get("path") == str(skill)
    )
    folders = [name for remembered in before.files.values() for name in remembered.folders]
    if sharing:
        step = Step(skill, {}, (), ())
        if before.folder:
            _hand_over_parents(before.folder, before.others[sharing[0]]["skill"])
    else:
        step = skill_folder.to_remove(skill, before.written)
        folders += before.folder.folders if before.folder else []
    memory = {}
    if before.others:
        memory = {"folders": before.memory_folders, "clients": before.others}
    else:
        folders += before.memory_folders
    return Plan(changes, step, "", sharing, memory, [Path(name) for name in folders])


def _hand_over_parents(folder: Folder, other: dict[str, Any]) -> None:
    """Remember a folder's parents with another client: the last to be uninstalled removes them."""
    other["folders"] = list(dict.fromkeys([*folder.folders, *other.get("folders", [])]))


def _files(before: _Before) -> list[Path]:
    """The configuration files that have our values, or are to get them, each once."""
    return list(dict.fromkeys([*before.files, *(edit.file for edit in before.additions.edits)]))


def _candidates(before: _Before, file: Path) -> list[Edit]:
    """The values of ours that may be in this file.

    A file that we wrote earlier may be another one than today's, such as opencode.json beside a
    new opencode.jsonc. Then all our values may be in it.
    """
    edits = before.additions.edits
    return [edit for edit in edits if edit.file == file] or [
        replace(edit, file=file) for edit in edits
    ]


def _change(
    before: _Before, file: Path, edits: list[Edit], candidates: list[Edit]
) -> tuple[Change, Remembered | None]:
    old, new, remembered = plan_file(file, edits, before.files.get(file), candidates)
    return Change(file, old, new), remembered


def carry_out(plan: Plan, env: Mapping[str, str]) -> None:
    """Write what was planned, or restore everything if a part fails. Raises InstallError."""
    file = memory_file(env, home_folder(env))
    memory = json.dumps(plan.memory, ensure_ascii=False, indent=1) + "\n" if plan.memory else None
    changes = [change for change in (*plan.changes, Change(file, text_of(file), memory)) if change]
    done: list[Change] = []
    try:
        for change in changes:
            if text_of(change.file) != change.before:
                raise InstallError(f"{change.file}: changed while this command ran; run this again")
            _write(change.file, change.after)
            done.append(change)
        skill_folder.take(plan.skill, f".{os.getpid()}.new")
    except (OSError, InstallError) as error:
        for change in reversed(done):
            with suppress(OSError):
                _write(change.file, change.before)
        if isinstance(error, InstallError):
            raise
        raise InstallError(
            f"{error.filename or plan.skill.folder}: can't be written ({error.strerror}), "
            "nothing was changed; make it writable, then run this again"
        ) from None
    for folder in sorted(set(plan.folders), key=lambda path: -len(path.parts)):
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
