"""Real clients start the real server: Inspector CLI and Claude Code. No account, no network, an empty home."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.conftest import ROOT, engine

SERVE = [sys.executable, "-m", "remote_gpu_trainer", "serve"]
INSPECTOR = "npm install --prefix clients @modelcontextprotocol/inspector@2.12.0, then CLIENTS=clients/node_modules/.bin"
CLAUDE = "npm install --prefix clients @anthropic-ai/claude-code@2.1.328, then CLIENTS=clients/node_modules/.bin"


@pytest.fixture
def home(tmp_path):
    """An environment without anybody's account or configuration."""
    path = os.environ["PATH"] + os.pathsep + os.environ.get("CLIENTS", "")
    return {"HOME": str(tmp_path), "PATH": path, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}


def inspect(home, *args):
    command = [engine("mcp-inspector", INSPECTOR), "--cli", *SERVE, *args]
    done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=60)
    return done.returncode, (json.loads(done.stdout) if done.stdout.strip() else {}), done.stderr


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_the_tool_and_gets_an_entry_in_both_eras(home, era):
    code, listed, _ = inspect(home, "--protocol-era", era, "--method", "tools/list", "--strict")
    assert code == 0
    assert [tool["name"] for tool in listed["tools"]] == ["lookup_symptom", "check_staleness"]
    code, reply, _ = inspect(
        home, "--protocol-era", era, "--method", "tools/call", "--tool-name", "lookup_symptom",
        "--tool-args-json", json.dumps({"log_path": str(ROOT / "examples/logs/bad-label-3-ranks"), "limit": 1}),
    )  # fmt: skip
    assert code == 0
    assert reply["structuredContent"]["matches"][0]["id"] == "O14"
    assert json.loads(reply["content"][0]["text"]) == reply["structuredContent"]


def test_inspector_gets_a_tool_error_for_a_missing_log(home):
    code, _, err = inspect(home, "--method", "tools/call", "--tool-name", "lookup_symptom", "--tool-arg", "log_path=/nowhere.log")
    assert code == 5
    assert "tool_is_error" in err


def test_inspector_reads_an_entry_as_a_resource(home):
    code, reply, _ = inspect(home, "--method", "resources/read", "--uri", "entry://O3")
    assert code == 0
    assert reply["contents"][0]["text"].startswith("### O3 — ")


class ScriptedModel(BaseHTTPRequestHandler):
    """Speaks as much of the Messages API as one tool call needs: first the call, then the id that came back."""

    seen: list = []

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "messages" not in body or not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self.reply_json({"input_tokens": 1})
        type(self).seen.append(body)
        results = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"] if b.get("type") == "tool_result"]
        tools = [t["name"] for t in body.get("tools", [])]
        name = next((t for t in tools if t.endswith("lookup_symptom")), None)
        if name and not results:
            block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"log_path": os.environ["SCRIPTED_LOG"]})}
            stop = "tool_use"
        else:
            said = json.dumps(results[-1]["content"]) if results else "no tool"
            block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "TOOL SAID " + said[:3000]}, "end_turn"
        events = [
            ("message_start", {"message": {"id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            ("content_block_start", {"index": 0, "content_block": block}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}}),
            ("message_stop", {}),
        ]  # fmt: skip
        data = "".join(f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n" for kind, rest in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def reply_json(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_claude_code_connects(home, tmp_path):
    claude = engine("claude", CLAUDE)
    subprocess.run([claude, "mcp", "add", "gpu", "--", *SERVE], env=home, cwd=tmp_path, check=True, capture_output=True, timeout=60)
    listed = subprocess.run([claude, "mcp", "list"], env=home, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "Connected" in listed.stdout and "Failed" not in listed.stdout, listed.stdout


def test_claude_code_calls_the_tool_and_gets_the_entry(home, tmp_path, monkeypatch):
    claude = engine("claude", CLAUDE)
    monkeypatch.setenv("SCRIPTED_LOG", str(ROOT / "examples/logs/ddp-unused-parameters.log"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), ScriptedModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"gpu": {"command": SERVE[0], "args": SERVE[1:]}}}))
        env = {**home, "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}", "ANTHROPIC_API_KEY": "scripted-not-a-key", "ENABLE_TOOL_SEARCH": "false"}
        done = subprocess.run(
            [claude, "-p", "my two gpu run stopped", "--mcp-config", str(tmp_path / "mcp.json"), "--strict-mcp-config",
             "--allowedTools", "mcp__gpu__lookup_symptom", "--output-format", "stream-json", "--verbose"],
            env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90,
        )  # fmt: skip
    finally:
        server.shutdown()
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    started = next(e for e in events if e.get("subtype") == "init")
    assert [(s["name"], s["status"]) for s in started["mcp_servers"]] == [("gpu", "connected")]
    result = next(e for e in events if e["type"] == "result")
    assert result["result"].startswith("TOOL SAID ")
    assert "D8" in result["result"] and "find_unused_parameters" in result["result"]
