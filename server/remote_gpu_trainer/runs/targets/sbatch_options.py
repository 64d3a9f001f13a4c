"""Slurm: further options of sbatch that a job may name, each with the form of its value. Pure.

A `#SBATCH` line knows no quoting, so a value has its option's form or is refused. The names are
those of sbatch's manual (22.05 and newer), without the two dashes.
"""

from __future__ import annotations

from .. import targets

_NUMBER = r"[1-9][0-9]{0,8}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_NAMES = rf"{_NAME}(,{_NAME}){{0,31}}"
_SIZE = r"[1-9][0-9]{0,11}[KMGT]?"
_FEATURES = r"[A-Za-z0-9(\[!][A-Za-z0-9._&|()\[\]*,:-]{0,127}"
_FREQUENCY = r"([0-9]{1,6}|low|medium|high|highm1)"
_PART_OF_DAY = r"[0-2]?[0-9]:[0-5][0-9](:[0-5][0-9])?"
_SPREAD = r"(\*|block|cyclic|fcyclic)"
_MAIL = (
    r"(NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(_[589]0)?|ARRAY_TASKS)"
)
_DEPENDENCY = (
    r"((after|afterok|afterany|afternotok|aftercorr|afterburstbuffer)"
    r"(:[1-9][0-9]{0,9}(_([0-9]{1,7}|\*))?(\+[0-9]{1,6})?){1,20}|singleton)"
)
FLAG = "true"  # the form of an option without a value

# What these say has a field of its own in the job; the forms are checked by that field.
CONSTRAINT, HOSTS = _FEATURES, r"[A-Za-z0-9][A-Za-z0-9._,\[\]-]{0,1023}"
DEPENDENCY = rf"{_DEPENDENCY}([,?]{_DEPENDENCY}){{0,15}}"
RESERVATIONS = PARTITIONS = _NAMES

FORMS = {
    "acctg-freq": r"(task|energy|network|filesystem)=[0-9]{1,5}"
    r"(,(task|energy|network|filesystem)=[0-9]{1,5}){0,3}",
    "batch": _FEATURES,
    "begin": rf"(now(\+{_NUMBER}(seconds|minutes|hours|days|weeks)?)?|midnight|noon|{_PART_OF_DAY}"
    rf"|20[0-9]{{2}}-[0-1][0-9]-[0-3][0-9](T{_PART_OF_DAY})?)",
    "cluster-constraint": rf"!?{_NAMES}",
    "clusters": _NAMES,
    "comment": r"[A-Za-z0-9][A-Za-z0-9._:@/+=,-]{0,254}",
    "contiguous": FLAG,
    "core-spec": _NUMBER,
    "cores-per-socket": _NUMBER,
    "cpu-freq": r"[A-Za-z0-9]{1,16}(-[A-Za-z0-9]{1,16})?(:[A-Za-z]{1,16})?",
    "cpus-per-gpu": _NUMBER,
    "delay-boot": _NUMBER,
    "distribution": rf"({_SPREAD}|arbitrary|plane={_NUMBER})(:{_SPREAD}){{0,2}}(,(No)?Pack)?",
    "gpu-bind": r"(verbose,)?(closest|none|single:[1-9][0-9]?|per_task:[1-9][0-9]?"
    r"|(map_gpu|mask_gpu):[0-9A-Fa-fx*,-]{1,128})",
    "gpu-freq": rf"(memory=)?{_FREQUENCY}(,memory={_FREQUENCY})?(,verbose)?",
    "gres-flags": r"(disable-binding|enforce-binding)",
    "hint": r"(compute_bound|memory_bound|nomultithread|multithread)",
    "kill-on-invalid-dep": r"(yes|no)",
    "licenses": rf"{_NAME}(@{_NAME})?(:{_NUMBER})?([,|]{_NAME}(@{_NAME})?(:{_NUMBER})?){{0,15}}",
    "mail-type": rf"{_MAIL}(,{_MAIL}){{0,9}}",
    "mail-user": r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,127})?",
    "mcs-label": _NAME,
    "mem-bind": r"((quiet|verbose),)?(none|local|rank|sort|prefer)",
    "mem-per-cpu": _SIZE,
    "mem-per-gpu": _SIZE,
    "mincpus": _NUMBER,
    "network": r"[A-Za-z0-9][A-Za-z0-9._=,:-]{0,127}",
    "nice": r"-?[0-9]{1,10}",
    "oversubscribe": FLAG,
    "prefer": _FEATURES,
    "priority": r"([0-9]{1,10}|TOP)",
    "profile": r"(all|none|(energy|task|lustre|network)(,(energy|task|lustre|network)){0,3})",
    "propagate": r"(ALL|NONE|[A-Z]{2,10}(,[A-Z]{2,10}){0,9})",
    "reboot": FLAG,
    "sockets-per-node": _NUMBER,
    "spread-job": FLAG,
    "switches": r"[1-9][0-9]{0,3}(@([0-9]{1,2}-)?[0-9]{1,4}(:[0-5][0-9]){0,2})?",
    "thread-spec": _NUMBER,
    "threads-per-core": _NUMBER,
    "tmp": _SIZE,
    "use-min-nodes": FLAG,
    "wait-all-nodes": r"[01]",
    "wckey": _NAME,
}  # fmt: skip

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
# Two options of which sbatch takes one: the option, the field that says the other.
_EITHER = (
    ("cpus-per-gpu", "cpus"),
    ("mem-per-cpu", "memory_mb"),
    ("mem-per-gpu", "memory_mb"),
)
_JOB_FIELDS = {"cpus": "slurm.cpus", "memory_mb": "slurm.memory_gb"}


def check(name: str, value: str) -> None:
    """Raises ValueError for an option that isn't in the list, and for a value not in its form.

    A flag has the value "true".
    """
    if name in OURS:
        raise ValueError(f"options: --{name} is said by {OURS[name]}; set that")
    if name not in FORMS:
        raise targets.refuse(
            "options",
            name,
            "an option of sbatch that this list knows",
            f"use one of {', '.join(FORMS)}",
        )
    do = "write `true`" if FORMS[name] == FLAG else "write it as in sbatch's manual"
    targets.matched(
        "options", value, FORMS[name], f"a value of --{name} without blanks and quotes", do
    )


def check_together(names: set[str], given: set[str]) -> None:
    """Raises ValueError for two options that exclude each other.

    `names`: of the options; `given`: the fields of Options that say something.
    """
    for option, field in _EITHER:
        if option in names and field in given:
            raise ValueError(
                f"options: sbatch takes either --{option} or {_JOB_FIELDS[field]}; leave out one"
            )
    if {"mem-per-cpu", "mem-per-gpu"} <= names:
        raise ValueError(
            "options: sbatch takes either --mem-per-cpu or --mem-per-gpu; leave out one"
        )
