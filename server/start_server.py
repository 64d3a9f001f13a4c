#!/usr/bin/env python3
"""Starts the MCP server of this plugin. Python 3.8, standard library.

In this order: an installed `remote-gpu-trainer` of the plugin's version; `uvx` with the wheel
beside this file (in a checkout: with the folder above), from its cache without network when it was
used before; an installed one of another version, and stderr says so. Where none of these works,
this file speaks the protocol itself, and its one tool says which command to run.
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
NAME = "remote-gpu-trainer"
MINUTE = 60  # seconds


def main():
    """Start the server in this process's place, or say what is missing until the client leaves.

    On Windows it returns the exit code of the server.
    """
    with open(os.path.join(ROOT, ".claude-plugin", "plugin.json"), encoding="utf-8") as file:
        version = json.load(file)["version"]
    program, uvx = found(NAME), found("uvx")
    installed = output_of([program, "--version"]) if program else None
    if installed == version or (installed and not uvx):
        if installed != version:
            tell(
                f"found version {installed} installed, expected {version}; "
                "upgrade it, or install uv"
            )
        return become([program, "serve"])
    if not uvx:
        return explain(
            version,
            f"found neither {NAME} nor uvx on PATH, expected one of them",
            "python3 -m pip install --user uv",
        )
    wheels = sorted(name for name in os.listdir(HERE) if name.endswith(".whl"))
    source = os.path.join(HERE, wheels[-1]) if wheels else ROOT
    cached = [uvx, "--offline", "--from", source, NAME]
    fresh = [uvx, "--from", source, NAME]
    if output_of([*cached, "--version"]) == version:
        return become([*cached, "serve"])
    if output_of([*fresh, "--version"], 10 * MINUTE) is None:
        return explain(
            version, f"uvx could not install {NAME}", f"uvx --from '{source}' {NAME} --version"
        )
    return become([*fresh, "serve"])


def found(program):
    """The path of a program, or None.

    A client that wasn't started from a shell may lack the folder where uv, pipx and pip put
    programs of one user.
    """
    own = os.path.join(os.path.expanduser("~"), ".local", "bin")
    return shutil.which(program) or shutil.which(program, path=own)


def tell(text):
    """Tell the user on stderr: stdout belongs to the protocol."""
    sys.stderr.write(f"{NAME}: {text}\n")
    sys.stderr.flush()


def output_of(command, seconds=20):
    """What a command prints, or None when it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def become(command):
    """Replace this process; on Windows, where that isn't possible, wait for the child."""
    if os.name == "nt":
        return subprocess.call(command)
    os.execv(command[0], command)


def explain(version, why, command):
    """Answer the client's messages in the server's place until it closes standard input.

    A client shows nothing of the standard error of a server that ends, only that it failed.
    Returns 2.
    """
    advice = (
        f"The server isn't running: {why}. Ask the user to run this one command, and then to "
        f"restart the client: {command}"
    )
    tell(f"{why}; run: {command}")
    for line in sys.stdin:
        reply = answer(line, version, advice)
        if reply:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
    return 2


def answer(line, version, advice):
    """The reply to one message of JSON-RPC; None if it asks for none, or isn't one."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "id" not in message or "method" not in message:
        return None
    asked = message.get("params")
    asked = asked if isinstance(asked, dict) else {}
    results = {
        "initialize": {
            "protocolVersion": asked.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": version},
            "instructions": advice,
        },
        "ping": {},
        "tools/list": {
            "tools": [
                {
                    "name": "what_is_missing",
                    "description": advice,
                    "inputSchema": {"type": "object", "properties": {}},
                    "annotations": {"readOnlyHint": True, "openWorldHint": False},
                }
            ]
        },
        "tools/call": {"content": [{"type": "text", "text": advice}]},
    }
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results:
        reply["result"] = results[message["method"]]
    else:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    return reply


if __name__ == "__main__":
    sys.exit(main())
