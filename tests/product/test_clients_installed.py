"""The lines of README and of its page for coding agents, word for word, in the clients that they are for: from the built wheel, in an empty home, without an account."""

import json
import os
import re
import shutil
import subprocess

import pytest

from tests.conftest import ROOT, engine
from tests.engines.artifacts import built, home, programs, project, run  # noqa: F401
from tests.engines.scripted_models import Completions, Contents, scripted
from tests.product.test_clients import CLAUDE, LOG, OURS, PURPOSE, TOOLS

pytestmark = pytest.mark.clients

NPM = "npm install --prefix clients {}, then CLIENTS=clients/node_modules/.bin"
OPENCODE, CODEX, GEMINI = (
    NPM.format(name)
    for name in ("opencode-ai@1.18.33", "@openai/codex@0.171.0", "@google/gemini-cli@0.61.0")
)
RIPGREP = "apt-get install ripgrep (opencode's skill tool runs rg)"
UV = "pip install uv"
PAGE = (ROOT / "docs/guides/coding-agents.md").read_text(encoding="utf-8")
LINES, WITH_UVX = (
    [line.split("  #")[0].strip() for line in block.splitlines()]
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S)[:2]
)


def line_with(text):
    [found] = [line for line in LINES if text in line]
    return found


@pytest.fixture
def type_in(home, project):
    def type_in(text, cwd=project):
        done = run(["bash", "-c", text], home, cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return type_in


def test_every_client_has_its_line():
    for client in ("claude-code", "opencode", "codex", "gemini", "cursor", "skill"):
        assert line_with(f"--client {client}") == f"remote-gpu-trainer install --client {client}"
    assert (len(LINES), len(WITH_UVX)) == (8, 2)


def test_the_lines_for_the_plugin_work_in_the_built_folder(type_in, built, home, project):
    engine("claude", CLAUDE)
    type_in(line_with("marketplace add"), built / "remote-gpu-trainer")
    type_in(line_with("remote-gpu-trainer-hooks"), built / "remote-gpu-trainer")
    listed = json.loads(type_in("claude plugin list --json"))
    assert {OURS, "remote-gpu-trainer-hooks@remote-gpu-trainer"} <= {
        plugin["id"] for plugin in listed
    }
    assert "✔ Connected" in type_in("claude mcp list")


def test_the_line_for_claude_code_gives_a_server_and_a_skill_and_both_go_again(
    type_in, home, project
):
    engine("claude", CLAUDE)
    type_in(line_with("claude-code"))
    listed = type_in("claude mcp list")
    assert re.search(r"^remote-gpu-trainer: .* - ✔ Connected", listed, re.M), listed
    assert os.path.isfile(home["HOME"] + "/.claude/skills/remote-gpu-trainer/SKILL.md")
    type_in("remote-gpu-trainer uninstall --client claude-code")
    assert "remote-gpu-trainer" not in type_in("claude mcp list")


@pytest.fixture
def opencode(home, project):
    program = engine("opencode", OPENCODE)
    if not shutil.which("rg", path=home["PATH"]):
        engine("rg", RIPGREP)

    def call(*args):
        done = run([program, *args], home, project)
        return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)

    return call


def test_the_line_for_opencode_gives_a_server_and_a_skill(type_in, opencode):
    type_in(line_with("opencode"))
    assert "✓ remote-gpu-trainer connected" in opencode("mcp", "list")
    assert '"name": "remote-gpu-trainer"' in opencode("debug", "skill")
    type_in("remote-gpu-trainer uninstall --client opencode")
    assert "remote-gpu-trainer" not in opencode("mcp", "list")


def test_opencode_loads_the_skill_looks_the_log_up_and_the_hooks_speak(
    type_in, opencode, home, project, tmp_path
):
    type_in(line_with("opencode") + " --hooks")
    (project / "train.log").write_bytes(LOG.read_bytes())
    destroy = f"touch {tmp_path}/destroyed; true vastai destroy instance 4242 -y"
    script = [
        ("skill", {"name": "remote-gpu-trainer"}),
        ("bash", {"command": "cat train.log", "description": "read the log"}),
        ("remote-gpu-trainer_lookup_symptom", {"log_path": str(project / "train.log")}),
        ("bash", {"command": destroy, "description": "end the box"}),
    ]
    with scripted(Completions, script) as (address, seen):
        (project / "opencode.json").write_text(
            json.dumps({
                "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": address + "/v1", "apiKey": "scripted-not-a-key"}, "models": {"scripted": {}}}},
                "model": "local/scripted", "permission": {"*": "allow"},
            })
        )  # fmt: skip
        printed = opencode("run", "--format", "json", "my two gpu DDP run stopped")
    results = [m["content"] for m in seen[-1]["messages"] if m["role"] == "tool"] if seen else []
    assert len(results) == 4, printed[-3000:]
    asked = json.dumps([m["content"] for m in seen[-1]["messages"] if m["role"] == "user"])
    assert "This prompt may be about a known failure of training" in asked, (
        "the hook speaks below the prompt"
    )
    skill, log, look_up, ended = (json.dumps(result) for result in results)
    assert PURPOSE in skill
    assert "ChildFailedError" in log and "call lookup_symptom" in log, (
        "the hook speaks below the log"
    )
    assert "D8" in look_up and "find_unused_parameters" in look_up
    assert "Check first that the run has ended" in ended and not (tmp_path / "destroyed").exists()


def test_the_line_for_codex_gives_a_server_and_a_skill(type_in, home, project):
    program = engine("codex", CODEX)
    type_in(line_with("codex"))
    with subprocess.Popen(
        [program, "app-server"],
        env=home,
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:

            def ask(number, method, params):
                server.stdin.write(
                    json.dumps({"id": number, "method": method, "params": params}) + "\n"
                )
                server.stdin.flush()
                for line in server.stdout:
                    if json.loads(line).get("id") == number:
                        return json.loads(line)["result"]["data"] if number > 1 else None

            ask(1, "initialize", {"clientInfo": {"name": "test", "title": "test", "version": "1"}})
            server.stdin.write('{"method": "initialized"}\n')
            skills = [
                skill["name"]
                for place in ask(2, "skills/list", {"cwds": [str(project)]})
                for skill in place["skills"]
            ]
            servers = {
                found["name"]: sorted(found["tools"])
                for found in ask(3, "mcpServerStatus/list", {})
            }
        finally:
            server.kill()
    assert "remote-gpu-trainer" in skills
    assert servers == {"remote-gpu-trainer": TOOLS}


@pytest.fixture
def gemini(home):
    """Gemini CLI whose home trusts every folder: the tests have nobody who could say yes."""
    program = engine("gemini", GEMINI)
    settings = home["HOME"] + "/.gemini/settings.json"
    os.makedirs(os.path.dirname(settings))
    with open(settings, "w") as file:
        file.write(
            '{\n  // mine\n  "security": {"folderTrust": {"enabled": false}, "auth": {"selectedType": "gemini-api-key"}}\n}\n'
        )
    return program


@pytest.mark.alone  # gemini gives a server five seconds to answer
def test_the_line_for_gemini_gives_a_server_and_a_skill(type_in, gemini):
    type_in(line_with("gemini"))
    assert re.search(r"✓ remote-gpu-trainer: .* - Connected", type_in("gemini mcp list 2>&1"))
    assert "remote-gpu-trainer [Enabled]" in type_in("gemini skills list 2>&1")


def test_gemini_offers_the_tools_loads_the_skill_and_looks_the_log_up(
    type_in, gemini, home, project
):
    type_in(line_with("gemini"))
    (project / "train.log").write_bytes(LOG.read_bytes())
    script = [
        ("activate_skill", {"name": "remote-gpu-trainer"}),
        ("lookup_symptom", {"log_path": str(project / "train.log")}),
    ]
    with scripted(Contents, script) as (address, seen):
        env = {**home, "GEMINI_API_KEY": "scripted-not-a-key", "GOOGLE_GEMINI_BASE_URL": address}
        done = run(
            [
                gemini,
                "-m",
                "gemini-2.5-flash",
                "--yolo",
                "-o",
                "json",
                "-p",
                "my two gpu run stopped",
            ],
            env,
            project,
        )
    assert len(seen) >= 3, done.stdout[-2000:] + done.stderr[-2000:]
    offered = [
        declared["name"] for tool in seen[0]["tools"] for declared in tool["functionDeclarations"]
    ]
    assert (
        sorted(
            name.removeprefix("mcp_remote-gpu-trainer_")
            for name in offered
            if name.startswith("mcp_remote-gpu-trainer_")
        )
        == TOOLS
    )
    skill, look_up = (
        json.dumps(part)
        for content in seen[-1]["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    )
    assert PURPOSE in skill
    assert "D8" in look_up and "find_unused_parameters" in look_up


def test_the_line_for_cursor_writes_what_its_documentation_asks_for(type_in, home):
    type_in(line_with("cursor"))
    with open(home["HOME"] + "/.cursor/mcp.json") as file:
        server = json.load(file)["mcpServers"]["remote-gpu-trainer"]
    assert server["args"] == ["serve"] and os.access(server["command"], os.X_OK)


def test_the_line_for_the_skill_alone_serves_the_clients_that_read_that_folder(type_in, home):
    type_in(line_with("--client skill"))
    assert os.path.isfile(home["HOME"] + "/.agents/skills/remote-gpu-trainer/SKILL.md")
    assert "mcp" not in str(os.listdir(home["HOME"]))


def test_the_line_with_uvx_serves(built, home, tmp_path):
    uvx = engine("uvx", UV)
    (tmp_path / "dist").symlink_to(built)
    env = {
        **home,
        **{
            key: value
            for key, value in os.environ.items()
            if key.startswith("UV_") or key in ("SSL_CERT_FILE", "SSL_CERT_DIR")
        },
    }
    env.setdefault("UV_SYSTEM_CERTS", "1")
    env["PATH"] = os.path.dirname(uvx) + ":/usr/local/bin:/usr/bin:/bin"
    [serve] = [line for line in WITH_UVX if line.endswith(" serve")]
    asked = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
    done = subprocess.run(
        ["bash", "-c", serve],
        env=env,
        cwd=tmp_path,
        input=asked,
        capture_output=True,
        text=True,
        timeout=180,
    )
    if "error sending request" in done.stderr and not os.environ.get("REQUIRE_ENGINES"):
        pytest.skip("uvx reached no package index")
    assert '"serverInfo"' in done.stdout, done.stderr[-2000:]
