"""`install`: where things go, the skill's folder over its versions, hooks, and which command starts the server."""

import json
import os
import sys

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.clients import json_editor, skill_folder, start_command

from tests.clients.install_home import (  # noqa: F401
    FILES,
    NAME,
    SOME,
    WHOLE,
    home,
    install,
    servers,
    tree,
    uninstall,
)


def test_the_folder_is_the_whole_skill():
    root = bundle.bundle_root()
    pages = {path.relative_to(root).as_posix() for path in bundle.pages(root)}
    scripts = {f"scripts/{path.name}" for path in (root / "scripts").iterdir() if path.is_file()}
    assert {"SKILL.md", "hooks/suggest.py", *pages, *scripts} <= set(WHOLE)
    assert not [name for name in WHOLE if "__pycache__" in name or name.endswith(".pyc")]


def test_a_newer_version_replaces_the_pages_and_drops_the_old_ones(home, monkeypatch):
    skill = home / ".agents/skills" / NAME
    monkeypatch.setattr(
        skill_folder, "contents", lambda: {**SOME, "SKILL.md": b"old", "profiles/gone.md": b"old"}
    )
    install("skill")
    monkeypatch.setattr(skill_folder, "contents", lambda: SOME)
    assert install("skill") == 0
    assert (skill / "SKILL.md").read_bytes() == SOME["SKILL.md"] and not (
        skill / "profiles/gone.md"
    ).exists()
    uninstall("skill")
    assert tree(home) == {}


def test_two_clients_that_share_a_folder_keep_it_until_both_are_gone(home, capsys):
    install("codex")
    install("skill")
    uninstall("codex")
    assert (
        home / ".agents/skills" / NAME / "SKILL.md"
    ).is_file() and "kept, skill uses it" in capsys.readouterr().out
    uninstall("skill")
    assert tree(home) == {}


@pytest.mark.parametrize(
    ("client", "file"),
    [
        ("claude-code", ".mcp.json"),
        ("opencode", "opencode.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("cursor", ".cursor/mcp.json"),
    ],
)
def test_a_project_gets_files_of_its_own(home, tmp_path, client, file):
    project = tmp_path / "project"
    project.mkdir()
    assert install(client, "--project", str(project)) == 0
    assert NAME in servers(project, client, file)
    assert [name for name in tree(home) if not name.startswith(".local")] == []
    install(client)
    assert uninstall(client, "--project", str(project)) == 0
    assert tree(project) == {} and NAME in servers(home, client)


def test_the_clients_own_variables_are_followed(home, tmp_path, monkeypatch):
    for name in ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for client, file in (
        ("claude-code", "CLAUDE_CONFIG_DIR/.claude.json"),
        ("opencode", "XDG_CONFIG_HOME/opencode/opencode.json"),
        ("codex", "CODEX_HOME/config.toml"),
    ):
        install(client)
        assert NAME in servers(tmp_path, client, file)


def test_opencodes_commented_file_is_preferred_when_it_is_there(home):
    folder = home / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{ // mine\n}\n")
    install("opencode")
    assert (
        NAME in servers(home, "opencode", ".config/opencode/opencode.jsonc")
        and not (folder / "opencode.json").exists()
    )


def test_hooks_are_there_only_when_asked_for_and_stand_beside_the_users(home):
    install("claude-code")
    assert not (home / ".claude/settings.json").exists()
    mine = '{\n  "hooks": {\n    "PostToolUse": [\n      {"matcher": "Edit", "hooks": []}\n    ]\n  }\n}\n'
    (home / ".claude/settings.json").write_text(mine)
    assert install("claude-code", "--hooks") == 0
    hooks = json.loads((home / ".claude/settings.json").read_text())["hooks"]
    assert (
        set(hooks) == {"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"}
        and "matcher" not in hooks["UserPromptSubmit"][0]
        and hooks["PostToolUse"][0]["matcher"] == "Edit"
    )
    [command] = [hook["command"] for hook in hooks["PreToolUse"][0]["hooks"]]
    assert os.path.isfile(command.split('"')[1])
    before = tree(home)
    assert install("claude-code") == 0 and tree(home) == before, (
        "an update without --hooks leaves them"
    )
    uninstall("claude-code")
    assert (home / ".claude/settings.json").read_text() == mine
    (home / ".claude/settings.json").unlink()
    install("opencode", "--hooks")
    [plugin] = json_editor.parse((home / FILES["opencode"]).read_text()).value["plugin"]
    assert os.path.isfile(plugin.removeprefix("file://"))


def test_hooks_go_even_without_the_memory(home):
    install("claude-code", "--hooks")
    (home / ".local/state/remote-gpu-trainer/installed.json").unlink()
    (home / ".claude/settings.json").write_text(
        (home / ".claude/settings.json").read_text().replace("{", '{"model": "x",', 1)
    )
    assert uninstall("claude-code") == 0
    assert json.loads((home / ".claude/settings.json").read_text()) == {
        "model": "x",
        "hooks": {
            "UserPromptSubmit": [],
            "PreToolUse": [],
            "PostToolUse": [],
            "PostToolUseFailure": [],
        },
    }


def test_from_uvx_the_command_is_one_that_lasts(home, monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/home/u/.cache/uv/archive-v0/Ab12")
    monkeypatch.setattr(start_command.shutil, "which", lambda name: "/usr/bin/uvx")

    class Distribution:
        def read_text(self, name):
            return '{"url": "file:///d/x.whl", "archive_info": {}}'

    monkeypatch.setattr(start_command.metadata, "distribution", lambda name: Distribution())
    assert start_command.serve_command() == [
        "/usr/bin/uvx",
        "--from",
        "file:///d/x.whl",
        NAME,
        "serve",
    ]
    monkeypatch.setattr(Distribution, "read_text", lambda self, name: None)
    assert start_command.serve_command()[2] == f"{NAME}=={start_command.__version__}"
