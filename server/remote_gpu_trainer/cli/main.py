"""One command a question, no logic. The answer goes to stdout, everything else to stderr.

Exit 0: fine or found. Exit 1: it answered, and the answer is bad or empty. Exit 2: it could not tell.
Modules are imported where a command needs them, because a look-up must start in a tenth of a second.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time

from .. import __version__
from ..runs import ledger
from ..text.errors import UserError


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    args = make_parser(only=argv[0] if argv else "").parse_args(argv)
    for stream in (sys.stdout, sys.stderr):  # a log may hold what a console's code page lacks
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if line := ledger.reminder():
            print(line, file=sys.stderr)
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        for line in str(error).splitlines():
            print(f"remote-gpu-trainer {args.command}: {line}", file=sys.stderr)
        return 2


def make_parser(only: str = "") -> argparse.ArgumentParser:
    """All commands with their options, or no more than needed for one that must start fast; the help texts in the docs are generated from it."""
    parser = argparse.ArgumentParser(
        prog="remote-gpu-trainer",
        description="What is wrong with this training run, and how to tell.",
        formatter_class=_Help,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    if only in ("profile", "staleness"):
        from . import platforms as platform_commands

        platform_commands.add_to(commands)
        return parser

    look = commands.add_parser("lookup", help="name the entry that explains an error, a log or a sentence", description="Name the entry that explains an error, a log or a sentence. Exit 1 when nothing fits.", formatter_class=_Help)  # fmt: skip
    look.add_argument(
        "text", nargs="?", help="what happens, alone or beside --log, or '-' for standard input"
    )
    look.add_argument(
        "--log",
        metavar="PATH",
        help="a log file, or a folder of per-rank logs read as one run; HOST:PATH for one on a box, where it stays; - for standard input",
    )
    look.add_argument("--id", metavar="ID", help="print one whole entry, for example O7")
    look.add_argument(
        "--limit", type=int, default=3, metavar="N", help="how many matches, 1 to 10 (default 3)"
    )
    look.add_argument(
        "--installed",
        metavar="FILE",
        help="'pip freeze' text, requirements.txt, uv.lock, an interpreter or a virtual environment: entries about other versions are marked",
    )
    look.add_argument(
        "--json", action="store_true", help="print the object that the MCP tool returns"
    )
    look.set_defaults(run=lookup)
    if only == "lookup":
        return parser

    from . import boxes as box_commands
    from . import catalogue as catalogue_commands
    from . import clients as install_commands
    from . import health as health_commands
    from . import platforms as platform_commands
    from . import runs as run_commands

    platform_commands.add_to(commands)
    run_commands.add_to(commands)
    box_commands.add_to(commands)
    health_commands.add_to(commands)

    catalogue_commands.add_to(commands, make_parser)
    install_commands.add_to(commands)

    serve = commands.add_parser("serve", help="answer over MCP on standard input and output", description="Answer over MCP: on standard input and output, or with --http on a port of this machine.")  # fmt: skip
    serve.add_argument(
        "--http",
        action="store_true",
        help="serve http://127.0.0.1:PORT/mcp instead; other machines can't reach it, and there is no login",
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
        help="with --http: the port, 0 for any that is free (default 8931)",
    )
    serve.set_defaults(run=run_serve)
    return parser


class _Help(argparse.HelpFormatter):
    """argparse's own, told how wide the terminal is: for each option it would ask shutil, whose import takes longer than all options."""

    def __init__(self, prog: str):
        try:
            columns = int(os.environ.get("COLUMNS") or 0) or os.get_terminal_size().columns
        except (ValueError, OSError):
            columns = 80
        super().__init__(prog, width=columns - 2)


def lookup(args: argparse.Namespace) -> int:
    """`lookup`: 0 found, 1 nothing fits."""
    from ..lookup.answer import check_limit
    from ..text.errors import BadRequest

    given = [
        name
        for name, value in (("text", args.text), ("--log", args.log), ("--id", args.id))
        if value is not None
    ]
    beside = given == ["text", "--log"] and args.text != "-"  # what somebody says of a log
    if len(given) != 1 and not beside:
        raise BadRequest(
            f"found {' and '.join(given) or 'no question'}, expected one of: a text, '-', --log FILE, --id ID (a text may stand beside --log)"
        )
    check_limit(args.limit)
    if args.id is not None:
        return show_entry(args)
    gc.disable()  # modules and pages stay: to look for garbage among them takes a tenth of the time
    try:
        from ..lookup.look_up import answer_for, prepare
        from .answer_text import as_text

        prepare()
    finally:
        gc.enable()
    piped = "-" in (args.text, args.log)
    answer = answer_for(
        text=None if args.text == "-" else args.text,
        log=None if piped else args.log and os.path.expanduser(args.log),
        stream=sys.stdin.buffer if piped else None,
        limit=args.limit,
        installed=read_installed(args.installed),
        progress=Progress(),
        seconds=600,
    )
    if args.json:
        print(json.dumps(answer.as_dict(), ensure_ascii=False, indent=1))
    else:
        print(as_text(answer, whole="remote-gpu-trainer lookup --id {id}"))
    return 0 if answer.matches else 1


def show_entry(args: argparse.Namespace) -> int:
    from ..catalogue import bundle

    entry = bundle.load().get(args.id)
    if args.json:
        from ..lookup.look_up import whole_entry

        print(json.dumps(whole_entry(entry), ensure_ascii=False, indent=1))
    else:
        print(entry.markdown, end="")
    return 0


def read_installed(path: str | None) -> str | None:
    if not path:
        return None
    from ..platforms.installed import InstalledError, read
    from ..text.errors import BadRequest

    try:
        return read(path)
    except InstalledError as error:
        raise BadRequest(f"--installed: {error}") from None


def run_serve(args: argparse.Namespace) -> int:
    from ..mcp_server.server import make_server

    if args.http:
        from ..mcp_server import transports

        transports.serve(make_server(), args.host, args.port)
    else:
        from ..mcp_server.progress import leave

        make_server().run("stdio")
        leave()
    return 0


class Progress:
    """Says on stderr how far the reading is, once a second, after the first second."""

    def __init__(self):
        self.next = time.monotonic() + 1.0

    def __call__(self, bytes_read: int) -> None:
        now = time.monotonic()
        if now >= self.next:
            self.next = now + 1.0
            print(f"read {bytes_read / 1e6:.0f} MB …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
