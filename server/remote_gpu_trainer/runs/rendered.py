"""What a run.sh holds: the job, and what its platform and target make of it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

from ..platforms.profile import Profile
from .job import Job

NOTICES = {
    "aws": "aws",
    "gcp": "gcp",
}  # whose metadata service tells of a preemption; the others send signals, or nothing
# The variable by which a command names its key.
# Whether the end command of who rented the box keeps its disk.
_TOOLS = {"sky stop": True, "sky down": False, "dstack stop": False}
_KEY = re.compile(r"\$\{?([A-Z][A-Z0-9_]*(?:KEY|TOKEN)[A-Z0-9_]*)")
_PYTHON = re.compile(r"\A\s*python3?(?=\s|\Z)")
# A word of a command that starts a Python program, such as python3.11, train.py or torchrun.
_TRAINING = re.compile(r"(?:^|/)(?:python[\d.]*|torchrun|accelerate|deepspeed)$|\.py$")


@dataclass(frozen=True)
class CodeState:
    """What git says about a code folder.

    `commit`: id, date and subject, or why there is none. `difference`: `git diff HEAD`, cut if it
    is too long for a script. `ignored`: the names of files that aren't sent, one a line.
    `finds_checkpoints`: a file of the code reads RGT_CHECKPOINT_DIR.
    """

    commit: str
    difference: str
    ignored: str
    finds_checkpoints: bool = False


class Unfit(ValueError):
    """A job that this target can't run. One line: field, what is wrong, what to do."""


def rendered_of(
    job: Job,
    profile: Profile,
    target: str,
    version: str,
    code: CodeState | None = None,
) -> dict[str, Any]:
    """Return what a run.sh holds beside its job. Raises Unfit for a job that can't run there.

    `version` of the package that rendered it; `job_sha`, the job's fingerprint; `target` and
    `profile` by name. `run_dir` and `work_dir`, folders on the box; the command runs in the second.
    `install`, the words that install the environment file. `end`, the `command` that ends the box
    (words, a line for bash, or '' for none), what it `needs` ('', NAME or NAME=FILE), and whether
    it `keeps_disk`, that is deletes nothing. `stop`, the same of the platform's own stop, which
    keeps the disk. `billed`, whether somebody rents the box out by the hour. `notice`, whose
    metadata service tells of a preemption, '' for none. `probe`, whether the first steps are looked
    at. `code`, the texts of the files code.NAME that keep the state of the code.
    """
    _check_boxes(job, target)
    _check_end(job)
    _check_container(job, target)
    run_dir, work_dir = folders(job, target)
    return {
        "version": version,
        "job_sha": fingerprint(job),
        "target": target,
        "profile": profile.name,
        "run_dir": run_dir,
        "work_dir": work_dir,
        "install": install(job),
        **end_of(job, profile),
        "billed": billed(job, profile, target),
        "notice": NOTICES.get(profile.name, ""),
        "probe": probed(job),
        "code": {
            "commit": code.commit if code else "",
            "diff": code.difference if code else "",
            "ignored": code.ignored if code else "",
        },
    }


def job_of(job: Job) -> dict[str, Any]:
    """Return the job as a run.sh holds it: every field, but where its code lies here. Raises Unfit.

    Where the job names an interpreter, it stands in the command; where it names a budget, its end
    stands in the deadline.
    """
    dumped = job.model_dump(mode="json", by_alias=True, exclude={"code"})
    return {**dumped, "command": command(job), "deadline": job.ends}


def fingerprint(job: Job) -> str:
    """Return the SHA-256 of the job's canonical JSON, first 16 digits.

    Where its code lies here is no part of it, nor what is as usual: a newer version knows more
    fields.
    """
    text = json.dumps(
        job.model_dump(mode="json", by_alias=True, exclude={"code"}, exclude_defaults=True),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def command(job: Job) -> str | list[str]:
    """Return the program's words, or its line for bash.

    Where the job names an interpreter, a first `python` becomes it. Raises Unfit.
    """
    if job.python.startswith("~"):
        raise Unfit("python: nothing reads the ~ there; write an absolute path")
    named = "python" in job.model_fields_set
    if isinstance(job.command, str):
        # The user's own line: a path with a blank in it is quoted as they would.
        line = f"'{job.python}'" if " " in job.python and "'" not in job.python else job.python
        return _PYTHON.sub(lambda _: line, job.command) if named else job.command
    first, *rest = job.command
    return [job.python if named and first in ("python", "python3") else first, *rest]


def probed(job: Job) -> bool:
    """Whether the probe is used: the job has a Python program, and doesn't refuse."""
    words = job.command.split() if isinstance(job.command, str) else job.command
    named = job.launcher != "none" or any(map(_TRAINING.search, words))
    return job.probe and named


def _check_boxes(job: Job, target: str) -> None:
    """Raises Unfit where a target can't share cells among boxes."""
    if job.boxes == 1 or target in ("skypilot", "kubernetes"):
        return
    do = "leave it out, and start each box with its part: bash run.sh start --queue --part 1/2"
    if target == "slurm":
        do = "leave it out: each cell is a task of the array; slurm.at_a_time limits them"
    raise Unfit(f"queue.boxes: target {target} shares no cells among boxes; {do}")


def _check_container(job: Job, target: str) -> None:
    """Raises Unfit for a target that can't run the job's container."""
    given = job.container
    if given is None:
        return
    if target == "kubernetes":
        raise Unfit("container: a pod is one already; set kubernetes.image")
    if given.engine == "pyxis" and target != "slurm":
        raise Unfit("container.engine: pyxis is a part of Slurm; use apptainer, docker or podman")
    folders = {"checkpoint.folder": job.checkpoint.folder} if job.checkpoint else {}
    folders |= {f"data.{at}.to": copy.to for at, copy in enumerate(job.data)}
    for field, path in folders.items():
        if ":" in path or "," in path:
            raise Unfit(f"{field}: no engine binds a path with ':' or ','; rename the folder")


def install(job: Job) -> list[str]:
    """The command that installs the environment file. Raises Unfit."""
    path = job.environment
    if not path:
        return []
    name = path.rsplit("/", 1)[-1]
    if name == "uv.lock":
        return ["uv", "sync", "--frozen"]
    if name.endswith((".yml", ".yaml")):
        return ["conda", "env", "update", "--file", path]
    if name.endswith(".txt"):
        return [job.python, "-m", "pip", "install", "--requirement", path]
    raise Unfit(
        "environment: not requirements.txt, environment.yml or uv.lock; "
        "install anything else in the image"
    )


def billed(job: Job, profile: Profile, target: str) -> bool:
    """Whether somebody pays for the box by the hour until they end it.

    A scheduler takes its machine back. `local` is a command typed on a box, which stays rented.
    """
    if target in ("slurm", "kubernetes") or (target == "skypilot" and job.is_managed):
        return False
    return is_rented(profile, target)


def is_rented(profile: Profile, target: str) -> bool:
    """Whether a box of the platform is rented, as far as its name tells."""
    return profile.kind == "rental" or (
        profile.kind == "unnamed" and target in ("ssh", "local", "skypilot")
    )


def end_of(job: Job, profile: Profile) -> dict[str, Any]:
    """Return `end` and `stop` of `rendered_of`: the commands that end the box."""
    wanted = job.at_end
    stop, stop_needs = self_stop(job, profile) if wanted.do != "keep" else ("", "")
    if wanted.do == "run":
        keeps_disk = wanted.keeps_disk or kept_by_tool(job) is True
        line, needs = wanted.command or "", _needed(job)
    else:
        line, needs, keeps_disk = stop, stop_needs, bool(stop)
    return {
        "end": {"command": line, "needs": needs, "keeps_disk": keeps_disk},
        "stop": {"command": stop, "needs": stop_needs},
    }


def _check_end(job: Job) -> None:
    """Raises Unfit where a command would delete what is nowhere else."""
    end, by_tool = job.at_end, kept_by_tool(job)
    if end.keeps_disk and by_tool is False:
        raise Unfit(
            "at_end: this command deletes the disk, whatever keeps_disk says; leave that out, and "
            "name durable.to"
        )
    if (
        end.do == "run"
        and not (end.keeps_disk or by_tool)
        and not job.durable
        and "unsaved" not in end.when
    ):
        raise Unfit(
            "at_end: its command may delete the box with all that the run makes, and no durable "
            "place is named; name durable.to, or write keeps_disk: true if it deletes nothing, or "
            "add unsaved to at_end.when if all may be lost"
        )


def kept_by_tool(job: Job) -> bool | None:
    """Return whether the end command of SkyPilot or dstack keeps the box's disk; None for any other
    command. Raises Unfit where it would ask, because nobody answers on a box."""
    command = job.at_end.command or ""
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError:
        return None  # one line for bash
    known = _TOOLS.get(" ".join(words[:2]))
    if known is not None and not {"-y", "--yes"}.intersection(words):
        raise Unfit(f"at_end: {' '.join(words[:2])} asks, and nobody answers on a box; add -y")
    return known


def _needed(job: Job) -> str:
    """Return NAME, a variable of the box, or NAME=FILE with the name that the command reads."""
    given, command = job.at_end.credential, job.at_end.command or ""
    if given is None or given.variable:
        return (given and given.variable) or ""
    named = _KEY.search(command if isinstance(command, str) else " ".join(command))
    return f"{named[1] if named else 'RGT_STOP_KEY'}={given.file}"


def self_stop(job: Job, profile: Profile) -> tuple[str, str]:
    """The shell line by which the box stops itself and keeps its disk, and what that line needs.

    What it needs is a credential: the name of a variable on the box, or NAME=FILE. ('', '') where
    the platform has no such line.
    """
    fact = profile.facts.self_stop
    if (
        profile.kind != "rental"
        or fact is None
        or not fact.value.possible
        or fact.value.keeps_disk is not True
    ):
        return "", ""
    line = re.sub(
        r"\b(?:INSTANCE_)?ID\b(?!=)",
        '"$RGT_BOX_ID"',
        re.sub(r"(?<= )KEY\b", '"$RGT_STOP_KEY"', _without_variables(fact.value.command)),
    )
    line = _with_variables(line)
    if "$RGT_BOX_ID" in line and not job.at_end.box_id:
        return "", ""
    named = _KEY.findall(line)
    name = named[0] if named else "RGT_STOP_KEY" if "$RGT_STOP_KEY" in line else ""
    given = job.at_end.credential
    if not name:
        return line, ""
    if given and given.file:
        return line, f"{name}={given.file}"
    if given and given.variable and given.variable != name:
        return f'{name}="${given.variable}"; export {name}; {line}', given.variable
    return line, name


# A placeholder such as ID must not be looked for inside a shell variable such as $RUNPOD_POD_ID.
def _without_variables(line: str) -> str:
    return re.sub(r"\$(\{?)([A-Z_][A-Z0-9_]*)", lambda m: f"${m[1]}\x00{m[2].lower()}\x00", line)


def _with_variables(line: str) -> str:
    return re.sub("\x00([a-z0-9_]*)\x00", lambda m: m[1].upper(), line)


def folders(job: Job, target: str) -> tuple[str, str]:
    """(run folder, work folder) on the box; the command runs in the work folder."""
    run = job.run_dir or (
        f"{job.kubernetes.mount.rstrip('/')}/runs/{job.name}"
        if target == "kubernetes" and job.kubernetes and job.kubernetes.claim
        else f"~/runs/{job.name}"
    )
    if target == "kubernetes":
        return run, "."  # the code is in the image
    if target == "skypilot" and job.code:
        return run, "~/sky_workdir"  # SkyPilot sends the code there
    return run, f"{run}/code" if job.code else run
