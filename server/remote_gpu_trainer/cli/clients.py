"""The commands `install` and `uninstall`. Arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from pathlib import Path


def add_to(commands) -> None:
    """Add both commands to the parser's commands."""
    from ..clients.configs import CLIENTS

    put = commands.add_parser(
        "install", help="put server and skill into a coding agent's configuration",
        description="Put the MCP server and the skill into a client's configuration, beside what is there; the change is printed. 'skill' is the folder alone, without the server. "
        "A configuration that can't be read is left alone. Exit 0: it is there. Exit 2: refused, and nothing was changed.",
    )  # fmt: skip
    put.add_argument(
        "--hooks",
        action="store_true",
        help="for claude-code and opencode: suggest the look-up after a failure, show the release check before a deletion",
    )
    put.add_argument(
        "--command",
        metavar="TEXT",
        dest="serve",
        help="start the server by this command, such as 'uvx --from WHEEL remote-gpu-trainer serve' (default: this installation's)",
    )
    put.set_defaults(run=install)
    out = commands.add_parser("uninstall", help="take both out again", description="Take out what 'install' put in; a file that nobody changed since is restored byte for byte.")  # fmt: skip
    out.set_defaults(run=uninstall)
    for command in (put, out):
        command.add_argument(
            "--client", required=True, choices=CLIENTS, help=", ".join(CLIENTS), metavar="NAME"
        )
        command.add_argument(
            "--project",
            type=Path,
            metavar="DIR",
            help="in this project's files (default: in the user's)",
        )
        command.add_argument(
            "--dry-run", action="store_true", help="print the change, write nothing"
        )


def install(args: argparse.Namespace) -> int:
    """`install`: 0 it is there, 2 refused."""
    from ..clients.configs import WITH_HOOKS

    if args.hooks and args.client not in WITH_HOOKS:
        return _refused(
            args,
            f"found --hooks for {args.client}, expected it for {' or '.join(WITH_HOOKS)}; leave it out",
        )
    return _do(args, hooks=args.hooks, command=args.serve)


def uninstall(args: argparse.Namespace) -> int:
    """`uninstall`: 0 it is gone, 2 refused."""
    return _do(args, remove=True)


def _do(args: argparse.Namespace, **how) -> int:
    from ..catalogue.bundle import CatalogueError
    from ..clients.installing import InstallError, carry_out, plan

    try:
        made = plan(args.client, os.environ, args.project, **how)
        try:
            _show(made, "would be " * args.dry_run)
            sys.stdout.flush()
        except BrokenPipeError:  # who reads no further hasn't taken the order back
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if args.dry_run:
            print("nothing was written (--dry-run)", file=sys.stderr)
            return 0
        carry_out(made, os.environ)
    except (InstallError, CatalogueError) as error:
        return _refused(args, str(error))
    except OSError as error:
        return _refused(
            args,
            f"found {error.filename} not usable ({error.strerror}), expected to read and write there; nothing was changed",
        )
    if made and made.note:
        print(made.note, file=sys.stderr)
    return 0


def _refused(args: argparse.Namespace, text: str) -> int:
    print(f"remote-gpu-trainer {args.command}: {text}", file=sys.stderr)
    return 2


def _show(made, would: str) -> None:
    """The change as a unified diff, secrets masked; a skill's folder as one line. `would`: stands before what a dry run leaves undone."""
    from ..text.masking import shown

    for change in filter(None, made.changes):
        before, after = ((text or "").splitlines() for text in (change.before, change.after))
        names = (
            "/dev/null" if change.before is None else str(change.file),
            "/dev/null" if change.after is None else str(change.file),
        )
        for line in difflib.unified_diff(before, after, *names, lineterm="", n=1):
            print(shown(line))
    step = made.skill
    if step.write:
        print(
            f"{step.folder}: {len(step.write)} files, {sum(map(len, step.write.values())) / 1e6:.1f} MB {would}written"
        )
    if step.remove:
        print(f"{step.folder}: {len(step.remove)} files {would}removed")
    if step.stays:
        print(f"{step.folder}: {shown(', '.join(step.stays))} stays, it isn't ours")
    if made.shared_with:
        print(f"{step.folder}: stays, {', '.join(made.shared_with)} uses it")
    if not made:
        print("nothing to change")
