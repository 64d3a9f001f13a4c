"""The commands about a run: `render`, `status` and `release`. Arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

from ..text import BadRequest
from ..text.spans import seconds_in
from . import terminal
from .health import BOX, box_of, remember


def add_to(commands) -> None:
    """Add the commands to the parser's commands."""
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

    told = commands.add_parser(
        "status",
        help="show the state of the run on a box, or wait for a change",
        description="Show the state of the run on a box, with one ssh call. Exit 0: alive or "
        "finished. Exit 1: failed, unsaved, preempted, stalled, or no run there. Exit 2: could not "
        "tell.",
    )
    told.add_argument("box", help=BOX)
    told.add_argument(
        "--wait",
        action="store_true",
        help="wait until the run isn't alive any more, or the box stops answering (see --lost)",
    )
    told.add_argument(
        "--max",
        type=seconds,
        default="8h",
        metavar="SPAN",
        help="wait at most this long: 30m, 8h (default 8h)",
    )
    told.add_argument(
        "--every",
        type=seconds,
        default="30s",
        metavar="SPAN",
        help="time between two checks (default 30s)",
    )
    told.add_argument(
        "--lost",
        type=seconds,
        default="15m",
        metavar="SPAN",
        help="time without an answer after which the box counts as unreachable (default 15m)",
    )
    told.set_defaults(run=status)

    left = commands.add_parser(
        "release",
        help="bring the results home, show what is still billed, check that the box is gone",
        description="Pull the results of a run that has ended, compare and load them. Then show "
        "what each way of stopping still bills, and the provider's command for you to run. "
        "With --confirm-gone, look the box up in the provider's list. Nothing is deleted or "
        "stopped. The commands about boxes remind you once a day of each box that they reached, "
        "until you confirm that it is gone, --forget it, or say that it is --mine. Exit 0: "
        "verified, gone or forgotten. Exit 1: not. Exit 2: could not tell.",
    )
    left.add_argument("box", help=BOX)
    left.add_argument("--profile", metavar="NAME", help="the platform; rgt profile lists them")
    left.add_argument(
        "--to", type=Path, metavar="DIR", help="where the results go (default results/BOX-RUN)"
    )
    left.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="DIR",
        help="another folder on the box to pull; repeatable",
    )
    left.add_argument(
        "--expect",
        type=int,
        metavar="N",
        help="how many result folders there must be (0: the run leaves no checkpoint)",
    )
    left.add_argument(
        "--no-load", action="store_true", help="compare hashes, but don't load checkpoints"
    )
    left.add_argument(
        "--confirm-gone",
        action="store_true",
        help="look the box up in the provider's list, before you end it and once more afterwards",
    )
    left.add_argument(
        "--id",
        action="append",
        default=[],
        metavar="ID",
        help="the box's id or name in that list; repeatable",
    )
    left.add_argument(
        "--listing",
        metavar="FILE",
        help="the list, as the provider's command prints it; '-' for standard input",
    )
    left.add_argument(
        "--run-listing",
        metavar="COMMAND",
        help="run this listing command from the platform's page on this machine",
    )
    word = left.add_mutually_exclusive_group()
    word.add_argument(
        "--mine",
        action="store_true",
        help="this is your own machine, which nobody bills: never remind of it again. BOX may be a "
        "name or an address from the reminder",
    )
    word.add_argument(
        "--forget",
        action="store_true",
        help="you ended this box: stop the reminder without a list. BOX as for --mine",
    )
    left.set_defaults(run=release)

    for command in (told, left):
        command.add_argument(
            "--run",
            dest="run_name",
            default="",
            metavar="NAME",
            help="the run: a name under ~/runs, or a folder there (default: the newest)",
        )
        command.add_argument(
            "--accept-new-host-key",
            action="store_true",
            help="store the host key of an unknown box; a changed key is never accepted",
        )
        command.add_argument("--json", action="store_true", help="print a JSON object")


def seconds(text: str) -> float:
    """Seconds of a span such as 30s, 90m, 8h, 2d. Raises argparse's error."""
    span = seconds_in(text)
    if not span:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} isn't a duration; write 30s, 90m or 8h")
    return span


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


def status(args: argparse.Namespace) -> int:
    """`status`: 0 alive or finished, 1 bad, 2 could not tell."""
    from ..runs import status as asking

    box = box_of(args.box)
    reached = False

    def question():
        nonlocal reached
        found = asking.ask(box, args.run_name, accept_new=args.accept_new_host_key)
        if not reached and found.state not in ("unreachable", "unknown"):
            reached = True
            remember(box)
        return found

    found = (
        asking.wait(question, most=args.max, interval=max(args.every, 1.0), lost=args.lost)
        if args.wait
        else question()
    )
    asking.explain(found)
    print(
        json.dumps(found.as_dict(), ensure_ascii=False, indent=1)
        if args.json
        else asking.as_text(found)
    )
    return found.code


def release(args: argparse.Namespace) -> int:
    """`release`: 0 verified, gone or forgotten, 1 not, 2 could not tell."""
    from ..platforms import profile as profiles
    from ..runs.pulling import Unreleased

    if args.forget or args.mine:
        return _forget(args)
    if args.profile is None:
        raise BadRequest("--profile is missing; name the platform (rgt profile lists them)")
    box, profile = box_of(args.box), profiles.get(args.profile)
    try:
        return (
            _confirm(args, box, profile)
            if args.confirm_gone or args.listing or args.run_listing
            else _bring_home(args, box, profile)
        )
    except Unreleased as error:
        raise BadRequest(str(error)) from None


def _bring_home(args: argparse.Namespace, box, profile) -> int:
    from ..platforms import teardown
    from ..runs import box_gone
    from ..runs import release as releasing

    found = releasing.release(
        box,
        args.run_name,
        args.to,
        also=tuple(args.also),
        expect=args.expect,
        load=not args.no_load,
        accept_new=args.accept_new_host_key,
    )
    if profile.kind != "own":
        remember(box, profile.name)
    ways = teardown.ways(profile, datetime.date.today())
    next_step = box_gone.next_step(box, profile)
    if args.json:
        told = {**found.as_dict(), "ways": [way.__dict__ for way in ways], "next": next_step}
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        texts = (releasing.as_text(found), teardown.ways_as_text(ways), next_step)
        print("\n".join(text for text in texts if text))
    return {"verified": 0, "bad": 1}.get(found.verdict, 2)


def _confirm(args: argparse.Namespace, box, profile) -> int:
    from ..runs import box_gone

    found = box_gone.confirm(box, profile, ids=args.id, listing=_listing(args, profile))
    verdict = {True: "gone", False: "still there", None: "could not tell"}[found.gone]
    print(
        json.dumps({"gone": found.gone, "text": found.text}, ensure_ascii=False)
        if args.json
        else f"{verdict}: {found.text}"
    )
    return {True: 0, False: 1, None: 2}[found.gone]


def _forget(args: argparse.Namespace) -> int:
    """Take a box off the ledger because the user says so: 0 forgotten, 1 it wasn't there."""
    from ..boxes.box import BadBox, address, parse
    from ..runs import ledger
    from ..text.masking import shown

    if args.profile or args.confirm_gone or args.id or args.listing or args.run_listing:
        option = "--mine" if args.mine else "--forget"
        raise BadRequest(f"{option} doesn't ask the provider; leave out the profile and the list")
    try:
        box = parse(args.box)
        name, place = box.name, address(box)
    except BadBox:  # an address, or a name that the reminder cut
        name, place = args.box.strip(), ""
    left = ledger.forget(name, place, own=args.mine)
    name = shown(name, 80)
    if not left:
        text = f"{name} isn't on the list of boxes that may be billed"
    elif args.mine:
        text = f"forgot {name} and won't remind you again: you said that it is your own machine"
    else:
        text = f"forgot {name}: you said that it is gone"
    print(
        json.dumps({"forgotten": bool(left), "text": text}, ensure_ascii=False)
        if args.json
        else text
    )
    return 0 if left else 1


def _listing(args: argparse.Namespace, profile) -> str | None:
    """The provider's list; None when none was given."""
    from ..platforms.teardown import decoded, run_listing

    if args.listing and args.run_listing:
        raise BadRequest("--listing and --run-listing can't be combined; pass one of them")
    if args.run_listing:
        return run_listing(args.run_listing, profile)
    if args.listing is None:
        return None
    try:
        return decoded(
            sys.stdin.buffer.read(16 << 20)
            if args.listing == "-"
            else Path(args.listing).read_bytes()
        )
    except OSError as error:
        raise BadRequest(
            f"can't read --listing {args.listing} ({error.strerror}); pass a file with the "
            "provider's list, or '-'"
        ) from None
