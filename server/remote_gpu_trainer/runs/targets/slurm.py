"""Slurm: the `#SBATCH` lines of a run script. Pure.

What runs under sbatch, on one node, on several, and in an array, is runner/slurm.sh.
"""

from __future__ import annotations

import math

from ...runner.spec import SAVE_SECONDS
from ..job import Job
from ..rendered import Unfit

_MARGIN_MINUTES = 5  # from the runner's deadline to Slurm's time limit


def check(job: Job) -> None:
    """Raises Unfit for a job that Slurm can't run so."""
    wanted = job.slurm
    if job.hours is None:
        raise Unfit(
            "deadline: a Slurm job waits in the queue first, so a time of day doesn't work; write "
            "a span such as 20h"
        )
    if wanted.gpu_type and not job.gpus:
        raise Unfit("slurm.gpu_type: must be left out where gpus is 0; set gpus")
    save = math.ceil(job.checkpoint.save_seconds if job.checkpoint else SAVE_SECONDS)
    if save > wanted.signal_seconds:
        raise Unfit(
            f"slurm.signal_seconds: must be at least {save}, the time of a save, not "
            f"{wanted.signal_seconds}; let Slurm send its signal earlier"
        )
    limit = minutes(job)
    if limit is not None and limit * 60 < wanted.signal_seconds + 60:
        raise Unfit(
            "slurm.signal_seconds: must be at least a minute less than the time limit of "
            f"{limit} min, not {wanted.signal_seconds}; ask for more time or save faster"
        )


def minutes(job: Job) -> int | None:
    """Return the minutes for `--time`, None for the partition's own limit.

    It is the deadline with a margin, so that the runner's own deadline comes first, but at most the
    partition's limit.
    """
    limit, signal = job.slurm.most_hours, job.slurm.signal_seconds
    given = [math.floor(limit * 60)] if limit is not None else []
    if job.hours is not None:
        given.append(math.ceil(job.hours * 60) + math.ceil(signal / 60) + _MARGIN_MINUTES)
    return max(1, min(given)) if given else None


def head(job: Job) -> str:
    """Return the `#SBATCH` lines, in a fixed order. Raises Unfit.

    sbatch reads them only before the first line that is no comment, and knows no quoting: the job
    refuses each value that isn't one plain word.
    """
    check(job)
    wanted, cells = job.slurm, len(job.queue.cells) if job.queue else 0
    at_once = f"%{wanted.at_a_time}" if wanted.at_a_time else ""
    values = {
        "job-name": job.name,
        "nodes": job.nodes,
        "ntasks-per-node": 1,
        "gres": ":".join(filter(None, ("gpu", wanted.gpu_type, str(job.gpus))))
        if wanted.gres and job.gpus
        else None,
        "cpus-per-task": wanted.cpus,
        "mem": f"{wanted.memory_gb * 1024}M" if wanted.memory_gb else wanted.memory_gb,
        "time": _time(minutes(job)),
        "partition": wanted.partition,
        "account": wanted.account,
        "qos": wanted.qos,
        "constraint": wanted.constraint,
        "exclude": wanted.exclude,
        "nodelist": wanted.nodelist,
        "dependency": wanted.dependency,
        "reservation": wanted.reservation,
        "exclusive": wanted.exclusive,
        **dict(sorted(wanted.options.items())),
        "array": f"0-{cells - 1}{at_once}" if cells else None,
        "requeue" if wanted.requeue else "no-requeue": True,
        "open-mode": "append",
        "signal": f"B:USR1@{wanted.signal_seconds}",
        "output": "slurm-%A_%a.out" if cells else "slurm-%j.out",
    }
    return "".join(
        f"#SBATCH --{name}\n" if value is True else f"#SBATCH --{name}={value}\n"
        for name, value in values.items()
        if value is not None and value is not False
    )


def _time(limit: int | None) -> str | None:
    if limit is None:
        return None
    days, rest = divmod(limit, 24 * 60)
    return f"{days}-{rest // 60:02}:{rest % 60:02}:00"
