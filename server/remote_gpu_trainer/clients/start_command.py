"""The command with which a client starts the server."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from .. import __version__
from .errors import InstallError
from .table import NAME


def serve_command() -> list[str]:
    """The words of a command that starts this installation's server and will keep working."""
    if "archive-v0" in Path(sys.prefix).parts:  # uvx's cache: uvx may delete its environment
        direct = metadata.distribution(NAME).read_text("direct_url.json")
        source = json.loads(direct)["url"] if direct else f"{NAME}=={__version__}"
        return [shutil.which("uvx") or "uvx", "--from", source, NAME, "serve"]
    script = Path(sys.executable).parent / (NAME + (".exe" if os.name == "nt" else ""))
    if script.is_file():
        return [str(script), "serve"]
    return [sys.executable, "-m", "remote_gpu_trainer", "serve"]


def words_of(command: str) -> list[str]:
    """The words of a command line. Raises InstallError when it has none, or an open quote."""
    with suppress(ValueError):
        if words := shlex.split(command):
            return words
    raise InstallError(
        f"--command {command[:60]!r} isn't a command line; write a command and close its quotes"
    )
