"""Real clients use what was built: Inspector CLI and Claude Code, in an empty home. No account; the model is a script on loopback."""

import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT, engine
from tests.engines.artifacts import built, home, programs, project, run  # noqa: F401
from tests.engines.scripted_models import Messages, scripted

pytestmark = pytest.mark.clients

TOOLS = [
    "check_staleness",
    "fit_memory",
    "gpu_health",
    "lookup_symptom",
    "render_run_script",
    "run_status",
]
INSPECTOR = "npm install --prefix clients @modelcontextprotocol/inspector@2.12.0, then CLIENTS=clients/node_modules/.bin"
CLAUDE = "npm install --prefix clients @anthropic-ai/claude-code@2.1.332, then CLIENTS=clients/node_modules/.bin"
LOG = ROOT / "examples/logs/ddp-unused-parameters.log"
SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")
PURPOSE = re.search(r"^## Purpose\n\n(.+)", SKILL, re.M)[1]
PLUGIN_BYTES = 32 << 20  # of which the sentence encoder takes 22 MiB
OURS = "rgt@remote-gpu-trainer"
PREFIX = "mcp__plugin_rgt_remote-gpu-trainer__"
LONGEST_NAME = 64  # of a tool, by the API that Claude Code asks when it searches for tools


@pytest.fixture
def inspect(home, programs, tmp_path):
    def call(*args):
        done = run(
            [
                engine("mcp-inspector", INSPECTOR),
                "--cli",
                programs / "remote-gpu-trainer",
                "serve",
                *args,
            ],
            home,
            tmp_path,
        )
        return (
            done.returncode,
            (json.loads(done.stdout) if done.stdout.strip() else {}),
            done.stderr,
        )

    return call


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_the_tools_and_gets_an_entry_in_both_eras(inspect, era):
    code, listed, _ = inspect("--protocol-era", era, "--method", "tools/list", "--strict")
    assert code == 0
    assert sorted(tool["name"] for tool in listed["tools"]) == TOOLS
    code, reply, _ = inspect(
        "--protocol-era", era, "--method", "tools/call", "--tool-name", "lookup_symptom",
        "--tool-args-json", json.dumps({"log_path": str(ROOT / "examples/logs/bad-label-3-ranks"), "limit": 1}),
    )  # fmt: skip
    assert code == 0
    assert reply["structuredContent"]["matches"][0]["id"] == "O14"
    assert json.loads(reply["content"][0]["text"]) == reply["structuredContent"]


def test_inspector_gets_a_tool_error_for_a_missing_log(inspect):
    code, _, err = inspect(
        "--method",
        "tools/call",
        "--tool-name",
        "lookup_symptom",
        "--tool-arg",
        "log_path=/nowhere.log",
    )
    assert code == 5
    assert "tool_is_error" in err


def test_inspector_reads_an_entry_as_a_resource(inspect):
    code, reply, _ = inspect("--method", "resources/read", "--uri", "entry://O3")
    assert code == 0
    assert reply["contents"][0]["text"].startswith("### O3 — ")


@pytest.fixture
def claude(home, project):
    program = engine("claude", CLAUDE)
    return lambda *args, **env: run([program, *args], {**home, **env}, project)


@pytest.mark.parametrize("part", ["", "plugins/remote-gpu-trainer", "hooks"])
@pytest.mark.parametrize("whole", ["built", "checkout"])
def test_claude_code_finds_nothing_to_complain_about_in_the_plugins(claude, built, whole, part):
    if whole == "built" and part.startswith("plugins"):
        pytest.skip("the built folder is the plugin")
    folder = ROOT if whole == "checkout" else built / "remote-gpu-trainer"
    done = claude("plugin", "validate", "--strict", str(folder / part))
    assert done.returncode == 0, done.stdout
    assert "README_MISSING" not in done.stdout


@pytest.fixture
def plugin(claude, built):
    """Claude Code with the plugin from the built folder, and the hooks."""
    assert (
        "Successfully added"
        in claude("plugin", "marketplace", "add", str(built / "remote-gpu-trainer")).stdout
    )
    for name in (OURS, "remote-gpu-trainer-hooks@remote-gpu-trainer"):
        assert "Successfully installed" in claude("plugin", "install", name).stdout
    return claude


def test_claude_code_installs_the_plugin_and_starts_its_server(plugin):
    listed = plugin("mcp", "list").stdout
    assert (
        "plugin:rgt:remote-gpu-trainer" in listed
        and "✔ Connected" in listed
        and "Failed" not in listed
    ), listed
    details = plugin("plugin", "details", OURS).stdout
    assert (
        "Skills (1)  remote-gpu-trainer" in details
        and "MCP servers (1)" in details
        and "Hooks (0)" in details
    ), details
    hooks = plugin("plugin", "details", "remote-gpu-trainer-hooks@remote-gpu-trainer").stdout
    assert "PreToolUse" in hooks and "PostToolUse" in hooks, hooks
    assert json.loads(plugin("plugin", "list", "--json").stdout)


def test_no_tools_name_is_longer_than_the_api_takes():
    assert max(len(PREFIX + name) for name in TOOLS) <= LONGEST_NAME


def test_claude_code_copies_of_a_checkout_what_a_user_needs(claude, home):
    claude("plugin", "marketplace", "add", str(ROOT))
    assert "Successfully installed" in claude("plugin", "install", OURS).stdout
    [cache] = Path(home["HOME"], ".claude/plugins/cache").glob("*/*/*")
    # What Python compiles in a checkout is no part of what a user fetches.
    files = [p for p in cache.rglob("*") if p.is_file() and p.parent.name != "__pycache__"]
    assert not [path for path in cache.rglob("*") if path.is_symlink()]
    assert sum(path.stat().st_size for path in files) <= PLUGIN_BYTES
    assert {path.name for path in cache.iterdir()} == {
        path.name for path in (ROOT / "plugins/remote-gpu-trainer").iterdir()
    }
    assert not {"tests", "evals"} & {path.name for path in cache.iterdir()}


def test_claude_code_in_the_clone_is_offered_no_server(home):
    done = run([engine("claude", CLAUDE), "mcp", "list"], home, ROOT)
    assert "No MCP servers configured" in done.stdout, done.stdout


def test_claude_code_without_uv_and_installation_is_told_what_to_install(
    claude, built, project, home
):
    clients = [part for part in home["PATH"].split(":") if not Path(part, "rgt").exists()]
    home["PATH"] = ":".join(clients)
    claude("plugin", "marketplace", "add", str(built / "remote-gpu-trainer"))
    claude("plugin", "install", OURS)
    assert "✔ Connected" in claude("mcp", "list").stdout
    _, said, seen = loop(
        claude,
        project,
        [(PREFIX + "what_is_missing", {})],
        "--allowedTools",
        PREFIX + "what_is_missing",
    )
    assert "python3 -m pip install --user uv" in said
    assert "python3 -m pip install --user uv" in json.dumps(seen[0]), "before any call"


def loop(claude, project, script, *options):
    """Let Claude Code work through a script; its first event, its last text and the requests that the model saw."""
    with scripted(Messages, script) as (address, seen):
        done = claude(
            "-p", "my two gpu run stopped", *options, "--output-format", "stream-json", "--verbose",
            ANTHROPIC_BASE_URL=address, ANTHROPIC_API_KEY="scripted-not-a-key", ENABLE_TOOL_SEARCH="false",
        )  # fmt: skip
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    started = next((e for e in events if e.get("subtype") == "init"), None)
    assert started, done.stdout[-2000:] + done.stderr[-2000:]
    return started, next(e for e in events if e["type"] == "result")["result"], seen


def test_claude_code_loads_the_skill_looks_the_log_up_and_the_hooks_speak(
    plugin, project, home, tmp_path
):
    (project / "train.log").write_bytes(LOG.read_bytes())
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "vastai").write_text(f"#!/bin/sh\ntouch {tmp_path}/destroyed\n")
    (fake / "vastai").chmod(0o755)
    home["PATH"] += f":{fake}"
    script = [
        ("Skill", {"skill": "rgt:remote-gpu-trainer"}),
        ("Bash", {"command": "cat train.log", "description": "read the log"}),
        (PREFIX + "lookup_symptom", {"log_path": str(project / "train.log")}),
        ("Bash", {"command": "vastai destroy instance 4242 -y", "description": "end the box"}),
    ]
    started, said, seen = loop(
        plugin, project, script, "--allowedTools", "Skill", "Bash", PREFIX + "lookup_symptom"
    )
    assert ("plugin:rgt:remote-gpu-trainer", "connected") in [
        (s["name"], s["status"]) for s in started["mcp_servers"]
    ]
    assert "rgt:remote-gpu-trainer" in started["skills"]
    assert sorted(t.removeprefix(PREFIX) for t in started["tools"] if t.startswith(PREFIX)) == TOOLS
    after_skill, after_log, after_look_up = (
        json.dumps(request["messages"]) for request in seen[-4:-1]
    )
    assert PURPOSE in after_skill
    assert "call lookup_symptom" not in after_skill and "call lookup_symptom" in after_log, (
        "the hook speaks after the log was shown"
    )
    assert "D8" in said and "find_unused_parameters" in after_look_up
    assert "Check first that the run has ended" in said and not (tmp_path / "destroyed").exists()


def test_claude_code_without_the_hooks_hears_nothing_from_them(claude, built, project):
    (project / "train.log").write_bytes(LOG.read_bytes())
    claude("plugin", "marketplace", "add", str(built / "remote-gpu-trainer"))
    claude("plugin", "install", OURS)
    _, _, seen = loop(
        claude,
        project,
        [("Bash", {"command": "cat train.log", "description": "read"})],
        "--allowedTools",
        "Bash",
    )
    assert "ChildFailedError" in json.dumps(
        seen[-1]["messages"]
    ) and "call lookup_symptom" not in json.dumps(seen[-1]["messages"])
