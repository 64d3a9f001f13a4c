"""What an engine needs beside the runner's variables, taken from the job. Each target refuses what its own files can't hold. Pure."""

from __future__ import annotations

import re

from .job import Job
from .runner_values import Unfit
from .targets import kubernetes, skypilot, slurm

SECRETS = "{name}-secrets"  # the Kubernetes Secret that holds what the job's secrets name


def for_slurm(job: Job) -> slurm.Options:
    """Raises Unfit and ValueError."""
    if job.hours is None:
        raise Unfit(
            "deadline: found a time of day, expected a span such as 20h for Slurm: the job waits in the queue first"
        )
    wanted = job.slurm
    return slurm.Options(
        name=job.name, hours=job.hours, nodes=job.nodes, gpus=job.gpus, gpu_type=wanted.gpu_type or "", cpus=wanted.cpus or 0, memory_mb=(wanted.memory_gb or 0) * 1024,
        limit_hours=wanted.most_hours, partition=wanted.partition or "", account=wanted.account or "", qos=wanted.qos or "", cells=len(job.queue.cells) if job.queue else 0,
        at_once=wanted.at_a_time or 0, requeue=wanted.requeue, signal_seconds=wanted.signal_seconds,
    )  # fmt: skip


def for_kubernetes(job: Job) -> kubernetes.Options:
    """Raises Unfit and ValueError."""
    wanted = job.kubernetes
    if wanted is None:
        raise Unfit(
            "kubernetes: found nothing, expected at least kubernetes.image, and kubernetes.claim to keep anything"
        )
    return kubernetes.Options(
        name=job.name, image=wanted.image, hours=job.hours, gpus=job.gpus, nodes=job.nodes, claim=wanted.claim or "", mount=wanted.mount, namespace=wanted.namespace or "",
        secret=SECRETS.format(name=job.name) if job.secrets else "", shm_gb=wanted.shm_gb, cpus=wanted.cpus or 0, memory_gb=wanted.memory_gb or 0,
        node_selector=tuple(sorted(wanted.node_selector.items())),
    )  # fmt: skip


def for_skypilot(job: Job) -> skypilot.Options:
    """Raises Unfit and ValueError."""
    wanted = job.skypilot
    if job.gpus and not wanted.accelerator:
        raise Unfit(
            "skypilot.accelerator: found nothing, expected the name of a GPU such as H100, or gpus: 0"
        )
    return skypilot.Options(
        name=job.name, gpus=job.gpus, accelerator=wanted.accelerator or "", nodes=job.nodes, infra=wanted.infra or "", spot=wanted.spot, disk_gb=wanted.disk_gb or 0,
        image=wanted.image or "", workdir=job.code or "",
    )  # fmt: skip


def folders(job: Job, target: str) -> tuple[str, str]:
    """(run folder, work folder) on the box. Where code comes with the image or by SkyPilot, the command runs there."""
    run = job.run_dir or (
        f"{job.kubernetes.mount.rstrip('/')}/runs/{job.name}"
        if target == "kubernetes" and job.kubernetes and job.kubernetes.claim
        else f"~/runs/{job.name}"
    )
    if target == "kubernetes":
        return run, "."
    if target == "skypilot" and job.code:
        return run, "~/sky_workdir"
    return run, f"{run}/code" if job.code else run


def field_of(message: str) -> str:
    """A target's refusal in the words of the job: its own field names differ in a few places."""
    renamed = {
        "hours": "deadline",
        "limit_hours": "slurm.most_hours",
        "memory_mb": "slurm.memory_gb",
        "at_once": "slurm.at_a_time",
        "cells": "queue.cells",
    }
    return re.sub(r"^(\w+):", lambda found: renamed.get(found[1], found[1]) + ":", message)
