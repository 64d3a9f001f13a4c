"""The commands `install`, `uninstall` and `serve`: run the MCP server, and add it to clients."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path

from ..text import BadRequest
from . import terminal


def add_to(commands) -> None:
    """Add the commands to the parser's commands."""
    _add_serve(commands)
    from ..clients.table import CLIENTS

    put = commands.add_parser(
        "install",
        help="add the MCP server and the skill to a coding agent",
        description="Add the MCP server and the skill to a coding agent's configuration, and print "
        "the change. Nothing else in it changes. The client 'skill' gets only the skill's folder, "
        "without the server. A configuration that can't be read stays as it is. "
        "Exit 0: installed. Exit 2: refused, and nothing was changed.",
    )
    put.add_argument(
        "--hooks",
        action="store_true",
        help="for claude-code and opencode: suggest the look-up after a failure, and show the "
        "release check before a command that deletes a box",
    )
    put.add_argument(
        "--command",
        metavar="TEXT",
        dest="serve",
        help="the command that starts the server, such as 'uvx --from WHEEL remote-gpu-trainer "
        "serve' (default: this installation's)",
    )
    put.set_defaults(run=install)
    out = commands.add_parser(
        "uninstall",
        help="remove the MCP server and the skill from a coding agent",
        description="Remove what 'install' added. A file that nobody has changed since is restored "
        "byte for byte.",
    )
    out.set_defaults(run=uninstall)
    for command in (put, out):
        command.add_argument(
            "--client", required=True, choices=CLIENTS, help=", ".join(CLIENTS), metavar="NAME"
        )
        command.add_argument(
            "--project",
            type=Path,
            metavar="DIR",
            help="use this project's configuration (default: the user's)",
        )
        command.add_argument(
            "--dry-run", action="store_true", help="print the change, but write nothing"
        )


def install(args: argparse.Namespace) -> int:
    """`install`: 0 installed, 2 refused."""
    from ..clients.table import WITH_HOOKS

    if args.hooks and args.client not in WITH_HOOKS:
        raise BadRequest(
            f"--hooks doesn't work with {args.client}, only with {' and '.join(WITH_HOOKS)}; "
            "leave it out"
        )
    return _do(args, hooks=args.hooks, command=args.serve)


def uninstall(args: argparse.Namespace) -> int:
    """`uninstall`: 0 removed, 2 refused."""
    return _do(args, remove=True)


def _do(args: argparse.Namespace, **how) -> int:
    from ..catalogue.bundle import CatalogueError
    from ..clients.installing import InstallError, carry_out, plan

    try:
        made = plan(args.client, os.environ, args.project, **how)
        try:
            _show(made, "would be " * args.dry_run)
            sys.stdout.flush()
        except BrokenPipeError:  # a closed pipe doesn't cancel the installation
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if args.dry_run:
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


def _show(made, would: str) -> None:
    """Print the change as a unified diff with secrets masked, and a skill's folder as one line.

    `would` goes before what a dry run doesn't do.
    """
    from ..text.masking import shown

    out = []
    for change in filter(None, made.changes):
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        names = (
            "/dev/null" if change.before is None else str(change.file),
            "/dev/null" if change.after is None else str(change.file),
        )
        out += map(shown, difflib.unified_diff(before, after, *names, lineterm="", n=1))
    step = made.skill
    if step.write:
        size = sum(map(len, step.write.values())) / 1e6
        out.append(f"{step.folder}: {len(step.write)} files, {size:.1f} MB {would}written")
    if step.remove:
        out.append(f"{step.folder}: {len(step.remove)} files {would}removed")
    if step.stays:
        out.append(
            f"{step.folder}: {shown(', '.join(step.stays))} kept, it isn't part of the skill"
        )
    if made.shared_with:
        out.append(f"{step.folder}: kept, {', '.join(made.shared_with)} uses it")
    if not made:
        out.append("nothing to change")
    terminal.write("\n".join(out), terminal.DIFF)


def _add_serve(commands) -> None:
    serve = commands.add_parser(
        "serve",
        help="run the MCP server for coding agents",
        description="Run the MCP server: on standard input and output, or with --http on a port "
        "of this machine.",
    )
    serve.add_argument(
        "--http",
        action="store_true",
        help="serve http://127.0.0.1:PORT/mcp instead; no other machine can reach it, and there "
        "is no login",
    )
    serve.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="with --http: a loopback address; any other is refused (default 127.0.0.1)",
    )
    serve.add_argument(
        "--port",
        type=int,
        default=8931,
        metavar="N",
        help="with --http: the port; 0 takes any free one (default 8931)",
    )
    serve.set_defaults(run=run_serve)


def run_serve(args: argparse.Namespace) -> int:
    """`serve`: 0 when the client disconnects."""
    from ..mcp_server.server import make_server

    if args.http:
        from ..mcp_server import http

        http.serve(make_server(), args.host, args.port)
    else:
        from ..mcp_server.stdio import leave

        make_server().run("stdio")
        leave()
    return 0
