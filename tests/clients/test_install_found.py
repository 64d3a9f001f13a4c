"""`install` and `uninstall` without `--client`: which clients are found, what is asked, and that all of it goes again."""

import io

import pytest
from remote_gpu_trainer.cli import clients as commands
from remote_gpu_trainer.cli.main import main
from remote_gpu_trainer.clients.table import CLIENTS, clients_here

from tests.clients.install_home import FILES, NAME, home, servers, tree  # noqa: F401

FOLDERS = {
    "claude-code": ".claude",
    "opencode": ".config/opencode",
    "codex": ".codex",
    "gemini": ".gemini",
    "cursor": ".cursor",
}


@pytest.fixture
def nothing_else(home, monkeypatch, tmp_path):
    """No program on PATH but those in the folder that this returns."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def says(monkeypatch, answer: str) -> None:
    """Put a person at the terminal."""
    monkeypatch.setattr(commands.terminal, "is_terminal", lambda stream: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer + "\n"))


@pytest.mark.parametrize("client", FOLDERS)
def test_a_client_is_found_by_its_program_or_by_its_configuration(client, home, nothing_else):
    env = {"PATH": str(nothing_else)}
    assert clients_here(home, env) == []
    (home / FOLDERS[client]).mkdir(parents=True)
    assert clients_here(home, env) == [client]
    (home / FOLDERS[client]).rmdir()
    program = nothing_else / client.removesuffix("-code")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert clients_here(home, env) == [client]


def test_every_client_but_the_folder_alone_can_be_found():
    assert set(FOLDERS) | {"skill"} == set(CLIENTS)


def test_all_that_are_found_are_installed_and_go_again_byte_for_byte(home, nothing_else, capsys):
    for folder in FOLDERS.values():
        (home / folder).mkdir(parents=True)
    (home / FILES["gemini"]).write_text('{\r\n  // mine\r\n  "a": 1\r\n}')
    before = tree(home)
    assert main(["install", "--yes"]) == 0
    assert [line[:-1] for line in capsys.readouterr().out.splitlines() if line[:-1] in CLIENTS] == [
        *FOLDERS
    ]
    for client in FOLDERS:
        assert NAME in servers(home, client)
    assert main(["uninstall", "--yes"]) == 0
    assert tree(home) == before


def test_only_what_was_installed_is_uninstalled(home, nothing_else, tmp_path):
    for client in ("codex", "gemini"):
        main(["install", "--client", client])
    project = tmp_path / "project"
    project.mkdir()
    main(["install", "--client", "cursor", "--project", str(project)])
    assert main(["uninstall", "--yes"]) == 0
    assert NAME in servers(project, "cursor", ".cursor/mcp.json")
    assert main(["uninstall", "--yes", "--project", str(project)]) == 0
    assert tree(home) == {} and tree(project) == {}


def test_a_person_sees_the_changes_before_the_question_and_may_say_no(
    home, nothing_else, capsys, monkeypatch
):
    (home / ".codex").mkdir()
    before = tree(home)
    says(monkeypatch, "n")
    assert main(["install"]) == 1 and tree(home) == before
    shown = capsys.readouterr()
    assert "MB would be written" in shown.out and "Install into codex? [Y/n]" in shown.err
    says(monkeypatch, "")
    assert main(["install"]) == 0 and NAME in servers(home, "codex")
    says(monkeypatch, "y")
    assert main(["uninstall"]) == 0 and tree(home) == before


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_nobody_at_the_terminal_means_no(command, home, nothing_else, capsys):
    (home / ".codex").mkdir()
    if command == "uninstall":
        main(["install", "--yes"])
    before = tree(home)
    assert main([command]) == 2 and tree(home) == before
    assert "pass --yes" in capsys.readouterr().err
    assert main([command, "--dry-run"]) == 0 and tree(home) == before


def test_one_configuration_that_cannot_be_read_keeps_all_as_they_are(home, nothing_else, capsys):
    for client in ("claude-code", "gemini"):
        (home / FOLDERS[client]).mkdir()
    (home / FILES["gemini"]).write_text("{ broken")
    before = tree(home)
    assert main(["install", "--yes"]) == 2 and tree(home) == before
    assert ".gemini/settings.json" in capsys.readouterr().err


def test_a_machine_without_agents_is_told_so(home, nothing_else, capsys):
    assert main(["install", "--yes"]) == 2
    assert "found no coding agent" in capsys.readouterr().err
    assert main(["uninstall", "--yes"]) == 2
    assert "remembers no installation here" in capsys.readouterr().err
    assert tree(home) == {}


def test_hooks_go_to_the_found_clients_that_take_them(home, nothing_else, capsys):
    (home / ".codex").mkdir()
    assert main(["install", "--yes", "--hooks"]) == 2
    assert "--hooks doesn't work with codex" in capsys.readouterr().err
    (home / ".claude").mkdir()
    assert main(["install", "--yes", "--hooks"]) == 0
    assert "suggest.py" in (home / ".claude/settings.json").read_text()
