"""The commands `start`, `stop` and `resume`: a job begins on a box, ends there, and goes on."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..text import BadRequest, UserError
from ..text.masking import shown, shown_some
from ..text.sizes import shown_bytes
from ..text.spans import shown_moment
from . import terminal
from .boxes import box_of, print_answer, remember
from .completion import files
from .health import COLOURS
from .jobs import JOB, with_job_options
from .parsing import JSON, command, program
from .render_status_release import (
    ACCEPT_NEW,
    BOX_ARGUMENT,
    RUN,
    print_change,
    print_warning,
    which_run,
)

if TYPE_CHECKING:
    from ..boxes.ssh import Box
    from ..gpu_health.reading import Health
    from ..runs.job_start import Begun, Plan
    from ..runs.known_jobs import Known
    from ..runs.purse import Wanted
    from ..runs.status_reply import FailedAttempt, Status
    from ..runs.transfer.sending import Sent

LINE = 'print(f"step {step} loss {loss:.4f}", flush=True)'
LARGE = 200_000_000  # bytes of code above which the user is asked: the box is paid for meanwhile


class Undecided(UserError):
    """Only the user can decide whether to begin. One line: what is unknown; what to pass."""


class Declined(Exception):
    """The user said no, or the box is unfit: nothing is sent or started."""


@dataclass(frozen=True)
class Asking:
    """Whom a question goes to. `yes`: the user has answered with --yes. `dry`: only name it."""

    box: str
    yes: bool
    dry: bool

    def may(self, what: str, option: str, yes: bool | None = None) -> None:
        """Ask the user. Raises Declined for a no, and Undecided where nobody is at a terminal.

        `option`: what answers the question beforehand. `yes`: whether it was given.
        """
        if self.yes if yes is None else yes:
            return
        if self.dry:
            _say("asks", f"{what}? {option}")
            return
        if not (terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stderr)):
            raise Undecided(f"{shown(self.box, 80)}: {what}? Nobody is here to ask; {option}")
        try:
            said = click.confirm(f"{what[:1].upper()}{what[1:]}?", default=False, err=True)
        except click.Abort:  # Ctrl-C or Ctrl-D at the question
            print(file=sys.stderr)
            said = False
        if not said:
            _say("box", "nothing was sent and nothing started")
            raise Declined


@command("start", about_boxes=True)
@BOX_ARGUMENT
@click.argument(
    "job",
    shell_complete=files,
    help=JOB,
)
@with_job_options
@click.option("--dry-run", is_flag=True, help="show and check everything, and send nothing")
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="begin without a question on a box that could not be judged, or with much code to send; "
    "never on a CPU in place of a GPU",
)
@ACCEPT_NEW
@JSON
def start(
    box: str,
    job: str,
    profile: str,
    fields: tuple[str, ...],
    queue: Path | None,
    sweep: Path | None,
    dry_run: bool,
    yes: bool,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Start a job on a box: show its risks, check the box, send the code, begin, and return when it
    trains. The first part that fails ends it, and nothing after it is done.

    The code is what git tracks in the job's `code` folder, by default the folder of the job file;
    .env files and keys stay here. Without git, all files but hidden folders. The box's GPUs are
    checked if the job wants any: `fit` and `care` begin, `unfit` doesn't, and on a box that could
    not be judged you are asked. The run outlives this command, your login and your network.

    The probe looks at the first 30 optimizer steps of a Python program for failures that no log
    shows, unless the job has 'probe: off'. A verdict of wrong doesn't end the run; it is shown, and
    told by the job's `notify`.

    Exit 0: it trains, or it has finished there before; also where its program works on for two
    minutes and shows no step, which a line says. Exit 1: refused, or an attempt of this start
    failed; the run may go on with another one, which a line says. Exit 2: could not tell, or a
    question that nobody answered. Exit 130: Ctrl-C; a line says whether the run goes on.
    """
    from ..runs.job_reading import read_job_with_code

    course = Course(box, _start_again(box, job, profile, fields, queue, sweep))
    with _broken_off(course):
        given = read_job_with_code(job, fields, queue, sweep)
        asking = Asking(box, yes, dry_run)
        return _start(given, profile, asking, course, accept_new, as_json)


def _start(
    given: dict[str, Any],
    profile: str,
    asking: Asking,
    course: Course,
    accept_new: bool,
    as_json: bool,
    moved: Moved | None = None,
) -> int:
    """Do the parts of a start in turn, and say of each what came of it.

    `moved`: nothing is to begin without a checkpoint from the durable place.
    """
    from ..runs import job_start, known_jobs, purse, run_ends

    place, now, must_restore = box_of(asking.box), time.time(), moved is not None
    plan = job_start.plan(given, profile, place, now, must_restore=must_restore)
    report: dict[str, Any] = {"warnings": plan.rendered.as_dict()["warnings"]}
    _print_plan(plan, asking.box, asking.dry)
    try:
        before = job_start.refuse_living(place, plan, accept_new=accept_new)
        since = run_ends.paid_since(plan.job, now)
        remember(place, plan.platform.name, since=since)
        if plan.job.budget:
            given = _settle_rented(place, plan, given, asking, before.first_start or now)
            plan = job_start.plan(
                given, profile, place, now, must_restore=must_restore, before=plan
            )
        _say_end(place, plan, before.first_start, now)
        wanted = purse.wanted_by(place, plan.job, plan.platform, before.first_start or now)
        if wanted and (counted := purse.check(wanted, now)):
            _say("purse", counted.in_words())
        if _settle_cards(place, plan, asking, accept_new, report) == 0:
            given = {**given, "gpus": 0}
            plan = job_start.plan(
                given, profile, place, now, must_restore=must_restore, before=plan
            )
        if plan.code and plan.code.bytes > LARGE:
            size = shown_bytes(plan.code.bytes)
            asking.may(f"send {size} of code", "--yes sends it; git rm --cached leaves files out")
    except job_start.Done as error:
        print(error, file=sys.stderr)
        _print(as_json, {**report, "text": str(error)}, place, plan.job.folder)
        return 0
    except job_start.Living as error:
        terminal.error(str(error))
        _print(as_json, {**report, "text": str(error)}, place, plan.job.folder)
        return 1
    except Declined:
        _print(as_json, report, place, plan.job.folder)
        return 1
    if asking.dry:
        report["refusals"] = _look(place, plan, accept_new)
        _say("dry run", "nothing was sent and nothing started")
        _print(as_json, report, place, plan.job.folder)
        return int(bool(report["refusals"]))
    course.came_to = "the code may be there in part, and nothing was started"
    remember(place, plan.platform.name, plan.job.hourly)  # not of a start that was refused
    with _reserved(wanted), terminal.Progress(f"sending to {shown(place.name, 60)}") as progress:
        sent = job_start.send(place, plan, begins=progress.follow)
    course.came_to = "the code is there, and nothing was started"
    known_jobs.remember(
        place,
        plan.job.folder,
        plan.platform.name,
        given,
        first_start=moved.first_start if moved else before.first_start or now,
        moved_from=moved.box if moved else "",
    )
    _say(
        "sent",
        f"{sent.new} of {sent.files} files with the run script, {shown_bytes(sent.bytes)}; all "
        "compared by SHA-256",
    )
    following = Following(asking.box, plan.platform.name, course.again, sent)
    course.begun = place, plan.job.folder
    code = _begin(place, before, plan.job.folder, "start", following, report, as_json, wanted)
    if moved and (at := job_start.went_on_from(place, plan.job.folder)):
        _say("from", f"went on from {at} of {shown(moved.box, 80)}")
    return code


@dataclass(frozen=True)
class Moved:
    """A run that goes on elsewhere: the box that it leaves, and when it was first started there."""

    box: str
    first_start: float


@dataclass
class Course:
    """How far a start or a resume has come, for who breaks it off.

    `again`: the command that tries it once more. `begun`: the box and the run's folder there, from
    the moment that the run may begin.
    """

    box: str
    again: str
    came_to: str = "nothing was sent and nothing started"
    begun: tuple[Box, str] | None = None


@contextmanager
def _broken_off(course: Course) -> Iterator[None]:
    """Say after a Ctrl-C, in one line, whether a run goes on, and what to do."""
    try:
        yield
    except KeyboardInterrupt:
        if course.begun:
            line = _left_running(course.box, *course.begun)
        else:
            name = shown(course.box, 80)
            line = f"{name}: {course.came_to}; for another try: {program()} {course.again}"
        print(line, file=sys.stderr)
        raise


def _left_running(box: str, place: Box, folder: str) -> str:
    """Whether a run goes on that was asked to begin. Another Ctrl-C ends the question."""
    from ..runs import job_start

    name, where = shown(box, 80), _where(box, folder)
    how = f"{program()} status {where} tells it, {program()} stop {where} ends it"
    try:
        with terminal.waiting(f"asking {shown(box, 60)} whether the run goes on …"):
            found = job_start.left_running(place, folder)
    except KeyboardInterrupt:
        return f"{name}: whether the run goes on there isn't known; {how}"
    if found.state in ("unreachable", "unknown"):
        return f"{name}: whether the run goes on there isn't known ({found.text}); {how}"
    if found.state in ("alive", "stalled"):
        return (
            f"{name}: the run goes on there; {program()} status {where} shows it, "
            f"{program()} stop {where} ends it"
        )
    state = "" if found.state == "nothing" else f" ({found.state})"
    return f"{name}: nothing runs there now{state}; should it begin all the same, {how}"


def _settle_rented(
    place: Box, plan: Plan, given: dict[str, Any], asking: Asking, began: float
) -> dict[str, Any]:
    """Return the fields of a job with the moment from which its box is paid for.

    It is the one that the job names, else that of the last start of this run; else the user is
    asked about the first contact with the box. `began`: the run's first start, seconds since 1970.
    Raises Declined and Undecided.
    """
    from ..boxes.box import address
    from ..runs import known_jobs, ledger

    rented = plan.job.rented
    known = known_jobs.find(place, plan.job.folder)
    if rented is None and known and known.given.get("rented"):
        return {**given, "rented": known.given["rented"]}
    if rented is None:
        contacts = [one.since for one in ledger.still_open() if one.address == address(place)]
        began = min(began, *contacts) if contacts else began
        asking.may(
            f"count the budget from the first contact with the box, at {shown_moment(began)}",
            "--set rented=now counts it from this start, and a date and time with its zone from "
            "then; --yes from the first contact",
        )
    elif rented != "now":
        return given
    return {**given, "rented": f"at:{int(began)}"}


@contextmanager
def _reserved(wanted: Wanted | None) -> Iterator[None]:
    """Reserve what a run may cost, and give it back where the run doesn't get as far as its start.

    Raises OverPurse.
    """
    from ..runs import purse

    if wanted:
        purse.reserve(wanted)
    try:
        yield
    except BaseException:
        if wanted:
            purse.give_back(wanted)
        raise


def _look(place: Box, plan: Plan, accept_new: bool) -> list[str]:
    """Print and return what the box lacks for this start."""
    from ..runs import looking

    with terminal.waiting(f"looking for room on {shown(place.name, 60)} …"):
        found = looking.refusals(place, plan.job, accept_new=accept_new)
    for reason in found:
        _say("refused", reason)
    return found


def _start_again(
    box: str,
    job: str,
    profile: str,
    fields: tuple[str, ...],
    queue: Path | None,
    sweep: Path | None,
) -> str:
    """The command that starts the same job once more."""
    options = [("--profile", profile), ("--queue", queue), ("--sweep", sweep)]
    options += [("--set", field) for field in fields]
    words = ["start", box, job, *(str(word) for pair in options if pair[1] for word in pair)]
    return shlex.join(words)


def _settle_cards(
    place: Box, plan: Plan, asking: Asking, accept_new: bool, report: dict[str, Any]
) -> int:
    """Check the box's cards, and return how many GPUs the job is to have: 0 where there is none and
    the user agreed. Raises Declined, Undecided and NotStarted.
    """
    if not plan.job.gpus:
        _say("box", "not checked: the job wants no GPU")
        return plan.job.gpus
    is_own = plan.platform.kind == "own"
    verdict = _check(place, accept_new, is_own)
    report["box"] = verdict.as_dict()
    name = shown(place.name, 80)
    if verdict.verdict == "unfit":
        back = "" if is_own else "hand it back, or "
        terminal.error(f"{name} is unfit, so nothing was started; {back}start elsewhere")
        raise Declined
    if verdict.verdict == "unknown" and _has_no_card(verdict):
        asking.may("it shows no GPU: train on its CPU", "--set gpus=0 trains on its CPU", yes=False)
        return 0
    if verdict.verdict == "unknown":
        asking.may("begin on a box that could not be judged", "--yes begins all the same")
    return plan.job.gpus


def _say_end(place: Box, plan: Plan, first: float | None, now: float) -> None:
    """Say when the run ends at the latest, and what its box costs at most. Raises JobError."""
    from ..runs import run_ends, status_cost
    from ..runs.rendered import billed

    _say("until", run_ends.until(plan.job, now, first))
    if billed(plan.job, plan.platform, "ssh") and not place.local:
        worst = status_cost.worst(plan.job, plan.platform, place, first or now, now)
        _say("at most", worst or "not known: the job names no price, such as price: 1.99 USD")


def _print_plan(plan: Plan, box: str, dry_run: bool) -> None:
    """Show what would run, its risks, and what is sent."""
    from ..runs import job_start

    job, code = plan.job, plan.code
    _say("job", f"{job.name} in {job.folder} on {shown(box, 80)}, platform {plan.platform.name}")
    set_limits, no_limits = job_start.limits(job)
    stalls = f"stalled after {' or '.join(set_limits)}"
    _say("limits", stalls if set_limits else "its deadline only")
    if no_limits:
        _say("", f"no limit on the {', nor on the '.join(no_limits)}")
    for warning in plan.rendered.warnings:
        print_warning(warning.id, warning.text)
    if code is None:
        _say("code", "none: the job names no code folder; --set code=FOLDER sends one")
        return
    whose = "that git tracks in" if code.tracked else "without git: all files in"
    _say(
        "code",
        f"{len(code.sizes)} files, {shown_bytes(code.bytes)}, {whose} {shown(code.folder, 200)}",
    )
    staying = {
        "looks like a key": code.keys,
        "not tracked by git": code.untracked,
        "no code of yours": code.left,
    }
    for what, names in staying.items():
        if names:
            _say("", f"stays here, {what}: {shown_some(names, 6)}")
    if why := job_start.without_probe(job):
        _say("probe", f"not used: {why}")
    for place in job_start.with_secrets(code):
        print_warning("job.code", f"{shown(place, 200)} looks like it holds a secret, and is sent")
    if dry_run:
        _say("", f"sends: {', '.join(shown(name, 200) for name in sorted(code.sizes))}")
    elif not code.tracked:
        large = sorted(code.sizes, key=lambda name: -code.sizes[name])
        _say("", f"sends, the largest first: {shown_some(large, 6)}; --dry-run lists all")


def _check(box: Box, accept_new: bool, is_own: bool) -> Health:
    """Check the box's cards and print the verdict. Raises NotStarted where it gives no answer."""
    from ..gpu_health.examine import examine
    from ..gpu_health.reading import as_text, of_own_machine
    from ..runs.job_start import NotStarted

    with terminal.waiting(f"checking {shown(box.name, 60)} …"):
        verdict = examine(box, accept_new=accept_new)
    if verdict.why:
        finding = verdict.findings[0]
        raise NotStarted(f"{finding['evidence']}; {finding['action']}")
    verdict = of_own_machine(verdict) if is_own else verdict
    terminal.write(as_text(verdict), COLOURS, sys.stderr)
    return verdict


def _has_no_card(verdict: Health) -> bool:
    return not verdict.gpus and any(finding["entry"] == "U31" for finding in verdict.findings)


@dataclass(frozen=True)
class Following:
    """The commands that may follow a start: of which box and platform, and what tries it again.

    `sent`: what was sent for it, None for what lay there.
    """

    box: str
    profile: str
    again: str
    sent: Sent | None = None


def _begin(
    place: Box,
    before: Status,
    folder: str,
    verb: str,
    following: Following,
    report: dict[str, Any],
    as_json: bool,
    wanted: Wanted | None,
) -> int:
    """Let the run begin, show what its script says, and wait until it trains.

    `before`: its state before that. `wanted`: what was reserved for it.
    """
    from ..runner.failures import FAILED_TWICE
    from ..runs import job_start, purse
    from ..runs import status as run_status

    answer = job_start.begin(place, folder, verb)
    if wanted:
        (purse.give_back if answer.code else purse.begun)(wanted)
    for line in answer.lines:
        line = line.partition("; watch: bash ")[0]
        print(line.partition("; fix it, then: bash ")[0], file=sys.stderr)
    if answer.code:
        _print(as_json, {**report, "lines": answer.lines}, place, folder)
        name = shown(place.name, 80)
        terminal.error(f"the run script on {name} refused with exit {answer.code}; see above")
        sent = following.sent
        if sent and (left := job_start.left_behind(place, folder, sent, answer.code)):
            _say("left", left)
        is_for_resume = verb == "start" and any(FAILED_TWICE in line for line in answer.lines)
        again = f"resume {_where(following.box, folder)}" if is_for_resume else following.again
        _say("next", f"mend that, then: {program()} {again}")
        return 1
    _say("waits", "for a step or a new checkpoint; Ctrl-C leaves the run going")
    seen = ""

    def say_what_is_left(sign: str) -> None:
        nonlocal seen
        seen = sign
        _say("trains", sign)
        _say(
            "waits",
            "for the probe's verdict on the first 30 optimizer steps, "
            f"{job_start.TO_LOOK / 60:.0f} min at most; Ctrl-C leaves the run going",
        )

    begun = job_start.watch(
        place,
        folder,
        print_change,
        last_attempt=before.attempt or 0,
        probing=say_what_is_left,
        failing=_say_failure,
    )
    state = begun.status
    is_up = state.state in ("alive", "finished")
    if is_up and (begun.sign or begun.quiet):
        if begun.quiet:
            _say("runs", begun.quiet)
        elif not seen or begun.failed:
            _say("trains", begun.sign)
        _say_probe(state, place)
        if lacks := begun.lacks if verb == "start" else []:
            shown_none = " and no ".join(lacks)
            when = "; if it trains already, add" if begun.quiet else "; add"
            _say("numbers", f"its output shows no {shown_none}{when} to the loop: {LINE}")
    else:
        run_status.explain(state)
        if not as_json:
            print(run_status.as_text(state))
    if begun.failed and state.state == "alive":
        now = state.attempt if (state.attempt or 0) > begun.failed.attempt else "another attempt"
        now = f"attempt {now}" if isinstance(now, int) else now
        _say("goes on", f"{now} follows attempt {begun.failed.attempt}, which failed: see above")
    report |= {"sign": begun.sign, "status": state.as_dict()}
    _print(as_json, report, place, folder, state)
    _print_next(begun, following, folder)
    if begun.failed and not begun.sign and state.state != "finished":
        return 1
    return 0 if is_up and (begun.sign or begun.quiet) else state.code


def _say_failure(failed: FailedAttempt) -> None:
    """An attempt of this start that ended with an error, with the last lines of its log."""
    _say("failed", f"attempt {failed.attempt}: {failed.reason}")
    for line in failed.lines:
        _say("", f"log: {line}")


def _say_probe(state: Status, place: Box) -> None:
    """What the probe saw of the first steps, and where its page lies."""
    if not state.probe:
        return
    _say("probe", state.probe)
    where = f"{state.dir}/log/probe.json"
    where = where if place.local else f"{place.name}:{where}"
    if state.probe.startswith(("wrong", "suspicious", "sound")):
        _say("", f"its page there: {state.dir}/log/probe.txt, and probe.html beside it")
    if state.probe.startswith(("wrong", "suspicious")):
        _say("next", f"{program()} lookup --log {shlex.quote(where)}")


def _print_next(begun: Begun, following: Following, folder: str) -> None:
    """The commands that come next, as the user would type them."""
    state, box = begun.status, following.box
    where = _where(box, folder)
    if state.state == "alive":
        _say("next", f"{program()} status {where} --wait")
        _say("next", f"{program()} logs {where} -f")
        _say("next", f"{program()} stop {where}")
        return
    if state.state in ("failed", "stalled"):
        log = f"{state.dir or folder}/log"
        log = log if box == "local" else f"{box}:{log}"
        _say("next", f"{program()} lookup --log {shlex.quote(log)}")
        _say("next", f"mend it, then: {program()} {following.again}")
    _say("next", f"{program()} release {where} --profile {following.profile or 'NAME'}")


def _where(box: str, folder: str) -> str:
    """The words that name a run to a command."""
    above, _, last = folder.rpartition("/")
    name = last if above.endswith("/runs") or above == "~/runs" else folder
    return f"{shlex.quote(box)} --run {shlex.quote(name)}"


def _say(what: str, text: str) -> None:
    """A step of `start`, on stderr."""
    terminal.write(f"{what:<8} {text}", {r"\A\S+": "bold"}, sys.stderr)


def _print(
    as_json: bool, report: dict[str, Any], place: Box, folder: str, state: Status | None = None
) -> None:
    if as_json:
        print_answer(report, place, folder, state)


@command("stop", about_boxes=True)
@BOX_ARGUMENT
@which_run("the one that is alive, else the newest")
@ACCEPT_NEW
@JSON
def stop(box: str, run: str, accept_new: bool, as_json: bool) -> int:
    """Let the run on a box save, and end it. The box stays on, and billed if you rent it.

    Without --run it is the one that is alive; where several are, name it.

    Exit 0: it has stopped, or wasn't running. Exit 1: it goes on. Exit 2: could not tell.
    """
    from ..runs import calling

    place = box_of(box)
    run = run or calling.the_living_one(place, accept_new=accept_new)
    try:
        with terminal.waiting("waiting until it has saved and ended …"):
            answer = calling.verb(place, run, "stop", accept_new=accept_new)
    except KeyboardInterrupt:
        where = f"{shlex.quote(box)}{f' --run {shlex.quote(run)}' if run else ''}"
        print(
            f"{shown(box, 80)}: the run may have been asked to save and end, and go on to do so; "
            f"{program()} status {where} tells it",
            file=sys.stderr,
        )
        raise
    remember(place)
    if as_json:
        print_answer({"lines": answer.lines, "code": answer.code}, place, answer.folder)
    else:
        for line in answer.lines:
            print(line)
    return answer.code


@command("resume", about_boxes=True)
@BOX_ARGUMENT
@RUN
@click.option(
    "--set",
    "fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="change a field of the job, such as deadline=30h, and send the script anew; repeatable",
)
@click.option("--code", "with_code", is_flag=True, help="send the code as it is here now")
@click.option(
    "--from",
    "old_box",
    metavar="BOX",
    help="go on with a run of this other box, from its copy at the durable place, with the code "
    "that is here; --run is its name there",
)
@click.option(
    "--old-is-gone",
    is_flag=True,
    help="with --from: that box doesn't answer, and you have ended it",
)
@click.option("-y", "--yes", is_flag=True, help="run once more what has finished")
@ACCEPT_NEW
@JSON
def resume(
    box: str,
    run: str,
    fields: tuple[str, ...],
    with_code: bool,
    old_box: str | None,
    old_is_gone: bool,
    yes: bool,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Go on with a run that was stopped, was preempted or failed, from its newest whole checkpoint,
    with the script and the code that are on the box. Return when it trains. A run that has finished
    is run again only with --yes. Where the code here differs from the box's, a line says so.

    --set, --code and --from take a run that was started from this machine. A deadline that is a
    span counts from the run's first start. With --from the other box must be known not to train.

    Exit 0 and 1: as for start. Exit 2: could not tell.
    """
    if old_is_gone and not old_box:
        raise BadRequest("--old-is-gone belongs to --from BOX; name the box that is gone")
    words = ["resume", box, *(["--run", run] if run else []), *_options_of(fields)]
    words += ["--code"] if with_code else []
    words += ["--from", old_box] if old_box else []
    course = Course(box, shlex.join(words))
    course.came_to = "nothing was started"
    with _broken_off(course):
        if old_box:
            asking = Asking(box, yes, False)
            old = Old(old_box, run, old_is_gone)
            return _resume_elsewhere(old, fields, asking, course, accept_new, as_json)
        return _resume(run, yes, fields, with_code, course, accept_new, as_json)


def _options_of(fields: tuple[str, ...]) -> list[str]:
    return [word for field in fields for word in ("--set", field)]


def _resume(
    run: str,
    yes: bool,
    fields: tuple[str, ...],
    with_code: bool,
    course: Course,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Look whether the run may go on, change what is to be changed, and let it."""
    from ..runs import calling, job_start, known_jobs, status

    box = course.box
    place = box_of(box)
    before = status.ask(place, run, accept_new=accept_new)
    if before.state in ("unreachable", "unknown") or not before.phase:
        raise calling.NotCalled(before.text)
    remember(place)
    refusal, folder = "", shown(before.dir, 200)
    if before.state == "alive":
        refusal = f"{folder} is alive; rgt status shows it"
    elif before.state == "finished" and not yes:
        refusal = (
            f"{folder} has finished, so nothing was started; rgt release brings its results, --yes "
            "runs it again"
        )
    if refusal:
        terminal.error(refusal)
        _print(as_json, {"text": refusal}, place, before.dir, before)
        return 1
    known = known_jobs.find(place, before.dir)
    words, wanted = ["resume", box, "--run", run or before.dir], None
    if fields or with_code:
        if known is None:
            terminal.error(
                f"{shown(before.dir, 200)} wasn't started from here, so its job isn't known; "
                f"{program()} start {shlex.quote(box)} JOB {shlex.join(_options_of(fields))} goes "
                "on with it, with the code of that job"
            )
            return 1
        wanted = _send_anew(place, known, before, fields, with_code, course)
    elif passed := job_start.passed(before, time.time()):
        terminal.error(f"{shown(before.dir, 200)}: {passed}")
        _say("next", f"{program()} {shlex.join(words)} --set deadline={job_start.longer(before)}")
        return 1
    differing = job_start.differing_code(place, known) if known and not with_code else None
    if differing is not None and (changed := job_start.describe_differing(differing)):
        _say("code", f"{changed}; --code sends it")
    again = shlex.join([*words, *_options_of(fields)])
    if known and not fields and not with_code:
        wanted = _reserve_again(place, known, before)
    course.begun = place, before.dir
    following = Following(box, "", again)
    return _begin(place, before, before.dir, "resume", following, {}, as_json, wanted)


def _reserve_again(place: Box, known: Known, before: Status) -> Wanted | None:
    """Reserve what a run may cost that goes on as it is: its box may be counted no more, or the
    purse be newer; return that. Raises OverPurse."""
    from ..platforms import profile as profiles
    from ..runs import purse
    from ..runs.job_errors import JobError
    from ..runs.job_reading import from_object

    try:
        job, platform = from_object(known.given), profiles.get(known.profile)
    except (JobError, profiles.ProfileError):  # of another release: its job can't be read here
        return None
    remember(place, known.profile, job.hourly)
    wanted = purse.wanted_by(
        place, job, platform, before.first_start or known.first_start or known.at
    )
    if wanted:
        purse.reserve(wanted)
    return wanted


def _send_anew(
    place: Box,
    known: Known,
    before: Status,
    fields: tuple[str, ...],
    with_code: bool,
    course: Course,
) -> Wanted | None:
    """Send the script of a job whose fields were changed, and its code where that is wanted. Return
    what was reserved for it."""
    from ..runs import job_start, known_jobs, purse

    now = time.time()
    given, plan = job_start.plan_anew(place, known, fields, now, with_code=with_code)
    _say_end(place, plan, before.first_start, now)
    wanted = purse.wanted_by(place, plan.job, plan.platform, before.first_start or now)
    with _reserved(wanted), terminal.Progress(f"sending to {shown(place.name, 60)}") as progress:
        sent = job_start.send(place, plan, keep_code=not with_code, begins=progress.follow)
    course.came_to = "the script was sent anew, and nothing was started"
    what = "the code and the script" if with_code else "the script"
    _say("sent", f"{what}: {sent.new} of {sent.files} files, {shown_bytes(sent.bytes)}")
    known_jobs.remember(
        place,
        known.folder,
        job_start.platform_named(given, known),
        given,
        first_start=known.first_start or before.first_start,
        moved_from=known.moved_from,
    )
    return wanted


@dataclass(frozen=True)
class Old:
    """The box that a run is to leave. `run`: as --run has it. `is_gone`: the user says so."""

    box: str
    run: str
    is_gone: bool


def _resume_elsewhere(
    old: Old,
    fields: tuple[str, ...],
    asking: Asking,
    course: Course,
    accept_new: bool,
    as_json: bool,
) -> int:
    """Go on with another box's run from its durable copy, once it is known not to train there."""
    from ..runs import job_start, known_jobs, run_ends, status
    from ..runs.job_reading import with_options

    place, now = box_of(old.box), time.time()
    known = known_jobs.find(place, old.run)
    if known is None:
        which = f"no run {old.run!r}" if old.run else "no run"
        terminal.error(
            f"{which} was started on {shown(old.box, 80)} from here; {program()} start "
            f"{shlex.quote(asking.box)} JOB goes on from the durable place of that job"
        )
        return 1
    given = with_options(known.given, list(fields))
    before = status.ask(place, known.folder)
    if why_not := job_start.why_not_elsewhere(given, place, known, before, old.is_gone):
        terminal.error(why_not)
        return 1
    _say("from", f"{known.name} of {shown(old.box, 80)}, by its copy at the durable place")
    first = known.first_start if known.moved_from else before.first_start or known.first_start
    first = first or known.at
    given = run_ends.with_fixed_deadline(given, first, now)
    _say("deadline", f"still counts from the first start, at {shown_moment(first)}")
    _say("cost", _cost_of_move(place, known, before, now))
    is_alike = place.local == box_of(asking.box).local
    profile = job_start.platform_named(given, known) if is_alike else ""
    moved = Moved(old.box, first)
    return _start(given, profile, asking, course, accept_new, as_json, moved)


def _cost_of_move(place: Box, known: Known, before: Status, now: float) -> str:
    """What the old box has cost, and that the new one's cost counts from its own first contact."""
    from ..boxes.box import address
    from ..runs import ledger, status_cost

    opened = next((one for one in ledger.still_open() if one.address == address(place)), None)
    cost, name = status_cost.cost_of(before, known, opened, now), shown(place.name, 80)
    so_far = f", about {cost['so_far']:.2f} so far" if cost else ""
    goes_on = "" if place.local else f", and goes on until you end it{so_far}"
    return f"counts from here on for the new box; that of {name} isn't in it{goes_on}"
