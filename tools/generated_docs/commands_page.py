"""docs/commands.md: what --help prints for every command, as one page."""

from __future__ import annotations

import inspect
from pathlib import Path

from remote_gpu_trainer.cli.main import leaves
from remote_gpu_trainer.cli.main import root as root_context

from .templates_of_documents import filled

AS_IT_IS = "\b\n"  # in a help: click doesn't wrap the lines that follow


def commands_page(root: Path) -> str:
    """docs/commands.md: what --help prints for every command."""
    commands = []
    for name, ctx in leaves(root_context("rgt")).items():
        usage = " ".join([ctx.command_path, *ctx.command.collect_usage_pieces(ctx)])
        paragraphs = _paragraphs(inspect.cleandoc(ctx.command.help or ""))
        arguments = [
            (invocation.strip(), about)
            for param in ctx.command.params
            if (record := param.get_help_record(ctx))
            for invocation, about in [record]
        ]
        commands.append((name, usage, paragraphs, arguments))
    return filled("commands", commands=commands)


def _paragraphs(text: str) -> list[str]:
    """A help's paragraphs, each in one line; one after click's mark \\b as a block of code."""
    return [
        f"```sh\n{part.removeprefix(AS_IT_IS)}\n```"
        if part.startswith(AS_IT_IS)
        else " ".join(part.split())
        for part in text.split("\n\n")
    ]
