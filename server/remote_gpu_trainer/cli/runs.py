"""The command `render`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from . import terminal


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    made = commands.add_parser(
        "render",
        help="write a script that runs a job unattended on a rented box",
        description="Write one self-contained script from a job and a platform. It checks the box "
        "before the start, keeps logs, copies checkpoints to a place that outlives the box, "
        "retries, and stops at a deadline, even without a connection. Nothing is started. The "
        "script goes to stdout. The warnings, and the commands to start, watch, stop and resume "
        "it, go to stderr. With --diff: exit 1 if the scripts differ.",
    )
    made.add_argument(
        "job", nargs="?", help="a YAML or JSON file with the job, or '-' for JSON on standard input"
    )
    made.add_argument(
        "--profile",
        default="generic-ssh",
        metavar="NAME",
        help="the platform (default generic-ssh); 'rgt profile' lists them",
    )
    made.add_argument(
        "--target",
        metavar="NAME",
        help="ssh, slurm, kubernetes, skypilot or local (default: the one that suits the platform)",
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="set a field of the job, such as deadline=20h or checkpoint.folder=out; repeatable",
    )
    made.add_argument(
        "--queue",
        type=Path,
        metavar="FILE",
        help="run several cells in turn, one per line: NAME ARGUMENT …",
    )
    made.add_argument(
        "--sweep",
        type=Path,
        metavar="FILE",
        help="a YAML file with a `grid`: every combination becomes a cell",
    )
    made.add_argument(
        "--write-to",
        metavar="PATH",
        help="a folder or file for the script; of existing files it replaces only rendered scripts",
    )
    made.add_argument(
        "--outside",
        action="store_true",
        help="let --write-to leave the working folder",
    )
    made.add_argument(
        "--diff",
        type=Path,
        metavar="FILE",
        help="show how an existing script differs from the new one, and write nothing",
    )
    made.add_argument(
        "--schema", action="store_true", help="print the JSON schema of a job: all its fields"
    )
    made.add_argument(
        "--json", action="store_true", help="print the object that the MCP tool returns"
    )
    made.set_defaults(run=render)


def render(args: argparse.Namespace) -> int:
    """`render`: 0 rendered or equal, 1 differs."""
    from ..runs.job import Job
    from ..runs.job_reading import JobError, from_file, with_options, with_queue
    from ..runs.rendering import difference, rendered

    if args.schema:
        print(json.dumps(Job.model_json_schema(), ensure_ascii=False, indent=1))
        return 0
    if args.job is None and not args.set:
        raise JobError(
            "no job given; pass a YAML or JSON file, -, or fields with --set (--schema lists them)"
        )
    if args.job == "-":
        try:
            given = json.load(sys.stdin)
        except ValueError as error:
            raise JobError(f"standard input: not JSON ({error}); pass a JSON object") from None
    else:
        given = from_file(Path(args.job)) if args.job else {}
    given = with_queue(with_options(given, args.set), args.queue, args.sweep)
    answer = rendered(
        given, args.profile, args.target, None if args.diff else args.write_to, outside=args.outside
    )
    if args.diff:
        differs = difference(args.diff, answer["script"])
        if differs:
            terminal.write(differs.removesuffix("\n"), terminal.DIFF)
        return 1 if differs else 0
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=1))
        return 0
    print(answer.get("path") or answer["script"], end="\n" if "path" in answer else "")
    for name in ("start", "watch", "stop", "resume"):
        terminal.write(f"# {name}\n{answer[name]}", {r"\A#.*": "bold magenta"}, sys.stderr)
    for warning in answer["warnings"]:
        line = f"warning {warning['id']}: {warning['text']}"
        terminal.write(line, {r"\Awarning [^:]*:": "bold yellow"}, sys.stderr)
    return 0
