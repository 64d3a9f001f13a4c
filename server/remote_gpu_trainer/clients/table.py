"""Where each client keeps its servers, skills and hooks, and what this package adds there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "remote-gpu-trainer"
WITH_HOOKS = ("claude-code", "opencode")
_AFTER = "Bash|BashOutput|TaskOutput|Read"
# The tools of which each event tells; a prompt has none.
_HOOK_EVENTS = {
    "UserPromptSubmit": None,
    "PreToolUse": "Bash",
    "PostToolUse": _AFTER,
    "PostToolUseFailure": _AFTER,
}


@dataclass(frozen=True)
class Edit:
    """One value in one file: at `path`, or with `append` as an item of the list at `path`."""

    file: Path
    path: tuple[str, ...]
    value: Any
    append: bool = False

    @property
    def toml(self) -> bool:
        """Whether the file is TOML rather than JSON."""
        return self.file.suffix == ".toml"


@dataclass(frozen=True)
class Additions:
    """What one client gets: values in its files, the skill's folder, and a note for the user."""

    edits: tuple[Edit, ...]
    skill: Path
    note: str = ""


@dataclass(frozen=True)
class Setting:
    """For whom a client is set up: for the user, or for the people of one project.

    `command` are the words that start the server, `exists` tells whether a file exists.
    """

    home: Path
    env: Mapping[str, str]
    project: Path | None
    command: list[str]
    hooks: bool
    exists: Callable[[Path], bool]

    @property
    def base(self) -> Path:
        """The folder below which most clients keep their own."""
        return self.project or self.home

    @property
    def server(self) -> dict[str, Any]:
        """The server as most clients write it."""
        return {"command": self.command[0], "args": self.command[1:]}


def additions_for(
    client: str,
    home: Path,
    env: Mapping[str, str],
    project: Path | None,
    command: list[str],
    hooks: bool,
    exists: Callable[[Path], bool] = Path.exists,
) -> Additions:
    """What `client`, one of CLIENTS, gets for the user or for one project.

    `env` may name other folders for the user's configuration.
    """
    return _CLIENTS[client](Setting(home, env, project, command, hooks, exists))


def _claude_code(setting: Setting) -> Additions:
    own = setting.env.get("CLAUDE_CONFIG_DIR")
    if setting.project:
        settings, file = setting.project / ".claude", setting.project / ".mcp.json"
    elif own:
        settings, file = Path(own), Path(own) / ".claude.json"
    else:
        settings, file = setting.home / ".claude", setting.home / ".claude.json"
    skill = settings / "skills" / NAME
    edits = [Edit(file, ("mcpServers", NAME), {"type": "stdio", **setting.server})]
    if setting.hooks:
        run = {
            "type": "command",
            "command": f'python3 "{(skill / "hooks" / "suggest.py").as_posix()}"',
            "timeout": 5,
        }
        edits += [
            Edit(
                settings / "settings.json",
                ("hooks", event),
                {"matcher": tools, "hooks": [run]} if tools else {"hooks": [run]},
                append=True,
            )
            for event, tools in _HOOK_EVENTS.items()
        ]
    note = (
        "Claude Code asks once whether to trust the project's server; "
        "start claude there and answer yes."
        if setting.project
        else ""
    )
    return Additions(tuple(edits), skill, note)


def _opencode(setting: Setting) -> Additions:
    own = Path(setting.env.get("XDG_CONFIG_HOME") or setting.home / ".config") / "opencode"
    folder = setting.project or own
    commented = folder / "opencode.jsonc"
    file = commented if setting.exists(commented) else folder / "opencode.json"
    skill = (setting.project / ".opencode" if setting.project else own) / "skills" / NAME
    server = {"type": "local", "command": setting.command, "enabled": True}
    edits = [Edit(file, ("mcp", NAME), server)]
    if setting.hooks:
        plugin = (skill / "hooks" / "opencode.js").absolute().as_uri()
        edits.append(Edit(file, ("plugin",), plugin, append=True))
    return Additions(
        tuple(edits), skill, "Restart opencode: it reads its configuration only at the start."
    )


def _codex(setting: Setting) -> Additions:
    if setting.project:
        folder = setting.project / ".codex"
        note = (
            "Codex reads the configuration of trusted projects only; "
            "start codex there and answer yes."
        )
    else:
        folder, note = Path(setting.env.get("CODEX_HOME") or setting.home / ".codex"), ""
    edit = Edit(folder / "config.toml", ("mcp_servers", NAME), setting.server)
    return Additions((edit,), setting.base / ".agents" / "skills" / NAME, note)


def _gemini(setting: Setting) -> Additions:
    folder = setting.base / ".gemini"
    return Additions(
        (Edit(folder / "settings.json", ("mcpServers", NAME), setting.server),),
        folder / "skills" / NAME,
        "Gemini CLI starts servers in trusted folders only; answer yes when it asks.",
    )


def _cursor(setting: Setting) -> Additions:
    folder = setting.base / ".cursor"
    edit = Edit(folder / "mcp.json", ("mcpServers", NAME), setting.server)
    return Additions((edit,), folder / "skills" / NAME)


def _skill(setting: Setting) -> Additions:
    """Only the skill, in the folder that several clients read."""
    return Additions((), setting.base / ".agents" / "skills" / NAME)


_CLIENTS: dict[str, Callable[[Setting], Additions]] = {
    "claude-code": _claude_code,
    "opencode": _opencode,
    "codex": _codex,
    "gemini": _gemini,
    "cursor": _cursor,
    "skill": _skill,
}
CLIENTS = tuple(_CLIENTS)
_PROGRAMS = {
    "claude-code": "claude",
    "opencode": "opencode",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
}


def clients_here(home: Path, env: Mapping[str, str]) -> list[str]:
    """The clients on this machine, in the order of CLIENTS.

    A client is here if its program is on PATH, or if it has a folder or file of its own in the
    user's configuration.
    """
    own = {
        "claude-code": [env.get("CLAUDE_CONFIG_DIR") or home / ".claude", home / ".claude.json"],
        "opencode": [Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"],
        "codex": [env.get("CODEX_HOME") or home / ".codex"],
        "gemini": [home / ".gemini"],
        "cursor": [home / ".cursor"],
    }
    return [
        client
        for client, program in _PROGRAMS.items()
        if shutil.which(program, path=env.get("PATH", ""))
        or any(Path(place).exists() for place in own[client])
    ]


def is_ours(value: object) -> bool:
    """Whether a server's entry starts our server, or an item of a list is one of our hooks."""
    if isinstance(value, str):
        return value.startswith("file:") and value.endswith(f"/{NAME}/hooks/opencode.js")
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("hooks"), list):
        return len(value["hooks"]) == 1 and f"{NAME}/hooks/suggest.py" in json.dumps(value["hooks"])
    words = _command_words(value)
    # The package's own spelling counts too: python -m remote_gpu_trainer serve
    return (
        bool(words)
        and words[-1] == "serve"
        and any(NAME in str(word).replace("_", "-") for word in words)
    )


def _command_words(server: dict) -> list:
    """The words of a server's command: one list (opencode), or a program and its arguments."""
    command, arguments = server.get("command"), server.get("args")
    if isinstance(command, list):
        return command
    return [command, *(arguments if isinstance(arguments, list) else [])]


def only_our_keys(value: object, ours: object) -> bool:
    """Whether an entry has only the keys of `ours`, so that replacing it loses nothing."""
    return (
        not isinstance(value, dict)
        or not isinstance(ours, dict)
        or set(value) <= set(ours) | {"type"}
    )
