"""The commands `install`, `uninstall` and `serve`: run the MCP server, and add it to clients."""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..clients.table import CLIENTS, WITH_HOOKS
from ..text import BadRequest
from ..text.masking import shown
from . import terminal
from .completion import folders
from .parsing import OneOf, command

if TYPE_CHECKING:
    from ..clients.installing import Change, Plan


# For a person who types `rgt serve`: without it the terminal just stands still.
WAITING = (
    "remote-gpu-trainer serve: waiting for a coding agent's messages on standard input; "
    "'rgt install --client NAME' lets an agent start it. Ctrl-C ends it."
)
_CLIENT = click.option(
    "--client",
    required=True,
    type=OneOf(CLIENTS),
    metavar="NAME",
    help=", ".join(CLIENTS),
)
_PROJECT = click.option(
    "--project",
    type=Path,
    metavar="DIR",
    shell_complete=folders,
    help="use this project's configuration (default: the user's)",
)
_DRY_RUN = click.option("--dry-run", is_flag=True, help="print the change, but write nothing")


@command("install")
@click.option(
    "--hooks",
    is_flag=True,
    help="for claude-code and opencode: name the fitting tool at a prompt or a result that is "
    "about a run in trouble, and show the release check before a command that deletes a box",
)
@click.option(
    "--command",
    "serve_command",
    metavar="TEXT",
    help="the command that starts the server, such as 'uvx --from WHEEL remote-gpu-trainer "
    "serve' (default: this installation's)",
)
@_CLIENT
@_PROJECT
@_DRY_RUN
def install(
    hooks: bool, serve_command: str | None, client: str, project: Path | None, dry_run: bool
) -> int:
    """Add the MCP server and the skill to a coding agent's configuration, and print the change.
    Nothing else in it changes. The client 'skill' gets only the skill's folder, without the server.
    A configuration that can't be read stays as it is.

    Exit 0: installed. Exit 2: refused, and nothing was changed.
    """
    if hooks and client not in WITH_HOOKS:
        raise BadRequest(
            f"--hooks doesn't work with {client}, only with {' and '.join(WITH_HOOKS)}; "
            "leave it out"
        )
    return _change(client, project, dry_run, hooks=hooks, command=serve_command)


@command("uninstall")
@_CLIENT
@_PROJECT
@_DRY_RUN
def uninstall(client: str, project: Path | None, dry_run: bool) -> int:
    """Remove what 'install' added. A file that nobody has changed since is restored byte for byte.

    Exit 0: removed. Exit 2: refused, and nothing was changed.
    """
    return _change(client, project, dry_run, remove=True)


def _change(client: str, project: Path | None, dry_run: bool, **how: Any) -> int:
    """Print a change of a client's configuration, and carry it out. `how`: as `plan` takes it."""
    from ..catalogue.bundle import CatalogueError
    from ..clients.installing import InstallError, carry_out, plan

    try:
        made = plan(client, os.environ, project, **how)
        _show_even_if_nobody_reads(made, "would be " if dry_run else "")
        if dry_run:
            print("nothing was written (--dry-run)", file=sys.stderr)
            return 0
        carry_out(made, os.environ)
    except (InstallError, CatalogueError) as error:
        raise BadRequest(str(error)) from None
    except OSError as error:
        raise BadRequest(
            f"can't use {error.filename} ({error.strerror}), so nothing was changed; make it "
            "readable and writable"
        ) from None
    if made and made.note:
        print(made.note, file=sys.stderr)
    return 0


def _show_even_if_nobody_reads(made: Plan, would: str) -> None:
    """Print the change; a closed pipe doesn't cancel the installation."""
    try:
        _show(made, would)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(made: Plan, would: str) -> None:
    """Print the change as a unified diff with secrets masked, and a skill's folder as one line.

    `would` goes before what a dry run doesn't do.
    """
    lines = [line for change in made.changes if change for line in _diff(change)]
    lines += _skill_lines(made, would)
    if not made:
        lines.append("nothing to change")
    terminal.write("\n".join(lines), terminal.DIFF)


def _diff(change: Change) -> list[str]:
    """A configuration's change, with secrets masked."""
    before, after = ((text or "").splitlines() for text in (change.before, change.after))
    names = (
        "/dev/null" if change.before is None else str(change.file),
        "/dev/null" if change.after is None else str(change.file),
    )
    return [shown(line) for line in difflib.unified_diff(before, after, *names, lineterm="", n=1)]


def _skill_lines(made: Plan, would: str) -> list[str]:
    """What happens to the folder of the skill; secrets in names of files are masked."""
    step, lines = made.skill, []
    if step.write:
        size = sum(map(len, step.write.values())) / 1e6
        lines.append(f"{step.folder}: {len(step.write)} files, {size:.1f} MB {would}written")
    if step.remove:
        lines.append(f"{step.folder}: {len(step.remove)} files {would}removed")
    if step.stays:
        kept = shown(", ".join(step.stays))
        lines.append(f"{step.folder}: {kept} kept, it isn't part of the skill")
    if made.shared_with:
        lines.append(f"{step.folder}: kept, {', '.join(made.shared_with)} uses it")
    return lines


@command("serve")
@click.option(
    "--read-only",
    is_flag=True,
    help="offer nothing that writes a file or loads a GPU: 'render_run_script' without 'write_to', "
    "'gpu_health' without 'stress_seconds'",
)
@click.option(
    "--http",
    is_flag=True,
    help="serve http://127.0.0.1:PORT/mcp instead; no other machine can reach it, and there "
    "is no login",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="with --http: a loopback address; any other is refused (default 127.0.0.1)",
)
@click.option(
    "--port",
    type=int,
    metavar="N",
    help="with --http: the port; 0 takes any free one (default 8931)",
)
def serve(read_only: bool, http: bool, host: str | None, port: int | None) -> int:
    """Run the MCP server: on standard input and output, or with --http on a port of this machine.
    A coding agent starts it by itself ('install').

    Exit 0: the client has disconnected.
    """
    given = [name for name, value in (("--host", host), ("--port", port)) if value is not None]
    if given and not http:
        raise BadRequest(
            f"{' and '.join(given)} can't be used without --http: the server speaks on standard "
            "input and output; add --http, or leave it out"
        )
    from ..mcp_server import stdio
    from ..mcp_server.server import make_server

    server = make_server(read_only)
    stdio.end_at_signals()
    if http:
        from ..mcp_server import http as http_server

        http_server.serve(
            server, host or http_server.HOST, http_server.PORT if port is None else port
        )
    else:
        if terminal.is_terminal(sys.stdin):
            print(WAITING, file=sys.stderr, flush=True)
        server.run("stdio")
    stdio.leave()
    return 0
