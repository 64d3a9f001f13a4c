"""The commands about a run: `render`, `status` and `release`."""

from __future__ import annotations

import datetime
import json
import shlex
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..runs import Loads
from ..text import BadRequest
from ..text.masking import shown
from ..text.spans import seconds_in
from . import terminal
from .boxes import BOX, box_of, print_answer, print_json, remember
from .completion import files, folders, profiles, targets
from .jobs import JOB, with_job_options
from .parsing import JSON, JSON_OF_TOOL, command

if TYPE_CHECKING:
    from ..boxes.ssh import Box
    from ..platforms.profile import Profile
    from ..runs.status import Status

STATES = {  # of a run, after the time
    r"(?<=\d )(alive|finished)\b": "bold green",
    r"(?<=\d )(stopped|unreachable|unknown|nothing)\b": "bold yellow",
    r"(?<=\d )(failed|unsaved|preempted|deadline|stalled)\b": "bold red",
}
MOST_LISTING = 16 << 20  # bytes of a provider's list on standard input
BOX_ARGUMENT = click.argument("box", help=BOX)


def which_run(usual: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return the option --run; `usual` says which run it is without."""
    help_text = f"the run: a name under ~/runs, or a folder there (default: {usual})"
    return click.option("--run", default="", metavar="NAME", help=help_text)


RUN = which_run("the newest")
ACCEPT_NEW = click.option(
    "--accept-new-host-key",
    "accept_new",
    is_flag=True,
    help="store the host key of an unknown box; a changed key is never accepted",
)


def seconds(text: str) -> float:
    """Seconds of a span such as 30s, 90m, 8h, 2d. Raises click.BadParameter."""
    span = seconds_in(text)
    if not span:
        raise click.BadParameter(f"{text[:40]!r} isn't a duration; write 30s, 90m or 8h")
    return span


@command("render", called_elsewhere=dict.fromkeys(("--out", "--output", "-o"), "--write-to"))
@click.argument(
    "job",
    required=False,
    shell_complete=files,
    help=JOB,
)
@with_job_options
@click.option(
    "--target",
    metavar="NAME",
    shell_complete=targets,
    help="ssh, slurm, kubernetes, skypilot or local (default: the one that suits the platform)",
)
@click.option(
    "--write-to",
    metavar="PATH",
    shell_complete=files,
    help="a folder or file for the script; a new name without an ending is a folder, and of "
    "existing files only rendered scripts are replaced",
)
@click.option("--outside", is_flag=True, help="let --write-to leave the working folder")
@click.option(
    "--diff",
    "compared",
    type=Path,
    metavar="FILE",
    shell_complete=files,
    help="show how an existing script differs from the new one, and write nothing",
)
@click.option("--schema", is_flag=True, help="print the JSON schema of a job: all its fields")
@click.option(
    "--pack-code",
    metavar="FOLDER",
    shell_complete=folders,
    help="write the files of a code folder that start sends to stdout, as a compressed tar archive",
)
@JSON_OF_TOOL
def render(
    job: str | None,
    profile: str,
    fields: tuple[str, ...],
    queue: Path | None,
    sweep: Path | None,
    target: str | None,
    write_to: str | None,
    outside: bool,
    compared: Path | None,
    schema: bool,
    pack_code: str | None,
    as_json: bool,
) -> int:
    """Write one self-contained script from a job and a platform. It checks the box before the
    start, keeps logs, copies checkpoints to a place that outlives the box, retries, and stops at a
    deadline, even without a connection. Nothing is started.

    The script goes to stdout. The warnings, and the commands to start, watch, stop and resume it,
    go to stderr. With --diff: exit 1 if the scripts differ.
    """
    from ..runs.job import Job
    from ..runs.job_errors import JobError
    from ..runs.job_reading import read_job
    from ..runs.rendering import rendered

    if pack_code is not None:
        return _pack_code(Path(pack_code))
    if schema:
        written = Job.model_json_schema()
        if as_json:
            print_json(written)
        else:  # a file for editors, which names no box
            print(json.dumps(written, ensure_ascii=False, indent=1))
        return 0
    if job is None and not fields:
        raise JobError(
            "no job given; pass a YAML or JSON file, -, or fields with --set (--schema lists them)"
        )
    given = read_job(job, fields, queue, sweep)
    place = None if compared else write_to
    answer = rendered(given, profile, target, place, outside=outside)
    if compared:
        return _print_difference(compared, answer["script"])
    if as_json:
        print_json(answer)
    else:
        _print_script(answer)
        if job not in (None, "-") and answer["file_name"].endswith(".run.sh"):
            options = [f"--profile {profile}"] if profile else []
            options += [f"--set {shlex.quote(field)}" for field in fields]
            words = ["rgt start BOX", shlex.quote(job or ""), *options]
            print(f"# or all of it, checked and watched: {' '.join(words)}", file=sys.stderr)
    return 0


def _pack_code(folder: Path) -> int:
    """Write the files of a code folder that are sent to stdout, as a tar.gz."""
    from ..runs import code_files
    from ..runs.job_errors import JobError
    from ..runs.rendered import Unfit

    if sys.stdout.isatty():
        raise BadRequest("--pack-code writes an archive; send it to a file or to tar -xzf -")
    try:
        code_files.check_folder(folder)
        names = sorted(code_files.choose(folder).sizes)
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|gz") as archive:
            for name in names:
                archive.add(folder / name, name, recursive=False, filter=_drop_owner)
    except Unfit as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(
            f"code: {error.filename or folder}: {error.strerror}; name a folder that can be read"
        ) from None
    return 0


def _drop_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a file of the archive without its owner here, who is nobody on the box."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _print_difference(existing: Path, script: str) -> int:
    """Print how the existing script differs from the new one: 0 equal, 1 different."""
    from ..runs.rendering import difference

    differs = difference(existing, script)
    if differs:
        terminal.write(differs.removesuffix("\n"), terminal.DIFF)
    return 1 if differs else 0


def _print_script(answer: dict) -> None:
    """Print the script, or where it was written; on stderr, commands and warnings."""
    if "path" in answer:
        print(answer["path"])
    else:
        print(answer["script"], end="")
    for name in ("start", "watch", "stop", "resume"):
        terminal.write(f"# {name}\n{answer[name]}", {r"\A#.*": "bold magenta"}, sys.stderr)
    for warning in answer["warnings"]:
        print_warning(warning["id"], warning["text"])


def print_warning(entry: str, text: str) -> None:
    """Print a risk of a job on stderr, after the entry or field that it is about."""
    terminal.write(f"warning {entry}: {text}", {r"\Awarning [^:]*:": "bold yellow"}, sys.stderr)


@command("status", about_boxes=True)
@BOX_ARGUMENT
@click.option(
    "--wait",
    is_flag=True,
    help="wait until the run isn't alive any more, or the box stops answering (see --lost)",
)
@click.option(
    "--max",
    "most",
    type=seconds,
    default="8h",
    metavar="SPAN",
    help="wait at most this long: 30m, 8h (default 8h)",
)
@click.option(
    "--every",
    type=seconds,
    default="30s",
    metavar="SPAN",
    help="time between two checks (default 30s)",
)
@click.option(
    "--lost",
    type=seconds,
    default="15m",
    metavar="SPAN",
    help="time without an answer after which the box counts as unreachable (default 15m)",
)
@click.option(
    "--page",
    "page_file",
    type=Path,
    metavar="FILE.html",
    shell_complete=files,
    help="write an HTML page with the charts of the run; of a queue, its cells over each other",
)
@click.option(
    "--series",
    "series_file",
    type=Path,
    metavar="FILE",
    shell_complete=files,
    help="write the run's numbers, a row a minute, as .csv or .jsonl; it says by which command a "
    ".csv gets into trackio, TensorBoard or W&B",
)
@RUN
@ACCEPT_NEW
@JSON
def status(
    box: str,
    wait: bool,
    most: float,
    every: float,
    lost: float,
    page_file: Path | None,
    series_file: Path | None,
    run: str,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Show the state of the run on a box, with one ssh call. With --wait, a line on stderr tells
    the state at once and whenever it changes, and the step every 30 s while it moves. --page and
    --series take one call more.

    Exit 0: alive, finished, or stopped by you. Exit 1: failed, unsaved, preempted, ended by its
    deadline, stalled, or no run there. Exit 2: could not tell.
    """
    from ..runs import status as run_status
    from ..runs import status_cost

    place = box_of(box)
    reached, last = False, ""

    def ask() -> Status:
        nonlocal reached, last
        state = run_status.ask(place, run, accept_new=accept_new)
        status_cost.add(place, state, time.time())
        if not reached and state.state not in ("unreachable", "unknown"):
            reached = True
            remember(place)
        last = state.state
        return state

    if wait:
        try:
            state = run_status.wait(
                ask,
                most=most,
                interval=max(every, 1.0),
                lost=lost,
                tell=print_change,
                tells_steps=True,
            )
        except KeyboardInterrupt:
            print(_left_waiting(box, last), file=sys.stderr)
            raise
    else:
        state = ask()
    run_status.explain(state)
    state.evidence += _ways_on(place, state)
    if as_json:
        print_answer(state.as_dict(), place, state.dir, state)
    else:
        print(run_status.as_text(state))
        if state.cells > 1 and state.state not in ("alive", "stalled", "unreachable", "unknown"):
            _print_cells(place, state.dir)
    if page_file or series_file:
        _write_course(place, state, accept_new, page_file, series_file)
    return state.code


def _print_cells(place: Box, folder: str) -> None:
    """Print what the cells of a queue that has ended came to, beside each other."""
    from ..runs import compared_runs, comparison
    from .compare import print_comparison

    try:
        found = compared_runs.find_cells(place, folder)
    except compared_runs.NotCompared as error:
        print(error, file=sys.stderr)
        return
    print()
    print_comparison(comparison.compare_runs(found))


def _write_course(
    place: Box, state: Status, accept_new: bool, page_file: Path | None, series_file: Path | None
) -> None:
    """Write the page and the numbers of a run, and say where: of a queue, its cells over each
    other. Raises NoSeries, NotCompared and BadRequest."""
    from ..catalogue.bundle import bundle_root
    from ..runs import compare_page, compared_runs, comparison, run_export, run_page, run_series

    if page_file and state.cells > 1:
        found = compared_runs.find_cells(place, state.dir, series=True)
        compare_page.write(comparison.compare_runs(found), page_file)
        print(page_file, file=sys.stderr)
        page_file = None
    if not (page_file or series_file):
        return
    series = run_series.ask(place, state.dir, accept_new=accept_new)
    if series_file:
        run_export.write(series, series_file)
        print(series_file, file=sys.stderr)
        if series_file.suffix == ".csv":
            words = ["python3", str(bundle_root() / "examples/series/track.py"), str(series_file)]
            print(f"track  {shlex.join(words)} trackio|tensorboard|wandb", file=sys.stderr)
    if page_file:
        run_page.write(state, series, page_file, time.time())
        print(page_file, file=sys.stderr)


def _left_waiting(box: str, state: str) -> str:
    """Say after a Ctrl-C what becomes of the run that was waited for."""
    does = "the run goes on there" if state in ("alive", "stalled") else "only the wait has ended"
    return f"{shown(box, 80)}: {does}; rgt status {shlex.quote(box)} shows it"


def _ways_on(place: Box, state: Status) -> list[str]:
    """What goes on with a run that ended: a later deadline, and code that is new here."""
    from ..runs import job_start, known_jobs

    if state.state not in ("failed", "deadline", "stopped", "preempted"):
        return []
    known = known_jobs.find(place, state.dir)
    words = f"rgt resume {place.argument} --run {shlex.quote(known.name if known else state.dir)}"
    ways = []
    if state.state == "deadline":
        ways.append(f"to go on: {words} --set deadline={job_start.longer(state)}, an hour from now")
    if known and (
        differing := job_start.describe_differing(job_start.differing_code(place, known))
    ):
        ways.append(f"{differing}; {words} --code sends it")
    return ways


def print_change(state: Status) -> None:
    """Print the state of a run in one line on stderr, with the time."""
    from ..runs.status import in_a_line

    line = f"{datetime.datetime.now():%H:%M:%S} {in_a_line(state)}"
    terminal.write(line, STATES, sys.stderr)


@dataclass(frozen=True)
class ProviderList:
    """Where the provider's list of boxes comes from, and which box to look for in it.

    `file`: with the list, '-' for standard input. `command`: prints it. `ids`: the box's ids or
    names in the list.
    """

    ids: tuple[str, ...]
    file: str | None
    command: str | None


@command("release", about_boxes=True, exclusive=("mine", "forget"))
@BOX_ARGUMENT
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=profiles,
    help="the platform; rgt profile lists them (default: the one that start had)",
)
@click.option(
    "--to",
    type=Path,
    metavar="DIR",
    shell_complete=folders,
    help="where the results go (default results/BOX-RUN)",
)
@click.option(
    "--also",
    multiple=True,
    metavar="PATH",
    help="another file or folder on the box to pull, absolute or below ~: it lands in the folder "
    "of --to under its last name; repeatable",
)
@click.option(
    "--leave",
    is_flag=True,
    help="what the run's log says was saved elsewhere may be lost with the box",
)
@click.option(
    "--expect",
    type=int,
    metavar="N",
    help="how many result folders there must be (0: the run leaves no checkpoint)",
)
@click.option(
    "--durable",
    metavar="PLACE",
    help="bring the newest complete checkpoint and the results from the run's durable place, as "
    "durable.to has it, where the box is gone or its checkpoints are corrupt",
)
@click.option("--no-load", is_flag=True, help="compare hashes, but don't load checkpoints")
@click.option(
    "--allow-pickle",
    is_flag=True,
    help="load checkpoints of more than plain tensors as well, which runs the code in them: only "
    "for files that you wrote",
)
@click.option(
    "--confirm-gone",
    is_flag=True,
    help="look the box up in the provider's list, before you end it and once more afterwards",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="ID",
    help="the box's id or name in that list; repeatable",
)
@click.option(
    "--listing",
    metavar="FILE",
    shell_complete=files,
    help="the list, as the provider's command prints it; '-' for standard input",
)
@click.option(
    "--run-listing",
    metavar="COMMAND",
    help="run this listing command from the platform's page on this machine",
)
@click.option(
    "--mine",
    is_flag=True,
    help="this is your own machine, which nobody bills: never remind of it again. BOX may be a "
    "name or an address from the reminder",
)
@click.option(
    "--forget",
    is_flag=True,
    help="you ended this box: stop the reminder without a list. BOX as for --mine",
)
@RUN
@ACCEPT_NEW
@JSON
def release(
    box: str,
    profile: str | None,
    to: Path | None,
    also: tuple[str, ...],
    leave: bool,
    expect: int | None,
    durable: str | None,
    no_load: bool,
    allow_pickle: bool,
    confirm_gone: bool,
    ids: tuple[str, ...],
    listing: str | None,
    run_listing: str | None,
    mine: bool,
    forget: bool,
    run: str,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Pull the results of a run that has ended, compare and load them. Name what its log says was
    saved elsewhere: it comes with --also. Then name the other runs on the box whose results aren't
    here, and show what each way of stopping still bills, and the
    provider's command for you to run: only once no other run lives there. With --confirm-gone, look
    the box up in the provider's list: one that answers by ssh isn't gone, and a list without any
    box must be as empty ten minutes later. Nothing is deleted or stopped.
    A queue's cells come last, beside each other.

    The commands about boxes remind you once a day of each box that they reached, until you confirm
    that it is gone, --forget it, or say that it is --mine.

    Exit 0: verified, gone or forgotten. Exit 1: not, a result didn't come, or another run lives
    there. Exit 2: could not tell.
    """
    from ..platforms import profile as profiles
    from ..runs.transfer.pulling import Unreleased

    asks_provider = bool(confirm_gone or listing or run_listing)
    if forget or mine:
        if profile or asks_provider or ids:
            raise BadRequest(
                f"{'--mine' if mine else '--forget'} doesn't ask the provider; "
                "leave out the profile and the list"
            )
        return _forget(box, mine, as_json)
    if no_load and allow_pickle:
        raise BadRequest("--no-load and --allow-pickle can't be combined; pass one of them")
    load: Loads = "pickles" if allow_pickle else "nothing" if no_load else "tensors"
    if durable:
        try:
            return _bring_durable(box_of(box), run, durable, to, load, as_json)
        except Unreleased as error:
            raise BadRequest(str(error)) from None
    place = box_of(box)
    platform = profiles.get(profile) if profile else _platform(place, run)
    try:
        if asks_provider:
            provider_list = ProviderList(ids, listing, run_listing)
            return _confirm_gone(place, platform, provider_list, as_json)
        pull = Pull(run, to, also, expect, load=load, accept_new=accept_new, leave=leave)
        return _bring_home(place, platform, pull, as_json)
    except Unreleased as error:
        raise BadRequest(str(error)) from None


def _platform(box: Box, run: str) -> Profile:
    """The platform with which the run was started from here, else the box reached."""
    from ..boxes.box import address
    from ..runs import known_jobs, ledger
    from ..runs.rendering import platform_of

    known, at = known_jobs.find(box, run), address(box)
    names = [known.profile if known else ""]
    names += [one.profile for one in ledger.still_open() if one.address == at]
    return platform_of(next(filter(None, names), ""), "local" if box.local else "ssh")


@dataclass(frozen=True)
class Pull:
    """What to bring home: as `runs.release.release` takes it."""

    run: str
    to: Path | None
    also: tuple[str, ...]
    expect: int | None
    load: Loads
    accept_new: bool
    leave: bool


def _bring_durable(
    box: Box, run: str, address: str, to: Path | None, load: Loads, as_json: bool
) -> int:
    """Bring what a durable place has of a run. Returns 0 verified, 1 not. Raises Unreleased."""
    from ..runs import release_durable
    from ..runs.release import as_text

    results = release_durable.bring(box, run, address, to, load=load)
    if as_json:
        print_answer(results.as_dict(), box, run)
    else:
        print(as_text(results))
    return 0 if results.verdict == "verified" else 1


def _bring_home(box: Box, profile: Profile, pull: Pull, as_json: bool) -> int:
    """Pull, compare and load the results, and name the other runs there.

    Returns 0 verified, 1 bad or another run lives there, 2 could not tell.
    """
    from ..platforms import teardown
    from ..runs import box_gone, home_copy, other_runs
    from ..runs import release as releasing

    with terminal.Progress("pulling") as progress:
        results = releasing.release(
            box,
            pull.run,
            pull.to,
            also=pull.also,
            expect=pull.expect,
            load=pull.load,
            accept_new=pull.accept_new,
            leave=pull.leave,
            begins=progress.follow,
        )
    if profile.kind != "own":
        remember(box, profile.name)
    today = datetime.date.today()
    ways, stored = teardown.ways(profile, today), teardown.storage(profile, today)
    others = other_runs.Others()
    if ways:  # somebody may end this box
        copy = home_copy.describe_copy(Path(results.to)) if results.is_all else None
        others = other_runs.find_others(box, results.source, copy)
    may_end = others.may_end and not results.left
    ways, stored = (ways, stored) if may_end else ([], None)
    next_step = box_gone.next_step(box, profile) if may_end else ""
    if results.left and results.elsewhere:
        next_step = releasing.STILL_THERE
    if as_json:
        report = {
            **results.as_dict(),
            "others": others.as_dict(),
            "ways": [way.__dict__ for way in ways],
            "storage": stored and stored.__dict__,
            "next": next_step,
        }
        print_answer(report, box, results.source)
    else:
        next_step = "" if results.left else next_step  # told already
        found = releasing.as_text(results), other_runs.as_text(others, box, profile.name)
        texts = (*found, teardown.ways_as_text(ways, stored), next_step)
        print("\n".join(text for text in texts if text))
        if (Path(results.to) / "cells").is_dir():
            _print_cells(box, results.source)
    if results.verdict != "verified":
        return 1 if results.verdict in ("bad", "incomplete") else 2
    return 1 if others.living else 2 if others.why else 0


def _confirm_gone(box: Box, profile: Profile, source: ProviderList, as_json: bool) -> int:
    """Look the box up in the provider's list: 0 gone, 1 still there, 2 could not tell."""
    from ..runs import box_gone

    listing = _listing(source, profile)
    found = box_gone.confirm(box, profile, ids=list(source.ids), listing=listing)
    verdict = {True: "gone", False: "still there", None: "could not tell"}[found.gone]
    if as_json:
        print_answer({"gone": found.gone, "text": found.text}, box)
    else:
        print(f"{verdict}: {found.text}")
    return {True: 0, False: 1, None: 2}[found.gone]


def _forget(text: str, mine: bool, as_json: bool) -> int:
    """Take a box off the ledger because the user says so: 0 forgotten, 1 it wasn't there."""
    from ..boxes.box import BadBox, address, parse
    from ..runs import box_gone, guard_files, known_jobs, ledger

    answers = False
    try:
        box = parse(text)
        name, place = box.name, address(box)
        answers = not mine and box_gone.answers(box)
    except BadBox:  # an address, or a name that the reminder cut
        name, place = text.strip(), ""
    forgotten = ledger.forget(name, place, own=mine)
    lost = {place, name}.intersection(guard_files.read().lost(known_jobs.every()))
    if not forgotten and lost and not mine:
        forgotten = ledger.gone(lost.pop(), name, "the user says so") or ""
    name = shown(name, 80)
    if not forgotten:
        message = f"{name} isn't on the list of boxes that may be billed"
    elif mine:
        message = f"forgot {name} and won't remind you again: you said that it is your own machine"
    else:
        message = f"forgot {name}: you said that it is gone"
    if forgotten and answers:
        message += (
            "; yet a box answers there and may be billed, and nobody watches it now: if it is the "
            f"same or a new one, rgt status {shlex.quote(name)} puts it on the list again"
        )
    if as_json:
        print_answer({"forgotten": bool(forgotten), "text": message})
    else:
        print(message)
    return 0 if forgotten else 1


def _listing(source: ProviderList, profile: Profile) -> str | None:
    """The provider's list; None when none was given. Raises BadRequest."""
    from ..platforms.teardown import decoded, run_listing

    if source.file and source.command:
        raise BadRequest("--listing and --run-listing can't be combined; pass one of them")
    if source.command:
        return run_listing(source.command, profile)
    if source.file is None:
        return None
    try:
        return decoded(
            sys.stdin.buffer.read(MOST_LISTING)
            if source.file == "-"
            else Path(source.file).read_bytes()
        )
    except OSError as error:
        raise BadRequest(
            f"can't read --listing {source.file} ({error.strerror}); pass a file with the "
            "provider's list, or '-'"
        ) from None
