"""Programs that tests run: `rgt` as a process of its own or as far as its arguments, and a script's functions."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock

import click
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


def loaded(path: Path) -> ModuleType:
    """A script as a module, so that a test can call its functions."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
