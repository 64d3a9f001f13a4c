"""Where each client keeps its servers, skills and hooks, and what this package adds there.

Nothing is read or written here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = "remote-gpu-trainer"
CLIENTS = ("claude-code", "opencode", "codex", "gemini", "cursor", "skill")
WITH_HOOKS = ("claude-code", "opencode")
_AFTER = "Bash|BashOutput|TaskOutput|Read"
_HOOK_EVENTS = {"PreToolUse": "Bash", "PostToolUse": _AFTER, "PostToolUseFailure": _AFTER}


@dataclass(frozen=True)
class Edit:
    """One value in one file: at `path`, or with `append` as an item of the list at `path`."""

    file: Path
    path: tuple[str, ...]
    value: object
    append: bool = False

    @property
    def toml(self) -> bool:
        """Whether the file is TOML rather than JSON."""
        return self.file.suffix == ".toml"


@dataclass(frozen=True)
class Wanted:
    """What one client gets: values in its files, the skill's folder, and a note for the user."""

    edits: tuple[Edit, ...]
    skill: Path
    note: str = ""


def wanted(
    client: str,
    home: Path,
    env: Mapping[str, str],
    project: Path | None,
    command: list[str],
    hooks: bool,
    exists=Path.exists,
) -> Wanted:
    """What `client` gets, for the user or for one project.

    `exists` tells which of two possible files exists.
    """
    base = project or home
    parts = {"command": command[0], "args": command[1:]}
    if client == "skill":
        return Wanted((), base / ".agents" / "skills" / NAME)
    if client == "claude-code":
        settings = (
            base / ".claude"
            if project or not env.get("CLAUDE_CONFIG_DIR")
            else Path(env["CLAUDE_CONFIG_DIR"])
        )
        file = (
            project / ".mcp.json"
            if project
            else (settings if env.get("CLAUDE_CONFIG_DIR") else home) / ".claude.json"
        )
        skill = settings / "skills" / NAME
        edits = [Edit(file, ("mcpServers", NAME), {"type": "stdio", **parts})]
        if hooks:
            run = {
                "type": "command",
                "command": f'python3 "{(skill / "hooks" / "suggest.py").as_posix()}"',
                "timeout": 5,
            }
            edits += [
                Edit(
                    settings / "settings.json",
                    ("hooks", event),
                    {"matcher": tools, "hooks": [run]},
                    append=True,
                )
                for event, tools in _HOOK_EVENTS.items()
            ]
        return Wanted(
            tuple(edits),
            skill,
            "Claude Code asks once whether to trust the project's server; "
            "start claude there and answer yes."
            if project
            else "",
        )
    if client == "opencode":
        folder = project or Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        commented = folder / "opencode.jsonc"
        file = commented if exists(commented) else folder / "opencode.json"
        skill = (project / ".opencode" if project else folder) / "skills" / NAME
        edits = [Edit(file, ("mcp", NAME), {"type": "local", "command": command, "enabled": True})]
        if hooks:
            edits.append(
                Edit(
                    file,
                    ("plugin",),
                    (skill / "hooks" / "opencode.js").absolute().as_uri(),
                    append=True,
                )
            )
        return Wanted(
            tuple(edits), skill, "Restart opencode: it reads its configuration only at the start."
        )
    if client == "codex":
        folder = project / ".codex" if project else Path(env.get("CODEX_HOME") or home / ".codex")
        note = (
            "Codex reads the configuration of trusted projects only; "
            "start codex there and answer yes."
            if project
            else ""
        )
        return Wanted(
            (Edit(folder / "config.toml", ("mcp_servers", NAME), parts),),
            base / ".agents" / "skills" / NAME,
            note,
        )
    folder = base / f".{client}"
    file = folder / ("mcp.json" if client == "cursor" else "settings.json")
    note = (
        "Gemini CLI starts servers in trusted folders only; answer yes when it asks."
        if client == "gemini"
        else ""
    )
    return Wanted((Edit(file, ("mcpServers", NAME), parts),), folder / "skills" / NAME, note)


def is_ours(value: object) -> bool:
    """Whether a server's entry starts our server, or an item of a list is one of our hooks."""
    if isinstance(value, str):
        return value.startswith("file:") and value.endswith(f"/{NAME}/hooks/opencode.js")
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("hooks"), list):
        return len(value["hooks"]) == 1 and f"{NAME}/hooks/suggest.py" in json.dumps(value["hooks"])
    command = value.get("command")
    words = (
        command
        if isinstance(command, list)
        else [command, *(value.get("args") if isinstance(value.get("args"), list) else [])]
    )
    return (
        bool(words)
        and words[-1] == "serve"
        and any(NAME in str(word).replace("_", "-") for word in words)
    )


def only_our_keys(value: object, like: object) -> bool:
    """Whether an entry has only our settings, so that replacing it loses nothing."""
    return (
        not isinstance(value, dict)
        or not isinstance(like, dict)
        or set(value) <= set(like) | {"type"}
    )
