"""The commands about platforms and age: `profile` and `staleness`. Arguments in, text out, no logic."""

from __future__ import annotations

import argparse
import json
from datetime import date


def add_to(commands) -> None:
    """Add both commands to the parser's commands."""
    told = commands.add_parser(
        "profile", help="what a platform bills, deletes and allows; which platform has what a run needs",
        description="Print the facts of a platform, or list the platforms that have what a run needs, or tell how often to save. Exit 1 when no platform qualifies.",
    )  # fmt: skip
    told.add_argument(
        "name", nargs="?", help="a platform, for example runpod; without one, all are listed"
    )
    told.add_argument(
        "--need",
        action="append",
        default=[],
        metavar="NEED",
        help="spot, steady, notice=SECONDS, resume, stop, self-stop, disk=GB, inodes=N, hours=N, ssh, free-egress; may be given again",
    )
    told.add_argument(
        "--save-seconds",
        type=float,
        metavar="S",
        help="how long one checkpoint takes: prints the best interval between saves",
    )
    told.add_argument(
        "--kill-hours",
        type=float,
        metavar="H",
        help="mean hours between kills of one box (with --save-seconds)",
    )
    told.add_argument(
        "--boxes", type=int, default=1, metavar="N", help="boxes that fail together (default 1)"
    )
    told.add_argument("--json", action="store_true", help="print an object")
    told.set_defaults(run=profile)

    stale = commands.add_parser("staleness", help="what was checked too long ago, or is about other versions", description="Tell what was checked too long ago, doesn't concern what is installed, may have changed with a release, or is stated in two ways. Exit 1 when there is any.")  # fmt: skip
    stale.add_argument(
        "--on", metavar="DATE", help="the day to judge by, YYYY-MM-DD (default today)"
    )
    stale.add_argument(
        "--installed",
        metavar="FILE",
        help="'pip freeze' text, requirements.txt, uv.lock, an interpreter or a virtual environment",
    )
    stale.add_argument(
        "--released",
        metavar="TEXT",
        help="a release that came out: 'torch 2.14', or 'torch 2.14 2026-12-01'",
    )
    stale.add_argument(
        "--scope", metavar="WHAT", help="an id, a family, a page, a folder or a platform"
    )
    stale.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="KIND=DAYS",
        help="another limit for price, quota, platform, library or mechanism",
    )
    stale.add_argument(
        "--json", action="store_true", help="print the object that the MCP tool returns"
    )
    stale.add_argument("--markdown", action="store_true", help="print a page for an issue")
    stale.set_defaults(run=staleness)


def profile(args: argparse.Namespace) -> int:
    """`profile`: 0 shown or found, 1 no platform qualifies."""
    from ..platforms import choosing
    from ..platforms import profile as profiles
    from ..text.errors import BadRequest

    if args.save_seconds is not None or args.kill_hours is not None:
        if args.name or args.need:
            raise BadRequest(
                "found --save-seconds or --kill-hours beside a platform or a need, expected them alone: the interval is the same everywhere"
            )
        return show_interval(args)
    today = date.today()
    try:
        if args.name and not args.need:
            found = profiles.get(args.name)
            print(
                json.dumps(choosing.as_dict(found, today), ensure_ascii=False, indent=1)
                if args.json
                else choosing.as_text(found, today)
            )
            return 0
        asked = choosing.read_needs(args.need)
        candidates = [profiles.get(args.name)] if args.name else list(profiles.load().values())
    except (choosing.BadNeed, profiles.ProfileError) as error:
        raise BadRequest(str(error)) from None
    choices = choosing.choose(candidates, asked, today)
    if args.json:
        print(json.dumps([choice.as_dict() for choice in choices], ensure_ascii=False, indent=1))
    else:
        print("\n".join(choosing.as_lines(choices, bool(asked))))
    return 0 if any(choice.qualifies for choice in choices) else 1


def show_interval(args: argparse.Namespace) -> int:
    from ..platforms.interval import between_saves
    from ..text.errors import BadRequest

    if args.save_seconds is None or args.kill_hours is None:
        raise BadRequest("found one of --save-seconds and --kill-hours, expected both")
    try:
        found = between_saves(args.save_seconds, args.kill_hours, args.boxes)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if args.json:
        print(
            json.dumps(
                {
                    "young_seconds": found.young,
                    "daly_seconds": found.daly,
                    "overhead": found.overhead,
                }
            )
        )
    else:
        print(found.arithmetic)
    return 0


def staleness(args: argparse.Namespace) -> int:
    """`staleness`: 0 fresh, 1 something to look at."""
    from ..platforms import checking
    from ..platforms.ages import BadQuestion, read_day

    try:
        if args.json and args.markdown:
            raise BadQuestion("found --json and --markdown, expected one of them")
        packages = None
        if args.installed:
            from ..platforms.installed import (
                read,  # packaging takes longer to import than all else here
            )

            packages = read(args.installed)
        day = read_day(args.on)
        report = checking.check(
            day, packages=packages, released=args.released, scope=args.scope, limits=args.limit
        )
    except BadQuestion as error:
        from ..text.errors import (
            BadRequest,  # the ranking is read with it, and only a refusal needs it
        )

        raise BadRequest(str(error)) from None
    if args.json:
        print(json.dumps(report.as_dict(), ensure_ascii=False, indent=1))
    else:
        print(checking.as_markdown(report, day) if args.markdown else checking.as_text(report))
    return 0 if report.fresh else 1
