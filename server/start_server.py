#!/usr/bin/env python3
"""Starts the MCP server of this plugin. Python 3.8, standard library.

In this order: an installed `remote-gpu-trainer` of the plugin's version; `uvx` with the wheel
beside this file (in a checkout: with the checkout), from its cache without network when it was used
before; an installed one of another version, and stderr says so.
"""

import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


def main():
    """Start the server in this process's place, with the arguments that it needs.

    Returns 2 where nothing can start it; stderr says what to install. On Windows it returns the
    exit code of the server.
    """
    with open(os.path.join(ROOT, ".claude-plugin", "plugin.json"), encoding="utf-8") as file:
        version = json.load(file)["version"]
    program, uvx = shutil.which("remote-gpu-trainer"), shutil.which("uvx")
    installed = output_of([program, "--version"]) if program else None
    if installed == version or (installed and not uvx):
        if installed != version:
            tell(
                f"found version {installed} installed, expected {version}; "
                "upgrade it, or install uv"
            )
        return become([program, "serve"])
    wheels = sorted(name for name in os.listdir(HERE) if name.endswith(".whl"))
    source = os.path.join(HERE, wheels[-1]) if wheels else ROOT
    if uvx:
        cached = [uvx, "--offline", "--from", source, "remote-gpu-trainer"]
        fresh = [uvx, "--from", source, "remote-gpu-trainer"]
        is_cached = output_of([*cached, "--version"]) == version
        return become((cached if is_cached else fresh) + ["serve"])
    tell(
        "found neither remote-gpu-trainer nor uvx on PATH, expected one of them; install uv, "
        f"or: pip install {source}"
    )
    return 2


def tell(text):
    """Tell the user on stderr: stdout belongs to the protocol."""
    sys.stderr.write(f"remote-gpu-trainer: {text}\n")


def output_of(command):
    """What a command prints, or None when it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=20,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def become(command):
    """Replace this process; on Windows, where that isn't possible, wait for the child."""
    if os.name == "nt":
        return subprocess.call(command)
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
