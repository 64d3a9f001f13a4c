"""Slurm: further options of sbatch that a job may name. Pure.

A `#SBATCH` line knows no quoting, so a value is one plain word or is refused. Whether there is such
an option, and whether it takes the value, sbatch says when the job is handed in.
"""

from __future__ import annotations

import re

_OPTION = re.compile(r"[a-z][a-z0-9-]{1,39}")
_WORD = re.compile(r"[\w(\[!*-][\w.:@&|/()\[\]*,+=?!-]{0,254}", re.ASCII)

# Options that a job says otherwise, or that would break what this package relies on: what says it.
OURS = {
    "account": "slurm.account",
    "array": "queue",
    "chdir": "run_dir",
    "constraint": "slurm.constraint",
    "cpus-per-task": "slurm.cpus",
    "deadline": "deadline",
    "dependency": "slurm.dependency",
    "error": "run_dir, which holds all logs",
    "exclude": "slurm.exclude",
    "exclusive": "slurm.exclusive",
    "export": "variables",
    "export-file": "variables",
    "get-user-env": "setup",
    "gpus": "gpus",
    "gpus-per-node": "gpus",
    "gpus-per-socket": "gpus",
    "gpus-per-task": "gpus",
    "gres": "gpus and slurm.gpu_type",
    "input": "data",
    "job-name": "name",
    "mem": "slurm.memory_gb",
    "no-requeue": "slurm.requeue",
    "nodelist": "slurm.nodelist",
    "nodes": "nodes",
    "ntasks": "processes and launcher",
    "ntasks-per-gpu": "processes and launcher",
    "ntasks-per-node": "processes and launcher",
    "open-mode": "run_dir, which holds all logs",
    "output": "run_dir, which holds all logs",
    "partition": "slurm.partition",
    "qos": "slurm.qos",
    "requeue": "slurm.requeue",
    "reservation": "slurm.reservation",
    "signal": "slurm.signal_seconds",
    "time": "deadline and slurm.most_hours",
    "time-min": "deadline and slurm.most_hours",
    "wrap": "command",
}
# Two options of which sbatch takes one: the option, the field of `slurm` that says the other.
_EITHER = (
    ("cpus-per-gpu", "cpus"),
    ("mem-per-cpu", "memory_gb"),
    ("mem-per-gpu", "memory_gb"),
)


def check(name: str, value: str | bool) -> None:
    """Raise ValueError for an option that the job says otherwise, also where its name is cut short,
    as sbatch takes it, and for a value that is more than one plain word.

    An option without a value has True; one with False is left out.
    """
    if not _OPTION.fullmatch(name):
        raise ValueError(
            f"must have the names of sbatch's manual without the two dashes, not {name[:60]!r}; "
            "rename it"
        )
    if ours := next((option for option in OURS if option.startswith(name)), ""):
        raise ValueError(f"--{ours} is said by {OURS[ours]}; set that")
    if isinstance(value, str) and not _WORD.fullmatch(value):
        raise ValueError(
            f"must be a value of --{name} without blanks and quotes; write it as in sbatch's manual"
        )


def check_together(names: set[str], given: set[str]) -> None:
    """Raises ValueError for two options that exclude each other.

    `names`: of the options; `given`: the fields of `slurm` that say something.
    """
    for option, field in _EITHER:
        if option in names and field in given:
            raise ValueError(f"sbatch takes either --{option} or slurm.{field}; leave out one")
    if {"mem-per-cpu", "mem-per-gpu"} <= names:
        raise ValueError("sbatch takes either --mem-per-cpu or --mem-per-gpu; leave out one")
