"""What may lose the run or the money although the script is right: a warning each, with the entry that tells more. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date

from ..platforms.choosing import mark
from ..platforms.profile import Profile
from ..platforms.save_interval import between_saves
from .job import Job
from .runner_values import self_stop

USED = (
    "self_stop",
    "limits",
    "preemption",
    "paths",
    "survives",
)  # the facts that a script or a warning here rests on


@dataclass(frozen=True)
class Warning:
    """`id`: an entry of the catalogue, PLATFORM.fact for a fact that may be out of date, or job.field where no entry tells of it."""

    id: str
    text: str


# Entries of a platform that tell of the same loss; the general one stands under ''.
LOST = {
    "": "C4",
    "runpod": "RP3",
    "vastai": "VAST2",
    "lambda": "LAM1",
    "paperspace": "PS3",
    "notebooks": "NB4",
    "colab": "NB4",
    "slurm": "SLURM5",
    "aws": "AWS3",
    "featurize": "FZ1",
}
ENDED = {
    "": "GEN5",
    "slurm": "SLURM2",
    "modal": "MOD1",
    "paperspace": "PS2",
    "notebooks": "NB5",
    "colab": "NB5",
    "china": "CN2",
}
BILLED = {
    "": "GEN1",
    "runpod": "RP14",
    "vastai": "VAST1",
    "lambda": "LAM3",
    "nebius": "NEB1",
    "gcp": "GCP3",
    "paperspace": "PS1",
}
TAKEN = {
    "": "C3",
    "slurm": "SLURM2",
    "vastai": "VAST4",
    "aws": "AWS1",
    "gcp": "GCP4",
    "notebooks": "NB5",
    "colab": "NB5",
}


def warnings(job: Job, profile: Profile, target: str, on: date) -> list[Warning]:
    """Every risk that the job, the platform and the day show, gravest first."""
    found = []
    for risk in RISKS:
        found += list(risk(job, profile, target))
    return found + list(_stale(job, profile, on))


def _durable(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.durable is not None or profile.kind == "own":
        return
    folder = job.checkpoint.folder if job.checkpoint else job.folder
    if target in ("slurm", "kubernetes") and not any(
        folder == path or folder.startswith(path.rstrip("/") + "/")
        for path in profile.facts.paths.value.scratch
        if path != "/"
    ):
        return
    kept = ", ".join(profile.facts.paths.value.durable)
    yield Warning(
        LOST.get(profile.name, LOST[""]),
        f"no durable place: what the box holds ends with it. Set durable.to{f' (here: {kept})' if kept else ''} and durable.what.",
    )


def _resume(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.checkpoint is None:
        yield Warning(
            "C3",
            "no checkpoint folder: after any kill the run starts from nothing, and a torn file isn't noticed. Set checkpoint.folder and checkpoint.pattern.",
        )
    elif job.resume == "none":
        yield Warning(
            "C3",
            "resume is none: each start begins at step 0. Name the flag or variable, or automatic if the program finds its newest checkpoint itself.",
        )


def _deadline(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    most = job.slurm.most_hours if target == "slurm" else profile.facts.limits.value.most_hours
    if (
        most is not None
        and job.hours is not None
        and job.hours > most
        and not (target == "slurm" and job.slurm.requeue)
    ):
        yield Warning(
            ENDED.get(profile.name, ENDED[""]),
            f"the deadline of {job.hours:g} h lies beyond the limit of {most:g} h here: the box ends first, so save often and plan to resume.",
        )
    if (
        job.budget
        and job.price
        and job.hours is not None
        and (cost := job.hours * job.price * job.nodes) > job.budget
    ):
        yield Warning(
            BILLED.get(profile.name, BILLED[""]),
            f"{job.hours:g} h × {job.price:g} × {job.nodes} = {cost:g}, the budget is {job.budget:g}: it is spent after {job.budget / job.price / job.nodes:.1f} h.",
        )


def _meter(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if profile.kind not in ("rental", "unnamed"):
        return
    line, _ = self_stop(job, profile)
    if job.at_end.do == "stop" and not line:
        fact = profile.facts.self_stop
        why = (
            "no stop that is known to keep the disk" if fact is None or not fact.value.possible or fact.value.keeps_disk is not True
            else "its command asks for the box's id: set at_end.box_id"
        )  # fmt: skip
        yield Warning(
            BILLED.get(profile.name, BILLED[""]),
            f"the box can't stop itself ({why}): at the deadline only the alarm goes out{'' if job.notify else ', and no notify command is set'}.",
        )
    elif job.at_end.do == "keep":
        told = (
            "the notify command calls you"
            if job.notify
            else "nobody is told: set notify, or at_end.do: stop"
        )
        yield Warning(
            BILLED.get(profile.name, BILLED[""]),
            f"the box goes on being billed after the end and after the deadline; {told}.",
        )


def _notice(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    fact = profile.facts.preemption
    if fact is None or not fact.value.possible or job.checkpoint is None:
        return
    save, notice, every = (
        job.checkpoint.save_seconds,
        fact.value.notice_seconds,
        job.checkpoint.every_minutes,
    )
    if notice is not None and save > notice:
        yield Warning(
            TAKEN.get(profile.name, TAKEN[""]),
            f"a save takes {save:g} s and the notice is {notice:g} s: only the periodic checkpoints count.",
        )
    if job.hours_between_kills and every:
        best = between_saves(save, job.hours_between_kills, job.nodes).daly / 60
        if every > 2 * best or every < best / 3:
            yield Warning(
                TAKEN.get(profile.name, TAKEN[""]),
                f"saving every {every:g} min; {best:.0f} min loses least at one kill in {job.hours_between_kills:g} h and {save:g} s a save.",
            )
    if job.durable and every and job.durable.every_minutes > 4 * every and profile.kind == "rental":
        yield Warning(
            LOST.get(profile.name, LOST[""]),
            f"checkpoints every {every:g} min are copied away every {job.durable.every_minutes:g} min only: that much is lost with the box.",
        )


def _queue(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if job.queue and any("{cell}" not in path for path in job.results):
        yield Warning(
            "job.results",
            "results without {cell}: one cell's file makes the next one look finished. Write results: [out/{cell}/final.pt].",
        )


def _target(job: Job, profile: Profile, target: str) -> Iterator[Warning]:
    if target == "kubernetes" and job.code:
        yield Warning(
            "K8S3",
            "the code isn't sent to a cluster: build it into the image, or copy it onto the claim.",
        )
    if target == "kubernetes" and not (job.kubernetes and job.kubernetes.claim):
        yield Warning("C4", "no kubernetes.claim: logs, markers and checkpoints end with the pod.")
    if target == "ssh" and not profile.facts.ssh.value.full and job.code:
        yield Warning(
            "RP6",
            f"ssh isn't a full one there ({profile.facts.ssh.value.limits[:120]}): rsync of the code may fail.",
        )
    if target == "skypilot" and job.skypilot.spot and job.hours is not None:
        yield Warning(
            "GEN1",
            f"SkyPilot moves a spot task to a new box, where {job.hours:g} h begin anew: give the deadline as a time, such as 2026-11-22T09:00Z.",
        )
    if target == "skypilot" and job.skypilot.spot and not job.durable:
        yield Warning(
            "C4",
            "spot without a durable place: SkyPilot starts the job again on another machine, without the files.",
        )


def _stale(job: Job, profile: Profile, on: date) -> Iterator[Warning]:
    for name in USED:
        fact = getattr(profile.facts, name)
        if fact is None or (name == "self_stop" and job.at_end.do != "stop"):
            continue
        if against := mark(fact, on):
            yield Warning(
                f"{profile.name}.{name}",
                f"{against.partition(', the limit')[0]}; its source: profile://{profile.name}",
            )


RISKS: tuple[Callable[[Job, Profile, str], Iterator[Warning]], ...] = (
    _durable,
    _resume,
    _deadline,
    _meter,
    _notice,
    _queue,
    _target,
)
