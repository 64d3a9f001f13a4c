"""A job as the options that Slurm, Kubernetes and SkyPilot take. Pure."""

from __future__ import annotations

import re

from .job import Job
from .job_text import Unfit
from .targets import kubernetes, skypilot, slurm

SECRETS = "{name}-secrets"  # the Kubernetes Secret with the keys that the job's secrets name


def for_slurm(job: Job) -> slurm.Options:
    """What the sbatch head needs. Raises Unfit and ValueError."""
    if job.hours is None:
        raise Unfit(
            "deadline: a Slurm job waits in the queue first, so a time of day doesn't work; write "
            "a span such as 20h"
        )
    wanted = job.slurm
    if wanted.gpu_type and not wanted.gres:
        raise Unfit("slurm.gpu_type: it stands in the --gres line, which gres: false leaves out")
    return slurm.Options(
        name=job.name,
        hours=job.hours,
        nodes=job.nodes,
        gpus=job.gpus if wanted.gres else 0,
        gpu_type=wanted.gpu_type or "",
        cpus=wanted.cpus or 0,
        memory_mb=None if wanted.memory_gb is None else wanted.memory_gb * 1024,
        limit_hours=wanted.most_hours,
        partition=wanted.partition or "",
        account=wanted.account or "",
        qos=wanted.qos or "",
        constraint=wanted.constraint or "",
        exclude=wanted.exclude or "",
        nodelist=wanted.nodelist or "",
        dependency=wanted.dependency or "",
        reservation=wanted.reservation or "",
        exclusive=wanted.exclusive,
        options=_sbatch_options(wanted.options),
        cells=len(job.queue.cells) if job.queue else 0,
        at_once=wanted.at_a_time or 0,
        requeue=wanted.requeue,
        signal_seconds=wanted.signal_seconds,
    )


def _sbatch_options(given: dict[str, str | bool]) -> tuple[tuple[str, str], ...]:
    """The pairs in the order of their names; a flag that is false is left out."""
    pairs = {name: "true" if value is True else value for name, value in given.items()}
    return tuple((name, str(value)) for name, value in sorted(pairs.items()) if value is not False)


def for_kubernetes(job: Job) -> kubernetes.Options:
    """What the Kubernetes objects need. Raises Unfit and ValueError."""
    wanted = job.kubernetes
    if wanted is None:
        raise Unfit(
            "kubernetes: missing; set kubernetes.image, and kubernetes.claim if anything is to "
            "outlive the pod"
        )
    return kubernetes.Options(
        name=job.name,
        image=wanted.image,
        hours=job.hours,
        gpus=job.gpus,
        nodes=job.nodes,
        boxes=job.boxes,
        claim=wanted.claim or "",
        mount=wanted.mount,
        namespace=wanted.namespace or "",
        secret=SECRETS.format(name=job.name) if job.secrets else "",
        shm_gb=wanted.shm_gb,
        cpus=wanted.cpus or 0,
        memory_gb=wanted.memory_gb or 0,
        node_selector=tuple(sorted(wanted.node_selector.items())),
        labels=tuple(sorted(wanted.labels.items())),
        annotations=tuple(sorted(wanted.annotations.items())),
        resources=tuple(sorted(wanted.resources.items())),
        tolerations=tuple(
            kubernetes.Toleration(one.key or "", one.value or "", one.effect or "")
            for one in wanted.tolerations
        ),
        priority_class=wanted.priority_class or "",
        host_network=wanted.host_network,
    )


def for_skypilot(job: Job) -> skypilot.Options:
    """What the SkyPilot task needs. Raises Unfit and ValueError."""
    wanted = job.skypilot
    if job.gpus and not wanted.accelerator:
        raise Unfit("skypilot.accelerator: missing; name a GPU such as H100, or set gpus: 0")
    return skypilot.Options(
        name=job.name,
        gpus=job.gpus,
        accelerator=wanted.accelerator or "",
        nodes=job.nodes,
        infra=wanted.infra or "",
        spot=wanted.spot,
        managed=job.is_managed,
        boxes=job.boxes,
        disk_gb=wanted.disk_gb or 0,
        cpus=wanted.cpus or 0,
        memory_gb=wanted.memory_gb or 0,
        image=wanted.image or "",
        workdir=job.code or "",
        region=wanted.region or "",
        zone=wanted.zone or "",
        file_mounts=tuple(sorted(wanted.file_mounts.items())),
        # SkyPilot gives it to `bash -i`, which replaces `!`.
        setup="".join(f"{line}\n" for line in ("set +H", *wanted.setup)) if wanted.setup else "",
    )


def field_of(message: str) -> str:
    """A target's refusal, with the field as the job names it."""
    renamed = {
        "hours": "deadline",
        "limit_hours": "slurm.most_hours",
        "memory_mb": "slurm.memory_gb",
        "at_once": "slurm.at_a_time",
        "options": "slurm.options",
        "resources": "kubernetes.resources",
        "region": "skypilot.region",
        "cells": "queue.cells",
    }
    return re.sub(r"^(\w+):", lambda found: renamed.get(found[1], found[1]) + ":", message)
