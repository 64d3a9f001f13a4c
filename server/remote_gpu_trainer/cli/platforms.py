"""The commands `profile` and `staleness`: arguments in, text out."""

from __future__ import annotations

import argparse
import json
from datetime import date


def add_to(commands) -> None:
    """Add both commands to the parser's commands."""
    told = commands.add_parser(
        "profile",
        help="show what a platform bills, deletes and allows, or which platforms suit a run",
        description="Print the facts of a platform, list the platforms that have what a run needs, "
        "or compute how often to save. Exit 1 when no platform qualifies.",
    )
    told.add_argument("name", nargs="?", help="a platform, such as runpod (default: list all)")
    told.add_argument(
        "--need",
        action="append",
        default=[],
        metavar="NEED",
        help="what the run needs; repeatable: spot, steady, notice=SECONDS, resume, stop, "
        "self-stop, disk=GB, inodes=N, hours=N, ssh, free-egress",
    )
    told.add_argument(
        "--save-seconds",
        type=float,
        metavar="S",
        help="seconds that one save takes; prints the best interval between saves",
    )
    told.add_argument(
        "--kill-hours",
        type=float,
        metavar="H",
        help="mean hours between kills of one box (with --save-seconds)",
    )
    told.add_argument(
        "--boxes",
        type=int,
        default=1,
        metavar="N",
        help="number of boxes that fail together (default: 1)",
    )
    told.add_argument("--json", action="store_true", help="print JSON")
    told.set_defaults(run=profile)

    stale = commands.add_parser(
        "staleness",
        help="show what was checked too long ago, or is about other versions than yours",
        description="Show what was checked too long ago, is about other versions than yours, may "
        "have changed with a release, or has different values on different pages. "
        "Exit 1 if there is any.",
    )
    stale.add_argument(
        "--on", metavar="DATE", help="the day to judge by, YYYY-MM-DD (default: today)"
    )
    stale.add_argument(
        "--installed",
        metavar="FILE",
        help="what you have: 'pip freeze' text, requirements.txt, uv.lock, an interpreter or a "
        "virtual environment",
    )
    stale.add_argument(
        "--released",
        metavar="TEXT",
        help="a new release: 'torch 2.14', or with its date 'torch 2.14 2026-12-01'",
    )
    stale.add_argument(
        "--scope", metavar="WHAT", help="only this id, family, page, folder or platform"
    )
    stale.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="KIND=DAYS",
        help="another limit for price, quota, platform, library or mechanism; repeatable",
    )
    stale.add_argument(
        "--all", action="store_true", help="print every finding (default: a summary and the first)"
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
    from ..text import BadRequest

    if args.save_seconds is not None or args.kill_hours is not None:
        if args.name or args.need:
            raise BadRequest(
                "--save-seconds and --kill-hours don't depend on a platform; "
                "leave out the platform and --need"
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
    """`profile --save-seconds --kill-hours`: print the best interval between saves."""
    from ..platforms.choosing import between_saves
    from ..text import BadRequest

    if args.save_seconds is None or args.kill_hours is None:
        raise BadRequest("one of --save-seconds and --kill-hours is missing; give both")
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
    from ..catalogue.entry import BadQuestion, read_day
    from ..platforms import checking

    try:
        if args.json and args.markdown:
            raise BadQuestion("--json and --markdown can't be combined; give one of them")
        packages = None
        if args.installed:
            # importing packaging takes longer than everything else here
            from ..platforms.installed import read

            packages = read(args.installed)
        day = read_day(args.on)
        report = checking.check(
            day, packages=packages, released=args.released, scope=args.scope, limits=args.limit
        )
    except BadQuestion as error:
        from ..text import BadRequest

        raise BadRequest(str(error)) from None
    if args.json:
        print(json.dumps(report.as_dict(), ensure_ascii=False, indent=1))
    else:
        print(
            checking.as_markdown(report, day)
            if args.markdown
            else checking.as_text(report, everything=args.all)
        )
    return 0 if report.fresh else 1
