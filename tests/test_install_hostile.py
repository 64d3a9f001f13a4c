"""`install` on configurations that are broken, odd, or somebody else's: a clear line, and everything as it was."""

import json
import os

import pytest

from remote_gpu_trainer import installing, skill_folder
from tests.install_home import NAME, home, install, tree, uninstall  # noqa: F401


BROKEN = {
    "no JSON": (b"hello", "line 1, column 1: found 'h', expected a JSON value"),
    "cut": (b'{"mcpServers": {', "expected a key in double quotes"),
    "a comma too few": (b'{"a": 1\n "b": 2}', "line 2, column 2: found '\"', expected ',' or '}'"),
    "more behind the end": (b"{} {}", "expected the end of the file"),
    "an array": (b"[1]", "found a list at the top, expected an object"),
    "servers as an array": (b'{"mcpServers": []}', "found a list at mcpServers, expected an object to add to"),
    "servers as nothing": (b'{"mcpServers": null}', "found a NoneType at mcpServers"),
    "a key twice": (b'{"a": 1, "a": 2}', "expected the key 'a' once"),
    "no UTF-8": (b'{"a": "\xff"}', "found bytes that aren't UTF-8 at 7"),
    "too deep": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "expected at most 100 levels"),
    "an open comment": (b"{ /* ", "found '/'"),
    "not a number": (b'{"a": NaN}', "found 'N'"),
    "a NUL": (b'{"a": "\x00"}', "expected a JSON value"),
    "another's server of that name": (b'{"mcpServers": {"remote-gpu-trainer": {"command": "curl"}}}', "found a server 'remote-gpu-trainer' that isn't ours"),
    "ours with other settings": (
        b'{"mcpServers": {"remote-gpu-trainer": {"command": "/x/remote-gpu-trainer", "args": ["serve"], "env": {"A": "b"}}}}',
        "found settings of yours in mcpServers.remote-gpu-trainer",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_configuration_that_it_does_not_understand_is_refused_and_nothing_is_written(home, case, capsys):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_bytes(BROKEN[case][0])
    before = tree(home)
    assert install("cursor") == 2
    told = capsys.readouterr()
    assert BROKEN[case][1] in told.err and told.err.startswith("remote-gpu-trainer install: ") and told.err.count("\n") == 1
    assert tree(home) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "expected TOML"),
        ('mcp_servers = {other = {command = "x"}}\n', "expected tables such as [mcp_servers.NAME]"),
        ('[mcp_servers.remote-gpu-trainer]\ncommand = "curl"\n', "that isn't ours"),
        ("mcp_servers = 3\n", "mcp_servers"),
    ],
)
def test_toml_that_it_does_not_understand_is_refused(home, text, said, capsys):
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(text)
    before = tree(home)
    assert install("codex") == 2
    assert said in capsys.readouterr().err and tree(home) == before


def test_odd_things_in_place_of_the_file_are_refused(home, capsys):
    (home / ".cursor/mcp.json").mkdir(parents=True)
    assert install("cursor") == 2 and "no file" in capsys.readouterr().err
    (home / ".cursor/mcp.json").rmdir()
    (home / ".cursor/mcp.json").symlink_to(home / "gone.json")
    assert install("cursor") == 2 and "a link that leads nowhere" in capsys.readouterr().err
    assert not (home / "gone.json").exists() and not (home / ".cursor/skills").exists()


@pytest.mark.parametrize(
    "memory", ["", "[]", "{", '{"clients": {"cursor": {"files": [1], "skill": {}}}, "folders": []}', '{"clients": {"cursor": 3}, "folders": 4}', "\x00"]
)
def test_a_damaged_memory_counts_as_none(home, memory):
    install("cursor")
    (home / ".local/state/remote-gpu-trainer/installed.json").write_text(memory)
    assert install("cursor") == 0 and uninstall("cursor") == 0
    assert json.loads((home / ".cursor/mcp.json").read_text()) == {"mcpServers": {}}


def test_a_link_to_the_users_dotfiles_stays_a_link(home):
    (home / "dotfiles").mkdir()
    (home / "dotfiles/mcp.json").write_text('{"a": 1}')
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(home / "dotfiles/mcp.json")
    before = tree(home)
    install("cursor")
    assert (home / ".cursor/mcp.json").is_symlink() and NAME in (home / "dotfiles/mcp.json").read_text()
    uninstall("cursor")
    assert tree(home) == before


def test_when_a_later_part_fails_the_earlier_ones_are_put_back(home, monkeypatch, capsys):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{}")

    def full(step, staging):
        raise OSError(28, "No space left on device", str(step.folder))

    monkeypatch.setattr(skill_folder, "take", full)
    assert install("cursor") == 2
    assert "No space left on device" in capsys.readouterr().err
    assert (home / ".cursor/mcp.json").read_text() == "{}"
    assert not [name for name, (_, held) in tree(home).items() if held is not None and name != ".cursor/mcp.json"]


def test_a_file_that_changes_meanwhile_is_refused(home, capsys):
    made = installing.plan("cursor", os.environ)
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{}")
    with pytest.raises(installing.InstallError, match="found it changed while this command ran"):
        installing.carry_out(made, os.environ)
    assert (home / ".cursor/mcp.json").read_text() == "{}"


def test_keys_are_neither_shown_nor_remembered(home, capsys):
    key = "sk-" + "a1" * 20
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(json.dumps({"API_KEY": key}, indent=2))
    install("cursor")
    shown = capsys.readouterr().out
    assert "API_KEY" in shown and key not in shown
    assert key not in (home / ".local/state/remote-gpu-trainer/installed.json").read_text()
    assert key in (home / ".cursor/mcp.json").read_text()


def test_a_skill_folder_of_somebody_elses_is_left_alone(home, capsys):
    skill = home / ".agents/skills" / NAME
    skill.mkdir(parents=True)
    (skill / "notes.md").write_text("mine")
    assert install("skill") == 2 and "found notes.md" in capsys.readouterr().err
    (skill / "notes.md").unlink()
    skill.rmdir()
    skill.symlink_to(home)
    assert install("skill") == 2 and "found a link" in capsys.readouterr().err


def test_an_edited_page_is_refused_and_an_added_one_stays(home, capsys):
    skill = home / ".agents/skills" / NAME
    install("skill")
    (skill / "mine.md").write_text("mine")
    assert install("skill") == 0
    (skill / "SKILL.md").write_text("edited")
    assert install("skill") == 2 and "found SKILL.md, which isn't as this command wrote it" in capsys.readouterr().err
    assert uninstall("skill") == 0
    assert sorted(p.name for p in skill.rglob("*")) == ["SKILL.md", "mine.md"]
    assert "SKILL.md, mine.md stays, it isn't ours" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["codex", "--hooks"], "found --hooks for codex, expected it for claude-code or opencode"),
        (["codex", "--project", "/nowhere/at/all"], "expected --project to name one"),
        (["codex", "--command", "'open"], "expected a command with its arguments, quotes closed"),
        (["codex", "--command", " "], "expected a command with its arguments"),
    ],
)
def test_wrong_options_are_refused(home, options, said, capsys):
    assert install(*options) == 2
    assert said in capsys.readouterr().err and tree(home) == {}


def test_without_a_home_it_says_so(home, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(home / "gone"))
    assert install("cursor") == 2
    assert "found no home folder" in capsys.readouterr().err
