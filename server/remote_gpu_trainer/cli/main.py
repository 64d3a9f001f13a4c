"""Runs one command. The answer goes to stdout, everything else to stderr.

Exit 0: fine or found. Exit 1: it answered, and the answer is bad or empty. Exit 2: it could not
tell.
"""

from __future__ import annotations

import os
import sys

from ..runs import ledger
from ..text.errors import UserError
from . import terminal
from .parser import make_parser, program

MOVED = ("lint", "docs", "new-entry", "prove")  # `dev` has them now; the short form still works


def main(argv: list[str] | None = None) -> int:
    """Run the command in `argv` (default: the process's arguments). Returns the exit code.

    Raises SystemExit for --help, --version and wrong usage, as argparse does.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in MOVED:
        argv.insert(0, "dev")
    for stream in (sys.stdout, sys.stderr):  # a log may hold what a console's code page lacks
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    parser = make_parser(program(), only=argv[0] if argv else "")
    try:
        if not argv:
            parser.print_help(sys.stderr)
            return 2
        args = parser.parse_args(argv)
        if line := ledger.reminder(args.command, getattr(args, "json", False)):
            print(line, file=sys.stderr)
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read the output has gone, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        for line in str(error).splitlines():
            terminal.error(line)
        return 2


if __name__ == "__main__":
    sys.exit(main())
