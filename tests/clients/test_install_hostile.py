"""`install` on configurations that are broken, odd, or somebody else's: a clear line, and everything as it was."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from remote_gpu_trainer.clients import config_file, installing, json_editor, skill_folder
from remote_gpu_trainer.clients.table import Edit

from tests.clients.install_home import FILES, KEYS, NAME, home, install, servers, tree, uninstall  # noqa: F401

BROKEN = {
    "no JSON": (b"hello", "line 1, column 1: expected a JSON value instead of 'h'"),
    "cut": (b'{"mcpServers": {', "expected a key in double quotes"),
    "a comma too few": (
        b'{"a": 1\n "b": 2}',
        "line 2, column 2: expected ',' or '}' instead of '\"'",
    ),
    "more behind the end": (b"{} {}", "expected the end of the file"),
    "an array": (b"[1]", "the file holds a list, not an object"),
    "servers as an array": (
        b'{"mcpServers": []}',
        "mcpServers is a list instead of an object, so nothing can be added",
    ),
    "servers as nothing": (b'{"mcpServers": null}', "mcpServers is null instead of an object"),
    "a key twice": (b'{"a": 1, "a": 2}', "line 1, column 10: the key 'a' is there twice"),
    "no UTF-8": (b'{"a": "\xff"}', "byte 7 isn't UTF-8; correct the file"),
    "too deep": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "expected at most 100 levels"),
    "an open comment": (b"{ /* ", "expected a key in double quotes instead of '/'"),
    "not a number": (b'{"a": NaN}', "expected a JSON value instead of 'N'"),
    "a NUL": (b'{"a": "\x00"}', "expected a JSON value"),
    "another's server of that name": (
        b'{"mcpServers": {"remote-gpu-trainer": {"command": "curl"}}}',
        "has another server called 'remote-gpu-trainer'",
    ),
    "ours with other settings": (
        b'{"mcpServers": {"remote-gpu-trainer": {"command": "/x/remote-gpu-trainer", "args": ["serve"], "env": {"A": "b"}}}}',
        "mcpServers.remote-gpu-trainer has settings of yours",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_configuration_that_it_does_not_understand_is_refused_and_nothing_is_written(
    home, case, capsys
):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_bytes(BROKEN[case][0])
    before = tree(home)
    assert install("cursor") == 2
    told = capsys.readouterr()
    assert (
        BROKEN[case][1] in told.err and told.err.startswith("error: ") and told.err.count("\n") == 1
    )
    assert tree(home) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = ", "not TOML (Unexpected end of the file at line 1"),
        ('mcp_servers = {other = {command = "x"}}\n', "write each server as [mcp_servers.NAME]"),
        ('[mcp_servers.remote-gpu-trainer]\ncommand = "curl"\n', "has another server called"),
        ("mcp_servers = 3\n", "mcp_servers"),
        ("[[mcp_servers]]\na = 1\n", "write each server as [mcp_servers.NAME]"),
        ("a = 1\na = 2\n", "not TOML"),
        ("[a]\n[a]\n", "not TOML"),
        ("a = 1\rb = 2\n", "not TOML"),
        ('a = "\0"\n', "not TOML"),
        ("\0", "not TOML"),
        ("# \x1b[2J\n", "not TOML"),
        ('a = """\nnever closed', "not TOML"),
        ("a = 2026-13-45\n", "not TOML"),
        ("a = " + "[" * 3000 + "]" * 3000 + "\n", "not TOML"),
        ("[mcp_servers.remote-gpu-trainer\n", "not TOML"),
        ('{"mcp_servers": {}}', "not TOML"),
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
    assert install("cursor") == 2 and "not a regular file" in capsys.readouterr().err
    (home / ".cursor/mcp.json").rmdir()
    (home / ".cursor/mcp.json").symlink_to(home / "gone.json")
    assert install("cursor") == 2 and "a broken link" in capsys.readouterr().err
    assert not (home / "gone.json").exists() and not (home / ".cursor/skills").exists()


@pytest.mark.parametrize(
    "memory",
    [
        "",
        "[]",
        "{",
        '{"clients": {"cursor": {"files": [1], "skill": {}}}, "folders": []}',
        '{"clients": {"cursor": 3}, "folders": 4}',
        "\x00",
    ],
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
    assert (home / ".cursor/mcp.json").is_symlink() and NAME in (
        home / "dotfiles/mcp.json"
    ).read_text()
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
    assert not [
        name
        for name, (_, held) in tree(home).items()
        if held is not None and name != ".cursor/mcp.json"
    ]


def test_a_file_that_changes_meanwhile_is_refused(home, capsys):
    made = installing.plan("cursor", os.environ)
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text("{}")
    with pytest.raises(installing.InstallError, match="changed while this command ran"):
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


def test_a_installing_of_somebody_elses_is_left_alone(home, capsys):
    skill = home / ".agents/skills" / NAME
    skill.mkdir(parents=True)
    (skill / "notes.md").write_text("mine")
    assert (
        install("skill") == 2
        and "notes.md differs from what this command wrote" in capsys.readouterr().err
    )
    (skill / "notes.md").unlink()
    skill.rmdir()
    skill.symlink_to(home)
    assert install("skill") == 2 and "a link, not a folder" in capsys.readouterr().err


def test_an_edited_page_is_refused_and_an_added_one_stays(home, capsys):
    skill = home / ".agents/skills" / NAME
    install("skill")
    (skill / "mine.md").write_text("mine")
    assert install("skill") == 0
    (skill / "SKILL.md").write_text("edited")
    assert (
        install("skill") == 2
        and "SKILL.md differs from what this command wrote" in capsys.readouterr().err
    )
    assert uninstall("skill") == 0
    assert sorted(p.name for p in skill.rglob("*")) == ["SKILL.md", "mine.md"]
    assert "SKILL.md, mine.md kept, it isn't part of the skill" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["codex", "--hooks"],
            "--hooks doesn't work with codex, only with claude-code and opencode; leave it out",
        ),
        (["codex", "--project", "/nowhere/at/all"], "create it, or pass another with --project"),
        (
            ["codex", "--command", "'open"],
            "isn't a command line; write a command and close its quotes",
        ),
        (["codex", "--command", " "], "isn't a command line"),
    ],
)
def test_wrong_options_are_refused(home, options, said, capsys):
    assert install(*options) == 2
    assert said in capsys.readouterr().err and tree(home) == {}


def test_without_a_home_it_says_so(home, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(home / "gone"))
    assert install("cursor") == 2
    assert "no home folder at " in capsys.readouterr().err


@pytest.mark.parametrize("client", ["cursor", "gemini", "opencode"])
def test_a_remark_in_an_empty_object_does_not_swallow_the_brace(home, client):
    file = home / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(
        '{\n  "KEY": {\n    // my servers go here\n  }\n}\n'.replace(
            "KEY", KEYS.get(client, "mcpServers")
        )
    )
    before = file.read_text()
    install(client)
    file.write_text(file.read_text() + "\n")
    assert uninstall(client) == 0 and file.read_text() == before + "\n"


BETWEEN = {
    "cursor": ('{\n  "mcpServers": {\n    OURS,\n    // staging box, ask Ann\n    "staging": {"command": "y"}\n  }\n}\n', '{\n  "mcpServers": {\n    // staging box, ask Ann\n    "staging": {"command": "y"}\n  }\n}\n'),
    "codex": ('[mcp_servers.remote-gpu-trainer]\ncommand = "/x/remote-gpu-trainer"\nargs = [\n  "serve",\n]\n\n# staging, ask Ann\n[mcp_servers.staging]\ncommand = "y"\n', '# staging, ask Ann\n[mcp_servers.staging]\ncommand = "y"\n'),
}  # fmt: skip


@pytest.mark.parametrize("again", [True, False], ids=["another command", "taken out"])
@pytest.mark.parametrize("client", BETWEEN)
def test_the_users_remark_above_the_next_server_stays(home, client, again):
    text, left = BETWEEN[client]
    file = home / FILES[client]
    file.parent.mkdir()
    file.write_text(
        text.replace(
            "OURS", '"remote-gpu-trainer": {"command": "/x/remote-gpu-trainer", "args": ["serve"]}'
        )
    )
    if again:
        assert install(client, "--command", "/y/remote-gpu-trainer serve") == 0
        assert (
            "ask Ann" in file.read_text()
            and servers(home, client)[NAME]["command"] == "/y/remote-gpu-trainer"
        )
    else:
        assert uninstall(client) == 0 and file.read_text() == left


@pytest.mark.parametrize("client", FILES)
def test_a_command_that_names_another_program_is_ours_because_it_was_written(home, client, capsys):
    file = home / FILES[client]
    assert install(client, "--command", "docker run -i --rm me/gpu-doctor") == 0
    text = file.read_text()
    file.write_text(
        text + "\n[tui]\nx = 1\n"
        if client == "codex"
        else text.replace("{", '{\n  "theme": "dark",', 1)
    )
    assert (
        install(client, "--command", "podman run -i me/gpu-doctor") == 0
        and "podman" in file.read_text()
        and "docker" not in file.read_text()
    )
    assert "podman" not in (home / ".local/state/remote-gpu-trainer/installed.json").read_text()
    file.write_text(file.read_text() + "\n")
    assert uninstall(client) == 0 and "podman" not in file.read_text()


def test_an_entry_that_stays_is_told_and_nothing_is_forgotten(home, capsys):
    install("cursor", "--command", "docker run -i --rm me/gpu-doctor")
    file = home / FILES["cursor"]
    file.write_text(file.read_text().replace('"docker"', '"podman"'))
    before = tree(home)
    assert uninstall("cursor") == 2 and tree(home) == before
    assert (
        "the server 'remote-gpu-trainer' differs from what this command writes"
        in capsys.readouterr().err
    )
    file.write_text("{}")
    assert uninstall("cursor") == 0 and tree(home) == {}


def test_a_date_in_a_server_of_the_users_is_no_trouble(home, capsys):
    install("codex")
    (home / FILES["codex"]).write_text(
        '[mcp_servers.remote-gpu-trainer]\ncommand = "x"\nsince = 2026-01-01\n'
    )
    assert (
        uninstall("codex") == 2
        and "differs from what this command writes" in capsys.readouterr().err
    )


def test_a_value_that_cannot_be_taken_out_alone_is_refused(home, monkeypatch, capsys):
    install("cursor")
    (home / FILES["cursor"]).write_text((home / FILES["cursor"]).read_text() + "\n")
    before = tree(home)
    for broken in ("{ // }", '{"mcpServers": 1}'):
        monkeypatch.setattr(json_editor, "without", lambda text, path, left=broken: left)
        assert uninstall("cursor") == 2 and tree(home) == before
        assert (
            "can't be removed without changing something else; remove it by hand"
            in capsys.readouterr().err
        )


BLANK = some.sampled_from(
    ["", " ", "\n", "\n  ", "\r\n", " // c1\n", "// c2\n", " /* k1 */ ", "/* k2 */\n"]
)
PLAIN = some.sampled_from(["1", '"x"', "null", '"//no"', '"a,b}"', "{}", "[]"])


def _container(inner, keys, marks):
    members = some.lists(some.tuples(BLANK, BLANK, inner, BLANK), max_size=3)
    return some.builds(
        lambda rows, comma, last: marks[0] + ",".join(f"{a}{keys(at)}{b}{value}{c}" for at, (a, b, value, c) in enumerate(rows)) + "," * bool(rows and comma) + last + marks[1],
        members, some.booleans(), BLANK,
    )  # fmt: skip


def _objects(inner, name):
    return _container(inner, lambda at: f'"{name}{at}":', "{}")


DEEPER = some.recursive(
    PLAIN, lambda inner: _objects(inner, "k") | _container(inner, lambda at: "", "[]"), max_leaves=4
)
SERVERS = some.builds(
    lambda blank, value: f'{{{blank}"mcpServers":{value}}}', BLANK, _objects(DEEPER, "s")
)
WRITTEN = [
    Edit(
        Path("x.json"),
        ("mcpServers", NAME),
        {"command": "/a/remote-gpu-trainer", "args": ["serve"]},
    ),
    Edit(
        Path("x.json"),
        ("hooks", "PreToolUse"),
        {
            "matcher": "B",
            "hooks": [{"type": "command", "command": f'python3 "/h/{NAME}/hooks/suggest.py"'}],
        },
        append=True,
    ),
]


@given(SERVERS | _objects(DEEPER, "m"), BLANK)
def test_any_text_with_remarks_gives_ours_back_and_keeps_values_and_remarks(text, more):
    text, before = text + more, json_editor.parse(text).value
    added, known = config_file.put_in(Path("x.json"), text, WRITTEN)
    assert config_file.taken_out(Path("x.json"), added, known, WRITTEN) == text
    left = config_file.taken_out(Path("x.json"), added + "\n", known, WRITTEN)
    assert json_editor.parse(left).value == before
    assert re.findall(r"// c\d|/\* k\d \*/", left) == re.findall(r"// c\d|/\* k\d \*/", text)
