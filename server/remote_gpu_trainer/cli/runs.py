"""The command `render`. Arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def add_to(commands) -> None:
    """Add the command to the parser's commands."""
    made = commands.add_parser(
        "render", help="make one script that starts a job so that it survives the box it runs on",
        description="Make one self-contained script from a job and a platform: checks before the start, logs, checkpoints, retries, copies, and a deadline that is kept on the box. "
        "It starts nothing. The script goes to stdout, the commands around it and the warnings to stderr. With --diff: exit 1 when they differ.",
    )  # fmt: skip
    made.add_argument(
        "job", nargs="?", help="a YAML or JSON file with the job, or '-' for JSON on standard input"
    )
    made.add_argument(
        "--profile",
        default="generic-ssh",
        metavar="NAME",
        help="the platform (default generic-ssh); remote-gpu-trainer profile lists them",
    )
    made.add_argument(
        "--target",
        metavar="NAME",
        help="ssh, slurm, kubernetes, skypilot or local (default: what fits the platform)",
    )
    made.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="a field of the job, such as deadline=20h or checkpoint.folder=out; may be given again",
    )
    made.add_argument(
        "--queue", type=Path, metavar="FILE", help="cells, one a line: NAME ARGUMENT …"
    )
    made.add_argument(
        "--sweep",
        type=Path,
        metavar="FILE",
        help="a YAML file with `grid`: every combination becomes a cell",
    )
    made.add_argument(
        "--write-to",
        metavar="PATH",
        help="a folder or file for the script; a file that wasn't rendered is never replaced",
    )
    made.add_argument(
        "--diff",
        type=Path,
        metavar="FILE",
        help="print how an existing script differs from the one rendered now",
    )
    made.add_argument("--schema", action="store_true", help="print the JSON schema of a job")
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
            "found no job, expected a YAML or JSON file, '-', or fields by --set; --schema prints what a job holds"
        )
    if args.job == "-":
        try:
            given = json.load(sys.stdin)
        except ValueError as error:
            raise JobError(f"standard input: {error}, expected JSON") from None
    else:
        given = from_file(Path(args.job)) if args.job else {}
    given = with_queue(with_options(given, args.set), args.queue, args.sweep)
    answer = rendered(given, args.profile, args.target, None if args.diff else args.write_to)
    if args.diff:
        differs = difference(args.diff, answer["script"])
        print(differs, end="")
        return 1 if differs else 0
    if args.json:
        print(json.dumps(answer, ensure_ascii=False, indent=1))
        return 0
    print(answer.get("path") or answer["script"], end="\n" if "path" in answer else "")
    for name in ("start", "watch", "stop", "resume"):
        print(f"# {name}\n{answer[name]}", file=sys.stderr)
    for warning in answer["warnings"]:
        print(f"warning {warning['id']}: {warning['text']}", file=sys.stderr)
    return 0
