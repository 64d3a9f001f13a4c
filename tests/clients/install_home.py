"""An empty home for the tests of `install`, with what they ask about it."""

import os
import stat
import sys

import pytest

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.clients import json_editor, skill_folder

FILES = {
    "claude-code": ".claude.json", "opencode": ".config/opencode/opencode.json", "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json", "cursor": ".cursor/mcp.json",
}  # fmt: skip
SKILLS = {
    "claude-code": ".claude", "opencode": ".config/opencode", "codex": ".agents", "gemini": ".gemini", "cursor": ".cursor", "skill": ".agents",
}  # fmt: skip
KEYS = {"opencode": "mcp", "codex": "mcp_servers"}
NAME = "remote-gpu-trainer"
WHOLE = skill_folder.contents()
SOME = {
    name: WHOLE[name]
    for name in ("SKILL.md", "profiles/runpod.md", "hooks/suggest.py", "hooks/opencode.js")
}  # all of them 150 times would take a minute


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    monkeypatch.setattr(skill_folder, "contents", lambda: SOME)
    return folder


def tree(folder):
    """Everything in a folder: kind, mode and bytes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        held = (
            os.readlink(path)
            if path.is_symlink()
            else path.read_bytes()
            if path.is_file()
            else None
        )
        found[path.relative_to(folder).as_posix()] = (stat.S_IMODE(about.st_mode), held)
    return found


def servers(home, client, file=None):
    text = (home / (file or FILES[client])).read_text(encoding="utf-8-sig")
    tree = tomllib.loads(text) if client == "codex" else json_editor.parse(text).value
    return tree[KEYS.get(client, "mcpServers")]


def install(client, *options, command="install"):
    return main([command, "--client", client, *options])


def uninstall(client, *options):
    return install(client, *options, command="uninstall")
