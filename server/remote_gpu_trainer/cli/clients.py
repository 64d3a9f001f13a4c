"""The commands `install`, `uninstall` and `serve`: run the MCP server, and add it to clients."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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
    "'rgt install' lets an agent start it. Ctrl-C ends it."
)
_CLIENT = click.option(
    "--client",
    type=OneOf(CLIENTS),
    metavar="NAME",
    help=f"{', '.join(CLIENTS)} (default: every one that is found)",
)
_YES = click.option("--yes", is_flag=True, help="without --client: don't ask")
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
@_YES
@_PROJECT
@_DRY_RUN
def install(
    hooks: bool,
    serve_command: str | None,
    client: str | None,
    yes: bool,
    project: Path | None,
    dry_run: bool,
) -> int:
    """Add the MCP server and the skill to a coding agent's configuration, and print the change.
    Nothing else in it changes. Without --client: find the agents on this machine, print the
    changes, and ask. The client 'skill' gets only the skill's folder, without the server.
    A configuration that can't be read stays as it is.

    Exit 0: installed. Exit 1: you said no. Exit 2: refused, and nothing was changed.
    """
    from ..clients.installing import clients_found

    clients = [client] if client else _asked_of(clients_found)
    if not clients:
        raise BadRequest(
            "found no coding agent on this machine, neither a program on PATH nor a configuration; "
            "name one with --client"
        )
    if hooks and not set(clients) & set(WITH_HOOKS):
        raise BadRequest(
            f"--hooks doesn't work with {', '.join(clients)}, only with "
            f"{' and '.join(WITH_HOOKS)}; leave it out"
        )
    question = "" if client or yes else f"Install into {', '.join(clients)}?"
    changes = [
        _Wanted(name, project, {"hooks": hooks and name in WITH_HOOKS, "command": serve_command})
        for name in clients
    ]
    return _change(changes, dry_run, question)


@command("uninstall")
@_CLIENT
@_YES
@_PROJECT
@_DRY_RUN
def uninstall(client: str | None, yes: bool, project: Path | None, dry_run: bool) -> int:
    """Remove what 'install' added. A file that nobody has changed since is restored byte for byte.
    Without --client: from every coding agent that 'install' changed; it asks first.

    Exit 0: removed. Exit 1: you said no. Exit 2: refused, and nothing was changed.
    """
    from ..clients.installing import clients_installed

    clients = [client] if client else _asked_of(lambda env: clients_installed(env, project))
    if not clients:
        raise BadRequest("remembers no installation here; name a coding agent with --client")
    question = "" if client or yes else f"Uninstall from {', '.join(clients)}?"
    return _change(
        [_Wanted(name, project, {"remove": True}) for name in clients], dry_run, question
    )


@dataclass(frozen=True)
class _Wanted:
    """What one client is to get or to lose. `how`: as `plan` takes it."""

    client: str
    project: Path | None
    how: dict[str, Any]

    def plan(self) -> Plan:
        from ..clients.installing import plan

        return plan(self.client, os.environ, self.project, **self.how)


def _change(wanted: list[_Wanted], dry_run: bool, question: str) -> int:
    """Print the changes of all clients; unless somebody says no to `question`, carry them out.

    Nothing is written before every change was planned. Raises BadRequest.
    """
    from ..clients.installing import carry_out

    with _refusals():
        plans = {change.client: change.plan() for change in wanted}
    for client, made in plans.items():
        title = client if len(plans) > 1 else ""
        _show_even_if_nobody_reads(made, "would be " if dry_run or question else "", title)
    if dry_run:
        print("nothing was written (--dry-run)", file=sys.stderr)
        return 0
    if question and not _agreed(question):
        print("nothing was changed", file=sys.stderr)
        return 1
    for change in wanted:
        with _refusals():
            # Planned again: what the client before has written is in the memory now.
            made = plans[change.client] if len(wanted) == 1 else change.plan()
            carry_out(made, os.environ)
        if made and made.note:
            print(made.note, file=sys.stderr)
    return 0


def _agreed(question: str) -> bool:
    """Whether the person at the terminal says yes. Raises BadRequest where nobody is there."""
    if not (terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)):
        raise BadRequest("nobody is here to agree to these changes; pass --yes, or --client NAME")
    return click.confirm(question, default=True, err=True)


def _asked_of(clients: Callable[[Mapping[str, str]], list[str]]) -> list[str]:
    """The clients that a function finds in this environment. Raises BadRequest."""
    with _refusals():
        return clients(os.environ)


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the block can't read or write into BadRequest."""
    from ..catalogue.bundle import CatalogueError
    from ..clients.installing import InstallError

    try:
        yield
    except (InstallError, CatalogueError) as error:
        raise BadRequest(str(error)) from None
    except OSError as error:
        raise BadRequest(
            f"can't use {error.filename} ({error.strerror}), so nothing was changed; make it "
            "readable and writable"
        ) from None


def _show_even_if_nobody_reads(made: Plan, would: str, title: str = "") -> None:
    """Print the change; a closed pipe doesn't cancel the installation."""
    try:
        _show(made, would, title)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(made: Plan, would: str, title: str) -> None:
    """Print the change as a unified diff with secrets masked, and a skill's folder as one line.

    `would` goes before what isn't done yet. `title` is the client where there are several.
    """
    lines = [f"{title}:"] if title else []
    lines += [line for change in made.changes if change for line in _diff(change)]
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
    "--allow-runs",
    multiple=True,
    metavar="BOX",
    help="let the agent also start, stop and fetch runs on this box; repeatable. Each takes a plan "
    "first, and asks you through the client. Never with --http",
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
def serve(allow_runs: tuple[str, ...], http: bool, host: str | None, port: int | None) -> int:
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
    if http and allow_runs:
        raise BadRequest(
            "--allow-runs can't be used with --http, which anybody on this machine can reach; "
            "leave one of them out"
        )
    from ..boxes.box import BadBox
    from ..mcp_server import stdio
    from ..mcp_server.server import make_server

    try:
        server = make_server(allow_runs)
    except BadBox as error:
        raise BadRequest(f"--allow-runs: {error}") from None
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
