"""What a command that acts on a box would do, before it does it: its words, its size, its cost.

An agent shows such a plan to the user. The command itself is what carries it out.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..boxes import box as boxes
from ..boxes.box import Box
from ..text import UserError
from ..text.masking import shown
from ..text.sizes import shown_bytes
from ..text.spans import shown_moment
from . import (
    billing,
    job_start,
    known_jobs,
    ledger,
    purse,
    rendered,
    run_ends,
    status,
    status_cost,
)
from .job_reading import read_job_with_code
from .status_reply import Status

LIMIT = 20.0  # seconds for one question to the box
LONGEST = 1000  # characters of a line
MOST_FILES = 5  # of the largest that are sent
KEEP = "keep the box until they came by `also`, or you say `rgt release --leave`"
NOT_KNOWN = "not known: the job names no price"


class NotPlanned(UserError):
    """Nothing of the kind can be done now. One line: what is wrong; what to do."""


@dataclass(frozen=True)
class Act:
    """What would be done on a box.

    `words`: of the command, without the program's name. `run`: the run's folder on the box.
    `terms`: for the user, texts of theirs and of this program alone. `leaves`: what stays on the
    box and nobody keeps, as the box has it. `mark`: differs once anything that the plan rests on
    has changed.
    """

    kind: str
    box: Box
    run: str
    words: tuple[str, ...]
    terms: dict[str, Any] = field(compare=False)
    mark: str = ""
    leaves: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Return the command as the user would type it."""
        return f"rgt {shlex.join(self.words)}"


def start(
    box: Box, job: str, profile: str = "", fields: tuple[str, ...] = (), *, rehearse: bool = False
) -> Act:
    """Return what `start` or `rehearse` would do with the job in a file, `fields` of it changed.

    Raises NotPlanned, and what those commands raise before they send anything.
    """
    now, path = time.time(), Path(job).expanduser().resolve()
    given = read_job_with_code(str(path), fields)
    plan = job_start.plan(given, profile, box, now)
    try:
        before = job_start.refuse_living(box, plan)
    except job_start.Done:
        if not rehearse:
            raise
        before = _asked(box, plan.job.folder)
    if rehearse:
        words = ("rehearse", str(path), "--on", box.name)
    else:
        words = ("start", box.name, str(path))
        words += ("--profile", profile) if profile else ()
    words += _set(fields)
    mark = _mark(box, before, path.read_bytes().hex(), _sums(plan), profile)
    terms = _terms_of(plan, box, before.first_start, now)
    return Act("rehearse" if rehearse else "start", box, plan.job.folder, words, terms, mark)


def resume(box: Box, run: str, fields: tuple[str, ...] = ()) -> Act:
    """Return what `resume` would do, with `fields` of the job changed. Raises NotPlanned for a run
    that can't go on, and JobError."""
    before, now = _asked(box, run), time.time()
    if before.state in ("alive", "finished"):
        raise NotPlanned(f"the run is {before.state}; nothing is to go on")
    known = known_jobs.find(box, before.dir)
    words = ("resume", box.name, _which(box, run, before), *_set(fields))
    if fields:
        if known is None:
            raise NotPlanned(
                "the run wasn't started from here, so its job isn't known; pass job in place of run"
            )
        _, plan = job_start.plan_anew(box, known, fields, now, with_code=False)
        terms, sums = _terms_of(plan, box, before.first_start, now), _sums(plan)
    else:
        if passed := job_start.passed(before, now):
            raise NotPlanned(f"{passed}; pass fields, such as deadline={job_start.longer(before)}")
        terms, sums = _terms_of_there(box, before, known), {}
    differing = job_start.differing_code(box, known) if known else []
    if said := job_start.describe_differing(differing):
        terms["code"] = f"{said}; pass job in place of run to send it"
    return Act("resume", box, before.dir, words, terms, _mark(box, before, sums))


def _terms_of_there(box: Box, before: Status, known: known_jobs.Known | None) -> dict[str, Any]:
    """Return what to tell of a run that goes on with the script that is on the box."""
    given = known.given if known else {}
    return {
        "runs there": _whole(given.get("command") or "") or "what lies in the run's folder",
        "sends_bytes": 0,
        "copies": _copies(given.get("durable")) if known else "not known",
        "until": shown_moment(before.deadline) if before.deadline else "not known",
        "worst_cost": _cost_until(box, before),
    }


def _terms_of(plan: job_start.Plan, box: Box, first: float | None, now: float) -> dict[str, Any]:
    """Return what to tell of a job whose script is sent. `first`: when it was started before."""
    began = first or now
    until = run_ends.until(plan.job, now, first)
    wanted = purse.wanted_by(box, plan.job, plan.platform, began)
    counted = purse.check(wanted, now) if wanted else None
    end = rendered.end_of(plan.job, plan.platform)["end"]["command"]
    size = sum(len(data) for data, _ in plan.parcel.texts.values())
    return {
        "runs there": _whole(rendered.command(plan.job)),
        "setup": [line for command in plan.job.setup for line in _lines(command)],
        "sends_bytes": size + (plan.code.bytes if plan.code else 0),
        "largest_files": _largest(plan.code.sizes if plan.code else {}),
        "sends_secrets": [shown(one, 200) for one in job_start.with_secrets(plan.code)][:MOST_FILES]
        if plan.code
        else [],
        "copies": _copies(plan.job.durable and plan.job.durable.model_dump()),
        "until": until,
        "worst_cost": status_cost.worst(plan.job, plan.platform, box, began, now) or NOT_KNOWN,
        "purse": counted.in_words() if counted else None,
        "end_command": _whole(end) if end else _stays(box, plan.platform.name),
        "warnings": [f"{one.id}: {one.text}"[:LONGEST] for one in plan.rendered.warnings],
    }


def _sums(plan: job_start.Plan) -> dict[str, str]:
    """Return the hash of each file that would be sent."""
    parcel = plan.parcel
    sums = {name: hashlib.sha256(data).hexdigest() for name, (data, _) in parcel.texts.items()}
    return sums | {name: _sum(file) for name, file in parcel.paths.items()}


def _set(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options that change fields. Raises NotPlanned for more than a plan shows."""
    if sum(map(len, fields)) > LONGEST:
        raise NotPlanned(f"fields: over {LONGEST} characters; write them into the job's file")
    return tuple(word for field in fields for word in ("--set", field))


def stop(box: Box, run: str) -> Act:
    """Return what `stop` would do. Raises NotPlanned for a run that isn't alive."""
    before = _asked(box, run)
    if before.state not in ("alive", "stalled"):
        raise NotPlanned(f"the run is {before.state}, so there is nothing to stop")
    terms = {
        "sends_bytes": 0,
        "worst_cost": "nothing more than the box costs until you end it",
        "end_command": _stays(box, _platform(box, before)),
    }
    words = ("stop", box.name, _which(box, run, before))
    return Act("stop", box, before.dir, words, terms, _mark(box, before))


def fetch(box: Box, run: str, also: tuple[str, ...] = ()) -> Act:
    """Return what `release` would bring, with the files and folders of `also` on the box. Raises
    NotPlanned for a run that goes on."""
    before = _asked(box, run)
    if before.state in ("alive", "stalled", "nothing"):
        raise NotPlanned(f"the run is {before.state}; its results are fetched once it has ended")
    leaves = tuple(
        one["path"]
        for one in before.saved_elsewhere
        if not any(f"{one['path']}/".startswith(f"{path.rstrip('/')}/") for path in also)
    )
    terms = {
        "folder_bytes": _size_of(box, before.dir),
        "brings_also": list(also),
        "leaves": f"{len(leaves)} that its log says were saved elsewhere: {KEEP}" if leaves else "",
        "to": "results/ in the working folder",
        "worst_cost": "nothing more than the box costs until you end it",
        "end_command": _stays(box, _platform(box, before)),
    }
    words = ("release", box.name, _which(box, run, before), *(f"--also={path}" for path in also))
    return Act("fetch", box, before.dir, words, terms, _mark(box, before), leaves)


def _stays(box: Box, profile: str) -> str:
    """Return that no command ends the box. `profile`: as for `billing.is_rented_here`."""
    if box.local and not billing.is_rented_here(profile):
        return "none"
    return "none: the box stays on, and billed if you rent it"


def _platform(box: Box, found: Status) -> str:
    """Return the platform of a run, '' for one that wasn't started from here."""
    known = known_jobs.find(box, found.dir)
    return known.profile if known else ""


def _copies(durable: Any) -> str:
    """Return what a job copies where. `durable`: its field, None where it has none."""
    if not isinstance(durable, dict):
        return "none: checkpoints and results are on this box alone"
    what = ", ".join(map(str, durable.get("what") or ()))
    return shown(
        f"{what} to {durable.get('to')}; whether the box can write there is checked only once "
        "this is carried out, before the program starts",
        LONGEST,
    )


def _asked(box: Box, run: str) -> Status:
    """Return the state of a run. Raises NotPlanned where the box doesn't tell one."""
    found = status.ask(box, run, limit=LIMIT)
    if found.state in ("unreachable", "unknown") or not found.dir:
        raise NotPlanned(found.text or "the box names no run")
    return found


def _which(box: Box, run: str, found: Status) -> str:
    """Return the option that names a run: as the caller does, else as it was started from here.

    Raises NotPlanned for one that only the box names: it may call it anything.
    """
    known = known_jobs.find(box, found.dir)
    if not run and known is None:
        raise NotPlanned(
            "the newest run there wasn't started from here; name the one that is meant"
        )
    return f"--run={run or (known and known.name)}"


def _size_of(box: Box, folder: str) -> int | None:
    """Return the bytes of a run's folder on the box, None where it doesn't say."""
    reply = boxes.run(
        box, b"", interpreter=("du", "-sk", "--"), args=(folder,), limit=LIMIT, accept_new=False
    )
    first = reply.out.split()[:1] if reply.outcome == "ok" else []
    return int(first[0]) * 1024 if first and first[0].isdigit() else None


def _cost_until(box: Box, before: Status) -> str:
    known = known_jobs.find(box, before.dir)
    opened = next((one for one in ledger.still_open() if one.address == boxes.address(box)), None)
    given = known.given if known else {}
    price = status_cost.price_of(given, opened, "", before.gpu_name, len(before.gpus))
    return "not counted: this machine" if box.local else _in_words(price, before.deadline)


def _in_words(price: dict[str, Any] | None, until: float | None) -> str:
    if price is None or until is None:
        return NOT_KNOWN
    hours = max(0.0, until - time.time()) / 3600
    unit = f" {price['currency']}" if price.get("currency") else ""
    return (
        f"{price['price'] * hours:.2f}{unit} from now on ({price['price']:g} an hour, "
        f"{hours:.1f} h at most), estimated; and what the box costs until you end it"
    )


def _lines(words: str | list[str]) -> list[str]:
    """Return a command whole, with secrets masked, in lines that no answer cuts."""
    text = words if isinstance(words, str) else shlex.join(map(str, words))
    whole = shown(text, 8 * len(text) + LONGEST)
    return [whole[at : at + LONGEST] for at in range(0, len(whole), LONGEST)]


def _whole(words: str | list[str]) -> str | list[str]:
    lines = _lines(words)
    return lines if len(lines) > 1 else "".join(lines)


def _largest(sizes: dict[str, int]) -> list[str]:
    """Return the largest files of some, with their sizes."""
    names = sorted(sizes, key=lambda name: -sizes[name])[:MOST_FILES]
    return [f"{shown(name, 200)} ({shown_bytes(sizes[name])})" for name in names]


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def _mark(box: Box, before: Status, *more: Any) -> str:
    """Return what differs once the box, the run there or anything of `more` has changed.

    Steps go on all the time, and aren't part of it.
    """
    known = known_jobs.find(box, before.dir) if before.dir else None
    facts = [boxes.address(box), before.dir, before.state, before.attempt, before.asked]
    facts += [before.deadline, known and known.at, *more]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
