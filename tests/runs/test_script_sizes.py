"""How long a script gets: six jobs, each with the parts that it needs. `pytest -s` prints the table."""

from datetime import date

import pytest
from remote_gpu_trainer.platforms import profile
from remote_gpu_trainer.runs.job_reading import from_object
from remote_gpu_trainer.runs.render import render

KEPT = {"checkpoint": {"folder": "out/ckpt", "pattern": "step_*.pt"}, "results": ["out/final.pt"]}
TORCHRUN = {
    "command": ["train.py"], "gpus": 8, "launcher": "torchrun", "durable": {"to": "rclone:keep:runs/a", "what": ["out"]},
    "secrets": {"WANDB_API_KEY": {"variable": "WANDB_API_KEY"}}, "notify": ["curl", "-d", "@-", "https://example.org"], "resume": {"flag": "--resume"},
}  # fmt: skip
QUEUE = {
    "gpus": 2,
    "results": ["out/{cell}/f"],
    "queue": {"slots": 2, "cells": [{"name": "x"}, {"name": "y"}]},
}
# Fields, platform, target, and the most bytes. A limit is raised with a reason only. Last: the first
# failure told instead of its retry's, a run that ends early, at nan or without its last copy, a
# resume that a checkpoint fails, rehearsals that save among the run's checkpoints, and, for
# torchrun, secrets masked in the log; rehearsals that use the probe. The first job's limit stays.
JOBS = {
    "CPU without copies": ({"gpus": 0}, "local", "local", 60_000),
    "1 GPU without copies": ({**KEPT, "gpus": 1}, "runpod", "ssh", 105_550),
    "torchrun, 8 GPUs, rclone": ({**KEPT, **TORCHRUN}, "vastai", "ssh", 133_050),
    "queue": ({**KEPT, **QUEUE}, "local", "local", 136_000),
    "Slurm with requeue": ({**KEPT, "gpus": 1, "slurm": {"most_hours": 1}}, "slurm", "slurm", 105_800),
    "Kubernetes": ({**KEPT, "gpus": 1, "kubernetes": {"image": "a", "claim": "work"}}, "kubernetes", "kubernetes", 116_100),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_a_script_holds_no_more_than_its_job_needs(name):
    fields, platform, target, most = JOBS[name]
    job = from_object({"name": "a", "command": ["python", "train.py"], "deadline": "2h", **fields})
    size = len(render(job, profile.get(platform), target, date(2026, 8, 25)).script.encode())
    print(f"{name:26} {size:8,}")
    assert size <= most
