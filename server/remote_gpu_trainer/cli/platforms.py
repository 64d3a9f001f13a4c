"""The commands `profile` and `staleness`: the facts of platforms, and how old they are."""

from __future__ import annotations

from datetime import date

import click

from ..text import BadRequest
from .boxes import print_json
from .completion import facts, files, needs, profiles
from .parsing import JSON, JSON_OF_TOOL, command


@command("profile")
@click.argument(
    "name",
    required=False,
    shell_complete=profiles,
    help="a platform, such as runpod (default: list all)",
)
@click.argument(
    "fact",
    required=False,
    shell_complete=facts,
    help="only this fact, such as stop_billing, survives or ssh",
)
@click.option(
    "--need",
    "asked",
    multiple=True,
    metavar="NEED",
    shell_complete=needs,
    help="what the run needs; repeatable: spot, steady, notice=SECONDS, resume, stop, "
    "self-stop, disk=GB, inodes=N, hours=N, ssh, free-egress",
)
@click.option(
    "--save-seconds",
    type=float,
    metavar="S",
    help="seconds that one save takes; prints the best interval between saves",
)
@click.option(
    "--kill-hours",
    type=float,
    metavar="H",
    help="mean hours between kills of one box (with --save-seconds)",
)
@click.option(
    "--boxes",
    type=int,
    default=1,
    metavar="N",
    help="number of boxes that fail together (default: 1)",
)
@JSON
def profile(
    name: str | None,
    fact: str | None,
    asked: tuple[str, ...],
    save_seconds: float | None,
    kill_hours: float | None,
    boxes: int,
    as_json: bool,
) -> int:
    """Print the facts of a platform or one of them, list the platforms that have what a run needs,
    or compute how often to save.

    Exit 1 when no platform qualifies.
    """
    from ..platforms.choosing import BadNeed
    from ..platforms.profile import ProfileError

    if save_seconds is not None or kill_hours is not None:
        if name or asked:
            raise BadRequest(
                "--save-seconds and --kill-hours don't depend on a platform; "
                "leave out the platform and --need"
            )
        return _print_interval(save_seconds, kill_hours, boxes, as_json)
    try:
        if fact and asked:
            raise BadRequest(f"{fact} and --need can't be combined; leave one of them out")
        if name and not asked:
            return _print_facts(name, fact, as_json)
        return _print_choices(name, asked, as_json)
    except (BadNeed, ProfileError) as error:
        raise BadRequest(str(error)) from None


def _print_facts(name: str, fact: str | None, as_json: bool) -> int:
    """Print what is known of one platform, or one fact of it. Raises ProfileError."""
    from ..platforms import profile as profiles
    from ..platforms import showing

    platform, today = profiles.get(name), date.today()
    if fact is None:
        shown, text = showing.as_dict(platform, today), showing.as_text(platform, today)
    else:
        known, value = showing.fact_of(platform, fact)
        shown = showing.as_dict(platform, today)["facts"][known]
        text = "\n".join(showing.section(known, value, today))
    if as_json:
        print_json(shown)
    else:
        print(text)
    return 0


def _print_choices(name: str | None, asked: tuple[str, ...], as_json: bool) -> int:
    """Print which platforms, or whether the one, have what a run needs: 0 some, 1 none.

    Raises BadNeed, ProfileError.
    """
    from ..platforms import choosing
    from ..platforms import profile as profiles

    wanted = choosing.read_needs(list(asked))
    candidates = [profiles.get(name)] if name else list(profiles.load().values())
    choices = choosing.choose(candidates, wanted, date.today())
    if as_json:
        print_json({"platforms": [choice.as_dict() for choice in choices]})
    else:
        print("\n".join(choosing.as_lines(choices, bool(wanted))))
    return 0 if any(choice.qualifies for choice in choices) else 1


def _print_interval(
    save_seconds: float | None, kill_hours: float | None, boxes: int, as_json: bool
) -> int:
    """Print the best interval between saves. Raises BadRequest."""
    from ..platforms.saving import between_saves

    if save_seconds is None or kill_hours is None:
        raise BadRequest("one of --save-seconds and --kill-hours is missing; give both")
    try:
        interval = between_saves(save_seconds, kill_hours, boxes)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if as_json:
        figures = {
            "young_seconds": interval.young,
            "daly_seconds": interval.daly,
            "overhead": interval.overhead,
        }
        print_json(figures)
    else:
        print(interval.arithmetic)
    return 0


@command("staleness")
@click.argument(
    "names",
    nargs=-1,
    metavar="[NAME]...",
    shell_complete=profiles,
    help="one: as --scope; with --sources: only these platforms, or facts, such as runpod.price",
)
@click.option(
    "--on",
    "day",
    metavar="DATE",
    help="the day to judge by, YYYY-MM-DD (default: today)",
)
@click.option(
    "--installed",
    metavar="FILE",
    shell_complete=files,
    help="what you have: 'pip freeze' text, requirements.txt, uv.lock, an interpreter or a "
    "virtual environment",
)
@click.option(
    "--released",
    metavar="TEXT",
    help="a new release: 'torch 2.14', or with its date 'torch 2.14 2026-12-01'",
)
@click.option(
    "--scope",
    metavar="WHAT",
    shell_complete=profiles,
    help="only this id, family, page, folder or platform",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="KIND=DAYS",
    help="another limit for price, quota, platform, library or mechanism; repeatable",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="print every finding (default: a summary and the first)",
)
@JSON_OF_TOOL
@click.option("--markdown", is_flag=True, help="print a page for an issue")
@click.option(
    "--sources",
    is_flag=True,
    help="open the pages that facts of platforms name, and look there for the facts' numbers",
)
def staleness(
    day: str | None,
    installed: str | None,
    released: str | None,
    scope: str | None,
    limits: tuple[str, ...],
    everything: bool,
    as_json: bool,
    markdown: bool,
    sources: bool,
    names: tuple[str, ...],
) -> int:
    """Show what was checked too long ago, is about other versions than yours, may have changed with
    a release, or has different values on different pages. With --sources, show the facts of
    platforms whose page is gone, lacks a number of the fact, or couldn't be looked at.

    Exit 1 if there is any, 2 if no page could be looked at.
    """
    from ..catalogue.freshness import BadQuestion, read_day
    from ..platforms import checking

    if as_json and markdown:
        raise BadRequest("--json and --markdown can't be combined; give one of them")
    if sources:
        asked = {"--on": day, "--installed": installed, "--released": released, "--scope": scope}
        if other := next(
            (name for name, value in {**asked, "--limit": limits}.items() if value), ""
        ):
            raise BadRequest(
                f"--sources and {other} can't be combined; leave {other} out, and name platforms "
                "or facts after --sources"
            )
        return _print_sources(names, everything, as_json, markdown)
    if len(names) + bool(scope) > 1:
        raise BadRequest(
            "one scope at a time; give one name, or --scope, or several with --sources"
        )
    scope = scope or next(iter(names), None)
    try:
        packages = None
        if installed:
            # importing packaging takes longer than everything else here
            from ..platforms.installed import read_packages

            packages = read_packages(installed)
        judged_by = read_day(day)
        report = checking.check(
            judged_by, packages=packages, released=released, scope=scope, limits=list(limits)
        )
    except BadQuestion as error:
        raise BadRequest(str(error)) from None
    if as_json:
        print_json(report.as_dict())
    elif markdown:
        print(checking.as_markdown(report, judged_by))
    else:
        print(checking.as_text(report, everything=everything))
    return 0 if report.fresh else 1


def _print_sources(names: tuple[str, ...], everything: bool, as_json: bool, markdown: bool) -> int:
    """Open the sources of facts, and print which to read again: 0 none, 1 some, 2 none was seen.

    Raises BadRequest for an unknown name.
    """
    from ..catalogue.freshness import BadQuestion
    from ..platforms import source_report
    from .terminal import Progress

    try:
        with Progress("opening pages", unit="pages") as progress:

            def show(count: int, total: int) -> None:
                progress.total = total
                progress(count)

            found = source_report.check(names, show)
    except BadQuestion as error:
        raise BadRequest(str(error)) from None
    if as_json:
        print_json(source_report.as_dict(found))
    elif markdown:
        print(source_report.as_markdown(found, date.today()))
    else:
        print(source_report.as_text(found, everything))
    return source_report.code(found)
