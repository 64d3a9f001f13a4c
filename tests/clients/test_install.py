"""`install` and `uninstall`: what each client gets, and that all else stays as it was. No client is needed; tests/product/test_clients_installed.py has them."""

import json
import stat
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as some
from remote_gpu_trainer.clients import json_editor
from remote_gpu_trainer.clients.table import CLIENTS

from tests.clients.install_home import (  # noqa: F401
    FILES,
    KEYS,
    NAME,
    SKILLS,
    home,
    install,
    servers,
    tomllib,
    tree,
    uninstall,
)

PYTHON = sys.executable  # the fixture puts a place that isn't there into sys.executable


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_gets_its_server_and_the_skill_and_gives_both_back(home, client, capsys):
    assert install(client) == 0
    if client in FILES:
        started = {"command": "/venv/bin/python", "args": ["-m", "remote_gpu_trainer", "serve"]}
        expected = {
            "claude-code": {"type": "stdio", **started},
            "opencode": {
                "type": "local",
                "command": [started["command"], *started["args"]],
                "enabled": True,
            },
        }.get(client, started)
        assert servers(home, client) == {NAME: expected}
    skill = home / SKILLS[client] / "skills" / NAME
    assert (
        (skill / "SKILL.md").is_file()
        and (skill / "profiles/runpod.md").is_file()
        and (skill / "hooks/suggest.py").is_file()
    )
    assert not list(skill.rglob("__pycache__"))
    assert uninstall(client) == 0
    assert tree(home) == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_twice_is_the_same_as_once(home, client, capsys):
    install(client)
    once = tree(home)
    capsys.readouterr()
    assert install(client) == 0
    assert tree(home) == once and capsys.readouterr().out == "nothing to change\n"
    uninstall(client)
    assert uninstall(client) == 0 and tree(home) == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_dry_run_shows_the_change_and_writes_nothing(home, client, capsys):
    assert install(client, "--dry-run") == 0
    out = capsys.readouterr().out
    assert tree(home) == {} and "files, " in out and "MB would be written" in out
    assert client == "skill" or "+++ " + str(home / FILES[client]) in out
    install(client)
    before = tree(home)
    capsys.readouterr()
    assert uninstall(client, "--dry-run") == 0 and tree(home) == before
    assert "files would be removed" in capsys.readouterr().out


JSON_BEFORE = {
    "plain": '{\n  "KEY": {\n    "other": {"command": "x"}\n  },\n  "theme": "dark"\n}\n',
    "without the key": '{\n    "theme": "dark"\n}',
    "empty object": "{}",
    "empty file": "",
    "an empty key": '{\n\t"KEY": {}\n}\n',
    "one line": '{"theme":"dark","KEY":{"other":{"command":"x"}}}',
    "comments": '// mine\n{\n  // the servers\n  "KEY": {\n    "other": {"command": "x"} // keep\n    // more to come\n  } /* end */\n}\n',
    "trailing commas": '{\n  "KEY": {\n    "other": {"command": "x"},\n  },\n}\n',
    "windows": '{\r\n  "theme": "dark"\r\n}\r\n',
    "byte order mark": '\ufeff{"theme": "dark"}',
    "a comment over several lines": '{"KEY": {"other": {"command": "x"} /* a\n b */ }\n}',
    "texts that look like code": '{\n  "a": "}, // \\" {",\n  "b": "/* \\\\"\n}\n',
}


@pytest.mark.parametrize("client", [c for c in FILES if c != "codex"])
@pytest.mark.parametrize("case", JSON_BEFORE)
def test_what_is_there_stays_byte_for_byte_and_comes_back_exactly(home, client, case):
    before = JSON_BEFORE[case].replace("KEY", KEYS.get(client, "mcpServers"))
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before.encode())
    file.chmod(0o640)
    untouched = tree(home)
    assert install(client) == 0
    assert NAME in servers(home, client)
    after = file.read_bytes().decode()
    kept = iter(after)
    assert all(character in kept for character in before), (
        "nothing of the old text was lost or moved"
    )
    assert ("other" in servers(home, client)) == ("other" in before)
    assert ("\r\n" in before) == ("\r\n" in after) and not after.replace("\r\n", "").count("\r")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert uninstall(client) == 0
    assert tree(home) == untouched


@pytest.mark.parametrize(
    "before",
    [
        'model = "x"\n\n[mcp_servers.other]\ncommand = "y" # mine\n',
        'model = "x"',
        "",
        "# nothing yet\n",
        "a = 1\r\n[b]\r\n",
        '[mcp_servers."remote-gpu"]\ncommand = "z"\n',
    ],
)
def test_toml_stays_byte_for_byte_and_comes_back_exactly(home, before):
    file = home / FILES["codex"]
    file.parent.mkdir()
    file.write_bytes(before.encode())
    untouched = tree(home)
    assert install("codex") == 0
    after = file.read_bytes().decode()
    assert after.startswith(before)
    assert tomllib.loads(after)["mcp_servers"].pop(NAME) == {
        "command": "/venv/bin/python",
        "args": ["-m", "remote_gpu_trainer", "serve"],
    }
    assert uninstall("codex") == 0
    assert tree(home) == untouched


@pytest.mark.parametrize("client", FILES)
def test_what_the_user_changed_since_stays_when_ours_goes(home, client):
    file = home / FILES[client]
    install(client)
    text = file.read_text()
    file.write_text(
        text + "\n[tui]\ntheme = 'x'\n"
        if client == "codex"
        else text.replace("{", '{\n  "theme": "dark",', 1)
    )
    before = file.read_bytes()
    assert install(client) == 0 and file.read_bytes() == before, "ours is there already"
    assert uninstall(client) == 0
    left = tomllib.loads(file.read_text()) if client == "codex" else json.loads(file.read_text())
    assert left == ({"tui": {"theme": "x"}} if client == "codex" else {"theme": "dark"})


@pytest.mark.parametrize("client", FILES)
def test_without_its_memory_it_still_takes_out_its_own_and_nothing_else(home, client):
    file = home / FILES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        '[mcp_servers.a]\ncommand = "b"\n'
        if client == "codex"
        else json.dumps({KEYS.get(client, "mcpServers"): {"a": {"command": "b"}}}, indent=2)
    )
    install(client)
    (home / ".local/state/remote-gpu-trainer/installed.json").unlink()
    assert install(client) == 0 and uninstall(client) == 0
    assert servers(home, client) == {"a": {"command": "b"}}
    assert not (home / SKILLS[client] / "skills" / NAME).exists()


def test_a_moved_installation_replaces_its_old_command(home):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{"mcpServers": {"a": {"command": "b"}}}')
    install("cursor", "--command", "/old/bin/remote-gpu-trainer serve")
    assert install("cursor", "--command", "uvx --from '/a b.whl' remote-gpu-trainer serve") == 0
    assert servers(home, "cursor")[NAME] == {
        "command": "uvx",
        "args": ["--from", "/a b.whl", "remote-gpu-trainer", "serve"],
    }
    uninstall("cursor")
    assert (home / ".cursor/mcp.json").read_text() == '{"mcpServers": {"a": {"command": "b"}}}'


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda v: some.lists(v) | some.dictionaries(some.text(), v),
    max_leaves=8,
)


@given(
    some.dictionaries(some.text(), VALUES),
    some.sampled_from([None, 1, "\t"]),
    some.text(min_size=1),
    some.booleans(),
)
def test_any_object_takes_a_value_and_gives_it_back(value, indent, key, nested):
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    path = ("\x00a", key) if nested else (f"\x00{key}",)
    for offset, piece in reversed(json_editor.insertion(text, path, {"b": [1]})):
        text = text[:offset] + piece + text[offset:]
    expected = {**value, path[0]: {key: {"b": [1]}} if nested else {"b": [1]}}
    assert json.loads(text) == expected
    assert json.loads(json_editor.without(text, path[:1])) == value


def test_a_remark_stays_on_its_line(home):
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text(JSON_BEFORE["comments"].replace("KEY", "mcpServers"))
    install("cursor")
    assert (
        '    "other": {"command": "x"}, // keep\n    "remote-gpu-trainer": {\n'
        in (home / ".cursor/mcp.json").read_text()
    )
