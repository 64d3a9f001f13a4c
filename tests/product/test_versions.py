"""The version stands in one place; every file that must repeat it agrees, and the manifests say what is true."""

import json
import re
import subprocess
import sys

from packaging.version import Version
from remote_gpu_trainer import __version__
from remote_gpu_trainer.clients.table import NAME

from tests.conftest import ROOT, engine, valid_skill
from tests.engines.artifacts import built  # noqa: F401

SERVER = json.loads((ROOT / "server.json").read_text())
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
        "plugin": at(".claude-plugin/plugin.json", "version"),
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
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.json", "*.toml"],
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
        ".claude-plugin/plugin.json",
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
        ".mcp.json",
        "SKILL.md",
        "hooks/suggest.py",
        "server/start_server.py",
        f"server/remote_gpu_trainer-{__version__}-py3-none-any.whl",
    ):
        assert (plugin / part).is_file(), part
    assert not list(plugin.rglob("__pycache__"))
    assert "python tools/build.py" in README
    valid_skill(plugin)


def test_the_plugins_server_starts_what_is_installed_or_says_what_is_missing(built, tmp_path):
    start = built / NAME / "server/start_server.py"

    def started(path):
        return subprocess.run(
            [sys.executable, str(start)],
            env={"PATH": str(path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    done = started(tmp_path)
    assert (
        done.returncode == 2
        and "found neither remote-gpu-trainer nor uvx on PATH" in done.stderr
        and ".whl" in done.stderr
    )

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
    (tmp_path / "uvx").unlink()
    done = started(tmp_path)
    assert (
        done.stdout == "installed serve\n"
        and "found version 0.0.1 installed, expected" in done.stderr
    )
