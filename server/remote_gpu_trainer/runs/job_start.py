"""Start a job on a box: render it, send it with its code, begin, and wait until it trains.

What a person or an agent decides, such as whether to begin on a box that could not be judged, is
the caller's.
"""

from __future__ import annotations

import math
import posixpath
import re
import shlex
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ..boxes.box import Box
from ..platforms.profile import Profile
from ..readings.course import Course
from ..runner.content import step_of
from ..runner.core.phases import CODES
from ..runner.deadline import after
from ..runner.probing import LOOKING
from ..runner.spec import MUST_RESTORE
from ..text import UserError
from ..text.masking import shown, shown_some
from ..text.secrets import holds_secret
from ..text.spans import shown_moment
from . import calling, code_files, run_log, status
from .code_files import CodeFiles
from .job import Job
from .job_errors import JobError, placed
from .job_reading import from_object, with_options
from .known_jobs import Known
from .render import Rendered, render
from .rendered import CodeState, Unfit, probed
from .rendering import platform_for
from .run_ends import end_passed, later, with_fixed_deadline
from .run_script import quoted_path
from .status_reply import NO_RUNNER, FailedAttempt, Status
from .transfer import sending
from .transfer.sending import Parcel, Sent

BEGINNING = 180.0  # seconds that `run.sh start` may take: it waits until its checks are over
POLL = 2.0  # seconds between two looks at a run that was started
QUIET = 120.0  # seconds after which nobody waits for the first step of a program that works
FIRST = 60.0  # seconds of a program in which its first loss may still come
TO_RETRY = 60.0  # seconds after an attempt's error for the run to fail, or to train again
TO_LOOK = 120.0  # seconds for the probe to see its steps, after the first sign
SETTLING = 5.0  # seconds until a run whose start was broken off lives, or doesn't begin
SETTLING_THERE = 15.0  # over ssh the broken command goes on there: it looks for a Python first
WORKED = 60.0  # seconds of CPU time that such a program has used: imports alone take ten
TO_BRING = 4 * 3600.0  # seconds for what comes before the program: packages, data, checkpoints
READ_FOR_SECRETS = 300_000  # bytes; a longer file is data
_TEXTS = (".py", ".sh", ".yaml", ".yml", ".json", ".toml", ".ini", ".cfg", ".txt", ".env", ".conf")
_WORD = re.compile(r"[\s;&|()<>'\"=]+")


class NotStarted(UserError):
    """A run was not started. One line: what is wrong; what to do."""


class Living(NotStarted):
    """A run of this name is alive on the box. One line: what it does; what to do."""


class Done(NotStarted):
    """A run of this name has finished on the box. One line: what it is; what to do."""


@dataclass(frozen=True)
class Plan:
    """What is to be started: a job, rendered for a platform, and the code that goes with it.

    `state`: of the code, as git has it. `must_restore`: nothing is to begin without a checkpoint
    from the durable place.
    """

    job: Job
    platform: Profile
    rendered: Rendered
    code: CodeFiles | None
    state: CodeState | None
    must_restore: bool = False

    @property
    def parcel(self) -> Parcel:
        """Return the files for the run's folder on the box."""
        code = self.code
        paths = {f"code/{name}": code.folder / name for name in code.sizes} if code else {}
        own = self.rendered.files.items()
        texts = {name: (text.encode(), 0o700 if name == "run.sh" else 0o644) for name, text in own}
        if self.must_restore:
            texts[MUST_RESTORE] = (b"", 0o644)
        return Parcel(self.job.folder, paths, texts)


def plan(
    given: Any,
    profile_name: str,
    box: Box,
    now: float,
    *,
    with_code: bool = True,
    must_restore: bool = False,
    before: Plan | None = None,
) -> Plan:
    """Return what would be started on the box. Raises JobError, and ProfileError.

    `given`: the fields of a job. `now`: seconds since 1970, by which facts of the platform are
    judged stale and the deadline is told. `with_code`: False for code that is on the box.
    `before`: a plan for the same code a moment ago, which isn't read again.
    """
    job = from_object(given)
    target = "local" if box.local else "ssh"
    platform = platform_for(job, profile_name, target)
    if platform.name in ("slurm", "kubernetes"):
        raise JobError(
            f"{platform.name}: its own scheduler starts a job; rgt render prints the command for it"
        )
    try:
        if job.nodes > 1:
            raise Unfit(
                "nodes: this starts one box; rgt render prints the commands for several, which "
                "begin together"
            )
        files, state = (before.code, before.state) if before else (None, None)
        if before is None and job.code and with_code:
            code_files.check_folder(Path(job.code))
            files = code_files.choose(Path(job.code))
            state = code_files.read_state(files)
        rendered = render(job, platform, target, date.fromtimestamp(now), state)
        _refuse_missing(job, files)
        if (at := after(job.ends, now)) is not None and at <= now:
            raise Unfit(end_passed(job, now, now))
    except Unfit as error:
        raise placed(given, str(error)) from None
    except OSError as error:
        raise placed(
            given, f"code: {error.filename}: {error.strerror}; name a folder that can be read"
        ) from None
    restores = must_restore and job.queue is None  # a cell that never ran begins anew
    return Plan(job, platform, rendered, files, state, restores)


def plan_anew(
    box: Box, known: Known, fields: tuple[str, ...], now: float, *, with_code: bool
) -> tuple[dict[str, Any], Plan]:
    """Return the fields of a run's job once some are changed, and what would be sent to the box.

    `fields`: such as deadline=30h. Raises JobError, and ProfileError.
    """
    given: dict[str, Any] = with_options(known.given, list(fields))
    if known.moved_from and known.first_start:
        given = with_fixed_deadline(given, known.first_start, now)
    planned = plan(given, platform_named(given, known), box, now, with_code=with_code)
    if planned.job.folder != known.folder:
        raise JobError(
            f"name: this goes on with the run in {known.folder}; rgt start begins another one"
        )
    if with_code and planned.code is None:
        raise JobError("code: the job sends none; --set code=FOLDER names a folder")
    return given, planned


def platform_named(given: dict[str, Any], known: Known) -> str:
    """Return the platform of a run that goes on: a job's new one, else the one it started with."""
    named = given.get("platform")
    return known.profile if named == known.given.get("platform") else str(named or "")


def _refuse_missing(job: Job, files: CodeFiles | None) -> None:
    """Raise Unfit for a file of the code that the command names and that isn't sent."""
    if files is None:
        return
    line = job.command if isinstance(job.command, str) else "\n".join(job.command)
    named = {word.removeprefix("./") for word in _WORD.split(f"{line} {job.environment or ''}")}
    if lost := sorted(named.intersection(files.untracked)):
        raise Unfit(
            f"code: git doesn't track {shown(lost[0], 100)}, so it isn't sent; run git add "
            f"{shown(lost[0], 100)}"
        )
    if kept := sorted(named.intersection(files.keys)):
        raise Unfit(
            f"code: {shown(kept[0], 100)} looks like a key and isn't sent; put it on the box "
            "yourself, and name it in secrets"
        )
    programs = [word for word in job.command if word.endswith(".py")]
    programs = [] if isinstance(job.command, str) else programs
    absent = [word for word in programs if word.removeprefix("./") not in files.sizes]
    if absent and files.sizes and not absent[0].startswith(("/", "~", "../")):
        raise Unfit(
            f"code: no {shown(absent[0], 100)} in {shown(files.folder, 100)}; name the folder with "
            "the program in code"
        )
    if not files.sizes:
        raise Unfit(
            f"code: git tracks no file in {shown(files.folder, 100)}; run git add there"
            if files.tracked
            else f"code: {shown(files.folder, 100)} is empty; name the folder with the program"
        )


def went_on_from(box: Box, folder: str) -> str:
    """Return what the newest attempt of a run went on from: its step, else its checkpoint; '' where
    it isn't known."""
    found = ""
    with suppress(run_log.NoLog):
        for piece in run_log.read(box, folder, run_log.Wanted()):
            if isinstance(piece, run_log.Attempt):
                found = piece.resume
            elif isinstance(piece, run_log.Lost):
                break
    step = step_of(found) if found else None
    return shown(posixpath.basename(found), 200) if step is None else f"step {step}"


def without_probe(job: Job) -> str:
    """Return why the probe doesn't look at a job that has not refused it, '' where it does."""
    if probed(job) or not job.probe:
        return ""
    return "the command names no Python program; write it as [python, train.py] for it"


def limits(job: Job) -> tuple[list[str], list[str]]:
    """Return what ends a run that shows nothing, beside its deadline, and what doesn't."""
    set_limits, no_limits = [], []
    kinds = [
        ("log_minutes", "without a line, a checkpoint or other output"),
        ("step_minutes", "at the same step"),
    ]
    if job.gpus:
        kinds.append(("idle_power_minutes", "of busy cards at idle power"))
    for name, what in kinds:
        minutes = getattr(job.stall, name)
        if minutes:
            set_limits.append(f"{minutes:g} min {what}")
        else:
            no_limits.append(f"time {what} (stall.{name}: 0)")
    return set_limits, no_limits


def with_secrets(files: CodeFiles) -> list[str]:
    """Return the files of the code that hold what looks like a secret, each with its line."""
    found = []
    for name, size in files.sizes.items():
        if 0 < size <= READ_FOR_SECRETS and name.endswith(_TEXTS):
            try:
                lines = (files.folder / name).read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                continue
            at = next((n for n, line in enumerate(lines, 1) if holds_secret(line[:2000])), 0)
            found += [f"{name}:{at}"] if at else []
    return found


def refuse_living(box: Box, plan: Plan, *, accept_new: bool = False) -> Status:
    """Return the state of an earlier run of this name on the box.

    Raises Living where it is alive, since its code would change under it, Done where it has
    finished, and NotStarted where the box doesn't answer.
    """
    before = status.ask(box, plan.job.folder, accept_new=accept_new)
    if before.state == "unreachable":
        raise NotStarted(before.text)
    if before.state in ("alive", "stalled"):
        step = "" if before.step is None else f" at step {before.step}"
        name, where = plan.job.name, shown(box.name, 80)
        if before.why == NO_RUNNER:
            raise Living(
                f"{name} trains on {where}{step} without its runner, so that nothing is copied; "
                "rgt resume goes on with it, rgt stop ends it"
            )
        raise Living(
            f"{name} is {before.state} on {where}{step}; rgt status shows it, rgt stop ends it, "
            "another name starts a second run"
        )
    if before.state == "finished":
        raise Done(
            f"{plan.job.name} has finished on {shown(box.name, 80)}, so nothing was started; "
            "rgt release brings its results, another name starts a new run, rgt resume --yes runs "
            "it again"
        )
    return before


def passed(before: Status, now: float) -> str:
    """Return that a run's deadline has passed, '' where it hasn't."""
    if not before.deadline or before.deadline > now:
        return ""
    at = shown_moment(before.deadline)
    return f"its deadline passed at {at}, so it can't go on without a later one"


def longer(before: Status) -> str:
    """Return a deadline an hour from now for a run that was started before."""
    now = time.time()
    return later(before.first_start or now, now)


def why_not_elsewhere(given: Any, box: Box, known: Known, found: Status, is_gone: bool) -> str:
    """Return why a run of `box` can't go on elsewhere, '' where it can. Raises JobError.

    `found`: the state of the run there. `is_gone`: the user says that the box is, in case that it
    doesn't answer.
    """
    job, name = from_object(given), shown(box.name, 80)
    if job.durable is None:
        return (
            f"{known.name} has no durable place, so only {name} holds its checkpoints; rgt release "
            "brings them"
        )
    if job.durable.on_this_box and not box.local:
        return f"the copies of {known.name} lie on {name} itself; rgt release brings them"
    where = f"{box.argument} --run {shlex.quote(known.name)}"
    if found.state in ("alive", "stalled"):
        step = "" if found.step is None else f" at step {found.step}"
        return (
            f"{known.name} is {found.state} on {name}{step}, and two runs would write to one "
            f"durable place; rgt stop {where} ends it first"
        )
    if found.state in ("unreachable", "unknown") and not is_gone:
        return (
            f"{found.text}; whether {known.name} still trains there isn't known, and two runs "
            "would write to one durable place. Once you have ended that box, add --old-is-gone"
        )
    if found.state == "finished":
        return f"{known.name} has finished on {name}; rgt release {where} brings its results"
    return ""


def send(
    box: Box,
    plan: Plan,
    *,
    keep_code: bool = False,
    accept_new: bool = False,
    begins: Callable[[int, Callable[[], int]], None] = lambda total, count: None,
) -> Sent:
    """Bring script and code to the box. Raises NotSent. `keep_code`: the code there stays.

    `begins`: as for `sending.send`.
    """
    return sending.send(box, plan.parcel, keep=keep_code, accept_new=accept_new, begins=begins)


def differing_code(box: Box, known: Known) -> list[str]:
    """Return the files of the code here that aren't as on the box, [] where nobody can say.

    `known`: the job that was started there from here.
    """
    folder = Path(str(known.given.get("code") or ""))
    if not known.given.get("code") or not folder.is_dir():
        return []
    try:
        files = code_files.choose(folder)
        paths = {f"code/{name}": folder / name for name in files.sizes}
        names = sending.differences(box, Parcel(known.folder, paths, {}))
    except (OSError, sending.NotSent):
        return []
    return [name.removeprefix("code/") for name in names if name.startswith("code/")]


def describe_differing(names: list[str]) -> str:
    """Return in how many files the code here differs from the box's, '' for none."""
    if not names:
        return ""
    count = "1 file" if len(names) == 1 else f"{len(names)} files"
    return f"code here differs in {count} from what runs there ({shown_some(names)})"


def left_behind(box: Box, folder: str, sent: Sent, code: int) -> str:
    """Return what stays on the box when nothing began there, and the line that removes it.

    `code`: how the run script ended. '' where the folder was there before, since it may hold more
    than what was sent, and where another start has it: its run may train there.
    """
    if not sent.made or code == CODES["preempted"]:
        return ""
    if status.ask(box, folder).state not in ("nothing", "failed"):
        return ""
    where = "" if box.local else f" on {shown(box.name, 80)}"
    return (
        f"{shown(folder, 200)}{where}, with the code that was sent, for the next try; "
        f"rm -r {quoted_path(folder)}{where and ' there'} removes it"
    )


def begin(box: Box, folder: str, verb: str = "start") -> calling.Answer:
    """Let a run begin, by `start` or `resume`. Raises NotCalled."""
    sent_at = str(int(time.time()))
    return calling.verb(box, folder, verb, "--sent-at", sent_at, limit=BEGINNING)


@dataclass(frozen=True)
class Begun:
    """What a run that was started came to. `sign`: what shows that it trains; '' for nothing.
    `seconds`: for how long its program was looked at. `quiet`: what a program does that works and
    shows no step and no checkpoint; ''. `failed`: the attempt of this start that ended with an
    error, None for none; the run may go on with another.

    `status.probe` says what the probe saw, or still that it is looking.
    """

    status: Status
    sign: str
    seconds: float = 0.0
    quiet: str = ""
    failed: FailedAttempt | None = None

    @property
    def lacks(self) -> list[str]:
        """Return what the program's own output doesn't tell, of "step" and "loss".

        [] where it ran too short a time to say so: the first loss may come with the hundredth step.
        """
        if not self.sign and not self.quiet:
            return []
        is_over = self.status.state == "finished"  # only a program that lives shows signs
        has_step = (self.status.step if is_over else self.status.signs.step) is not None
        if self.seconds < FIRST and has_step:
            return []
        course = Course()
        for line in self.status.tail:
            course.take(line, 0.0)
        has_loss = bool(course.losses or "loss" in self.status.numbers)
        return [name for name, has in (("step", has_step), ("loss", has_loss)) if not has]


def watch(
    box: Box,
    folder: str,
    tell: Callable[[Status], None],
    *,
    last_attempt: int = 0,
    probing: Callable[[str], None] = lambda _: None,
    failing: Callable[[FailedAttempt], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Begun:
    """Look at a run until it trains or has ended. `last_attempt`: its number before this start.

    It trains with a step in its log or a checkpoint that came after its start; one that works for
    long and shows neither isn't waited for. The probe's verdict on its first steps is waited for a
    little longer, and `probing` gets the sign by which it trains before that. `failing` gets an
    attempt that ended with an error; the next one is waited for a moment. `tell` and a box that
    doesn't answer: as `status.wait`.
    """
    running_since, trains_since, sign, quiet = math.inf, math.inf, "", ""
    failed: FailedAttempt | None = None
    failed_since, attempt = math.inf, None

    def note_failure(found: Status) -> Status:
        nonlocal failed, failed_since
        last = found.failed_attempt
        if last is not None and last.attempt > (failed.attempt if failed else last_attempt):
            failed, failed_since = last, min(failed_since, clock())
            failing(last)
        return found

    def trains(found: Status) -> bool:
        nonlocal running_since, trains_since, sign, quiet, attempt
        if found.attempt != attempt:  # another program: what the one before it did is no sign
            attempt, running_since, trains_since, sign = found.attempt, math.inf, math.inf, ""
        if found.phase == "running":
            running_since = min(running_since, clock())
            sign = _sign(found) or sign
            quiet = "" if sign else _quiet(found, clock() - running_since)
        if not sign:
            return bool(quiet) or clock() - failed_since >= TO_RETRY
        if failed:
            return True
        is_first, trains_since = trains_since == math.inf, min(trains_since, clock())
        is_looking = found.probe == LOOKING and clock() - trains_since < TO_LOOK
        if is_looking and is_first:
            probing(sign)
        return not is_looking

    found = status.wait(
        lambda: note_failure(status.ask(box, folder)),
        most=TO_BRING,
        interval=POLL,
        until=trains,
        tell=tell,
        clock=clock,
        sleep=sleep,
    )
    seconds = 0.0 if running_since == math.inf else clock() - running_since
    if failed and failed.attempt == found.attempt:
        sign = quiet = ""  # what showed signs has ended
    return Begun(found, sign, seconds, quiet, failed)


def left_running(
    box: Box,
    folder: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Status:
    """Return the state of a run whose start was broken off, once it lives or won't begin."""
    until = clock() + (SETTLING if box.local else SETTLING_THERE)
    while True:
        found = status.ask(box, folder, limit=SETTLING_THERE)
        if found.state in ("alive", "stalled", "unreachable", "unknown") or clock() >= until:
            return found
        sleep(0.5)


def _sign(found: Status) -> str:
    """What shows that a running program trains; '' for nothing yet."""
    signs = found.signs
    if signs.step is not None:
        return f"step {signs.step}"
    if signs.checkpoint:
        return f"a new checkpoint, {shown(signs.checkpoint, 200)}"
    return ""


def _quiet(found: Status, seconds: float) -> str:
    """What a program does that has worked for long and shows no sign; '' for any other."""
    used = found.signs.cpu_seconds
    if seconds < QUIET or used < WORKED:
        return ""
    return (
        f"no step and no checkpoint within {seconds:.0f} s, in which it used {used:.0f} s of CPU "
        "time: whether it trains isn't known"
    )
