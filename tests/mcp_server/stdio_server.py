"""The real server as a child process, spoken to line by line, so that a test can also say what no client would say."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading

SERVE = [sys.executable, "-m", "remote_gpu_trainer", "serve"]
SECONDS = 40


class Child:
    """A server over pipes, of the older protocol after `initialize()`. Use it with `with`; it ends with its input."""

    def __init__(self, command=SERVE, env=None, cwd=None):
        given = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **(env or {})}
        given = {name: value for name, value in given.items() if value is not None}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given,
            cwd=cwd,
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.errors = bytearray()
        self.told: list[
            dict
        ] = []  # messages that were passed over: notifications, replies that nobody waits for
        self.count = 0
        for target in (self._read, self._read_errors):
            threading.Thread(target=target, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)

    def _read_errors(self):
        for line in self.process.stderr:
            self.errors += line

    def initialize(self):
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        reply = self.ask("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    def write(self, data: bytes) -> None:
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def start(self, method: str, params=None, **meta) -> int:
        """Send a request without waiting for it. Returns its id."""
        self.count += 1
        params = {**(params or {}), **({"_meta": meta} if meta else {})}
        self.send({"jsonrpc": "2.0", "id": self.count, "method": method, "params": params})
        return self.count

    def reply(self, number, seconds: float = SECONDS) -> dict:
        """The reply to this id. Every line must be a message of the protocol: anything else fails here."""
        while True:
            message = json.loads(self.lines.get(timeout=seconds))
            assert message["jsonrpc"] == "2.0", message
            if "method" not in message and message.get("id") == number:
                return message
            self.told.append(message)

    def ask(self, method: str, params=None, seconds: float = SECONDS) -> dict:
        return self.reply(self.start(method, params), seconds)

    def call(self, tool: str, arguments, seconds: float = SECONDS) -> dict:
        return self.ask("tools/call", {"name": tool, "arguments": arguments}, seconds)


def words(reply: dict) -> str:
    """What a reply says: its error's message, or the text of its content."""
    if "error" in reply:
        return reply["error"]["message"]
    return "".join(part.get("text", "") for part in reply["result"].get("content", []))


def failed(reply: dict) -> bool:
    return "error" in reply or bool(reply["result"].get("isError"))
