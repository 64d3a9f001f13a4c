"""The version stands in one place; every file that must repeat it agrees, and the manifests say what is true."""

import json
import re
import subprocess
import sys

import pytest
from packaging.version import Version
from remote_gpu_trainer import __version__
from remote_gpu_trainer.clients.table import NAME

from tests.conftest import ROOT, engine, valid_skill
from tests.engines.artifacts import built  # noqa: F401
from tests.programs import loaded

SERVER = json.loads((ROOT / "server.json").read_text())
PLUGIN = "plugins/remote-gpu-trainer"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def at(name, *path):
    value = json.loads((ROOT / name).read_text())
    for key in path:
        value = value[key]
    return value


def releases(unreleased: bool = False) -> list[str]:
    """The versions of the changelog that are out, newest first, or those that aren't."""
    found = re.findall(r"^## (\S+)(.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    return [version for version, rest in found if (rest == " (unreleased)") is unreleased]


def test_the_changelog_has_at_most_one_release_to_come_and_it_stands_first():
    coming = releases(unreleased=True)
    assert len(coming) <= 1
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = [Version(name) for name in re.findall(r"^## (\S+)", text, re.M)]
    assert versions == sorted(set(versions), reverse=True)
    assert not coming or versions[0] == Version(coming[0]) > Version(__version__)


def test_every_file_that_repeats_the_version_agrees_with_the_package():
    found = {
        "plugin": at(PLUGIN + "/.claude-plugin/plugin.json", "version"),
        "marketplace": at(".claude-plugin/marketplace.json", "metadata", "version"),
        "hooks": at("hooks/.claude-plugin/plugin.json", "version"),
        "server.json": SERVER["version"],
        "its package": SERVER["packages"][0]["version"],
        "skill": re.search(r'^  version: "(.+)"$', (ROOT / "SKILL.md").read_text(), re.M)[1],
        "changelog": releases()[0],
    }
    assert set(found.values()) == {__version__}, found


def test_no_other_tracked_manifest_holds_a_version_of_its_own():
    listed = subprocess.run(
        ["git", "ls-files", "*.json", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = [
        name
        for name in listed.stdout.splitlines()
        if not name.startswith(
            ("tests/", "evals/", "examples/", "benchmarks/", "references/", "scripts/")
        )
    ]
    holding = {
        name
        for name in names
        if (ROOT / name).is_file()
        and re.search(r'^\s*"?version"?\s*[:=]\s*"\d', (ROOT / name).read_text(), re.M)
    }
    assert holding == {
        f"{PLUGIN}/.claude-plugin/plugin.json",
        ".claude-plugin/marketplace.json",
        "hooks/.claude-plugin/plugin.json",
        "server.json",
    }


def test_the_registrys_file_keeps_to_its_limits_and_the_readme_proves_the_name():
    assert (
        re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", SERVER["name"])
        and 3 <= len(SERVER["name"]) <= 200
    )
    assert 1 <= len(SERVER["description"]) <= 100
    [package] = SERVER["packages"]
    assert (
        package["registryType"],
        package["identifier"],
        package["runtimeHint"],
        package["transport"],
    ) == ("pypi", NAME, "uvx", {"type": "stdio"})
    assert [argument["value"] for argument in package["packageArguments"]] == ["serve"]
    assert f"<!-- mcp-name: {SERVER['name']} -->" in README


def test_one_command_makes_wheel_sdist_and_plugin(built):
    names = {path.name for path in built.iterdir()}
    assert names == {
        f"remote_gpu_trainer-{__version__}-py3-none-any.whl",
        f"remote_gpu_trainer-{__version__}.tar.gz",
        f"remote_gpu_trainer-{__version__}.cdx.json",
        "server.json",
        NAME,
    }
    assert (built / "server.json").read_bytes() == (ROOT / "server.json").read_bytes()
    plugin = built / NAME
    for part in (
        ".claude-plugin/plugin.json",
        "SKILL.md",
        "hooks/suggest.py",
        "server/start_server.py",
        f"server/remote_gpu_trainer-{__version__}-py3-none-any.whl",
    ):
        assert (plugin / part).is_file(), part
    assert not list(plugin.rglob("__pycache__"))
    assert "python tools/build.py" in (ROOT / "docs/guides/coding-agents.md").read_text("utf-8")
    valid_skill(plugin)


def test_the_plugins_server_starts_what_is_installed_or_says_what_is_missing(built, tmp_path):
    start = built / NAME / "server/start_server.py"

    def started(path):
        return subprocess.run(
            [sys.executable, str(start)],
            env={"PATH": str(path), "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    done = started(tmp_path)
    assert done.returncode == 2 and "found neither remote-gpu-trainer nor uvx" in done.stderr

    def program(name, body):
        (tmp_path / name).write_text(f"#!{engine('sh', 'install a shell')}\n{body}\n")
        (tmp_path / name).chmod(0o755)

    program(
        "remote-gpu-trainer",
        f'if [ "$1" = --version ]; then echo {__version__}; else echo "installed $*"; fi',
    )
    assert started(tmp_path).stdout == "installed serve\n"
    program("uvx", '[ "$1" = --offline ] && exit 1; echo "uvx $*"')
    assert started(tmp_path).stdout == "installed serve\n", "the same version needs no uvx"
    program(
        "remote-gpu-trainer",
        'if [ "$1" = --version ]; then echo 0.0.1; else echo "installed $*"; fi',
    )
    assert re.fullmatch(r"uvx --from \S+\.whl remote-gpu-trainer serve\n", started(tmp_path).stdout)
    program("uvx", f'case "$*" in *--version) echo {__version__};; *) echo "uvx $*";; esac')
    assert re.fullmatch(
        r"uvx --offline --from \S+\.whl remote-gpu-trainer serve\n", started(tmp_path).stdout
    ), "what is cached needs no network"
    program("uvx", "exit 1")
    done = started(tmp_path)
    assert done.returncode == 2 and "uvx could not install" in done.stderr
    (tmp_path / "uvx").unlink()
    done = started(tmp_path)
    assert (
        done.stdout == "installed serve\n"
        and "found version 0.0.1 installed, expected" in done.stderr
    )


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_a_client_hears_what_is_missing_from_the_starter_itself(path, tmp_path):
    def ask(number, method, **params):
        return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    lines = [
        ask(1, "server/discover"),
        ask(2, "initialize", protocolVersion="2025-06-18", capabilities={}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        "no JSON",
        "[1]",
        ask(3, "tools/list"),
        ask(4, "tools/call", name="what_is_missing", arguments={}),
        ask(5, "ping"),
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / PLUGIN / "server/start_server.py")],
        env={"PATH": path, "HOME": str(tmp_path)},
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
    )
    unknown, hello, listed, said, pong = map(json.loads, done.stdout.splitlines())
    assert [r["id"] for r in (unknown, hello, listed, said, pong)] == [1, 2, 3, 4, 5]
    assert unknown["error"]["code"] == -32601 and pong["result"] == {}
    assert hello["result"]["protocolVersion"] == "2025-06-18"
    assert hello["result"]["serverInfo"] == {"name": NAME, "version": __version__}
    [tool] = listed["result"]["tools"]
    [text] = said["result"]["content"]
    for advice in (hello["result"]["instructions"], tool["description"], text["text"]):
        assert "run this one command" in advice and advice.endswith("pip install --user uv")


def test_the_plugins_folder_links_to_what_stands_at_the_root():
    """So that nothing is kept twice. Claude Code copies what a link names."""
    plugin = ROOT / PLUGIN
    links = [path for path in plugin.rglob("*") if path.is_symlink()]
    assert links
    for path in links:
        assert path.resolve() == ROOT / path.relative_to(plugin), path
    folders = {path.name for path in plugin.iterdir() if path.is_dir()}
    built_from = loaded(ROOT / "tools/build.py").FOLDERS
    assert folders - {".claude-plugin", "server"} == set(built_from)


def test_the_server_has_one_name_everywhere():
    [served] = at(f"{PLUGIN}/.claude-plugin/plugin.json", "mcpServers")
    assert served == NAME
    for name in (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", "opencode.json"):
        assert not (ROOT / name).exists(), "a client in the clone would offer it"
