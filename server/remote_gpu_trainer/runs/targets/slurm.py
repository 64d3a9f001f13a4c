"""Slurm: the `#SBATCH` lines of a run script. Pure.

What runs under sbatch, on one node, on several, and in an array, is runner/slurm.sh.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Template

from .. import shell_text, targets
from . import sbatch_options

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ACCOUNT = r"[A-Za-z0-9][A-Za-z0-9@._-]{0,63}"  # some sites add @gpu
_FILE = r"[A-Za-z0-9%_./-]{1,255}"
_WORD_SAYS = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
_SIGNAL_LIMIT = 65535  # sbatch's own, man sbatch --signal
_MARGIN_MINUTES = 5  # from the runner's deadline to Slurm's time limit

# Values of several parts: the form, what it is in words, what to do.
_LISTS = {
    "partition": (
        sbatch_options.PARTITIONS,
        "the name of a partition, or several with ',' between them",
        "write them as `sinfo` shows them",
    ),
    "constraint": (
        sbatch_options.CONSTRAINT,
        "features joined by '&', '|' or in brackets",
        "write them as `sinfo -o %f` shows them",
    ),
    "exclude": (sbatch_options.HOSTS, "names of nodes, such as n[01-04,7]", "look at `sinfo -N`"),
    "nodelist": (sbatch_options.HOSTS, "names of nodes, such as n[01-04,7]", "look at `sinfo -N`"),
    "dependency": (
        sbatch_options.DEPENDENCY,
        "such as afterok:123 or singleton",
        "take the numbers from `squeue --me`",
    ),
    "reservation": (
        sbatch_options.RESERVATIONS,
        "the name of a reservation",
        "look at `scontrol show reservation`",
    ),
}


@dataclass(frozen=True)
class Options:
    """What only Slurm needs.

    `#SBATCH` lines know no shell quoting, so each value has a strict form.

    `hours` is the deadline (None: a time of day), `limit_hours` the partition's limit (None: none).
    GPUs, cpus and memory are for one node; 0, '' and None leave the choice to Slurm. A memory of 0
    is all that a node has. `options`: (name, value) pairs of sbatch_options.FORMS. `cells` above 0
    makes an array, `at_once` of it at the same time (0: all). `output` is a file name in Slurm's
    pattern; its folder must exist.

    Raises ValueError that names the field.
    """

    name: str
    hours: float | None
    nodes: int = 1
    gpus: int = 0
    gpu_type: str = ""
    cpus: int = 0
    memory_mb: int | None = None
    limit_hours: float | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    exclude: str = ""
    nodelist: str = ""
    dependency: str = ""
    reservation: str = ""
    exclusive: bool = False
    options: tuple[tuple[str, str], ...] = ()
    cells: int = 0
    at_once: int = 0
    requeue: bool = False
    signal_seconds: int = 120
    output: str = ""

    def __post_init__(self) -> None:
        targets.matched("name", self.name, _WORD, _WORD_SAYS, "choose another name")
        targets.hours("hours", self.hours, "give the job a deadline")
        targets.hours("limit_hours", self.limit_hours, "look at the TIMELIMIT of `sinfo`")
        targets.whole("nodes", self.nodes, 1, 10_000, "look at `sinfo`")
        targets.whole("gpus", self.gpus, 0, 64, "give the GPUs of one node")
        targets.whole("cpus", self.cpus, 0, 4096, "give the cores of one node, or 0")
        if self.memory_mb is not None:
            do = "give the memory of one node in MB, or 0 for all of it"
            targets.whole("memory_mb", self.memory_mb, 0, 100_000_000, do)
        for field in ("gpu_type", "account", "qos"):
            if getattr(self, field) != "":
                targets.matched(
                    field,
                    getattr(self, field),
                    _ACCOUNT if field == "account" else _WORD,
                    _WORD_SAYS,
                    "write it as `sinfo` or `sacctmgr` shows it",
                )
        for field, (form, says, do) in _LISTS.items():
            if getattr(self, field) != "":
                targets.matched(field, getattr(self, field), form, says, do)
        for name, value in self.options:
            sbatch_options.check(name, value)
        given = {"cpus"} if self.cpus else set()
        if self.memory_mb is not None:
            given.add("memory_mb")
        sbatch_options.check_together({name for name, _ in self.options}, given)
        if self.gpu_type and not self.gpus:
            raise targets.refuse("gpu_type", self.gpu_type, "empty if gpus is 0", "set gpus")
        targets.whole(
            "cells", self.cells, 0, 1_000_000, "give the number of lines of the queue, or 0"
        )
        targets.whole(
            "at_once",
            self.at_once,
            0,
            1_000_000,
            "give how many cells may run at the same time, or 0",
        )
        if self.cells and self.nodes > 1:
            raise targets.refuse(
                "nodes",
                self.nodes,
                "1 for a queue of cells",
                "run cells on one node each, or a job without a queue",
            )
        targets.whole(
            "signal_seconds",
            self.signal_seconds,
            1,
            _SIGNAL_LIMIT,
            "give the seconds that a save needs",
        )
        if self.minutes is not None and self.minutes * 60 < self.signal_seconds + 60:
            raise targets.refuse(
                "signal_seconds",
                self.signal_seconds,
                f"at least a minute less than the time limit of {self.minutes} min",
                "ask for more time or save faster",
            )
        if self.output:
            targets.matched(
                "output",
                self.output,
                _FILE,
                "a path of letters, digits and % _ . / -",
                "choose another path",
            )

    @property
    def minutes(self) -> int | None:
        """Return the minutes for `--time`, None for the partition's own limit.

        It is the deadline with a margin, so that the runner's own deadline comes first, but at most
        the partition's limit.
        """
        given = [math.floor(self.limit_hours * 60)] if self.limit_hours is not None else []
        if self.hours is not None:
            given.append(
                math.ceil(self.hours * 60) + math.ceil(self.signal_seconds / 60) + _MARGIN_MINUTES
            )
        return max(1, min(given)) if given else None


# The form of each option's value. sbatch knows no quoting, so anything else is refused.
_NUMBER = r"[1-9][0-9]{0,8}"
_FORMS = {
    "name": _WORD,
    "nodes": _NUMBER,
    "gres": rf"gpu(:{_WORD})?:{_NUMBER}",
    "cpus": _NUMBER,
    "memory_mb": rf"({_NUMBER}M|0)",
    "hours": r"[0-9]{1,3}-[0-9]{2}:[0-9]{2}:00",
    "account": _ACCOUNT,
    "qos": _WORD,
    **{field: form for field, (form, _, _) in _LISTS.items()},
    "cells": rf"0-[0-9]{{1,7}}(%{_NUMBER})?",
    "signal_seconds": _NUMBER,
    "output": _FILE,
}


class _Fits(str):
    """A value in the form that its option takes."""


def _only_fitting(value: object) -> str:
    if not isinstance(value, _Fits):
        raise TypeError(
            f"found {type(value).__name__} in sbatch.j2, expected a value in its option's form"
        )
    return str(value)


@lru_cache(maxsize=1)
def _template() -> Template:
    return shell_text.environment(_only_fitting).get_template("sbatch.j2")


def head(options: Options) -> str:
    """The `#SBATCH` lines, in a fixed order. Raises ValueError that names the field.

    sbatch reads them only before the first line that is no comment.
    """
    days, rest = divmod(options.minutes or 0, 24 * 60)
    gpu = f"gpu:{options.gpu_type}:{options.gpus}" if options.gpu_type else f"gpu:{options.gpus}"
    at_once = f"%{options.at_once}" if options.at_once else ""
    values = {
        "name": options.name,
        "nodes": options.nodes,
        "gres": gpu if options.gpus else "",
        "cpus": options.cpus or "",
        "memory_mb": _memory(options.memory_mb),
        "hours": f"{days}-{rest // 60:02}:{rest % 60:02}:00" if options.minutes else "",
        "account": options.account,
        "qos": options.qos,
        **{field: getattr(options, field) for field in _LISTS},
        "cells": f"0-{options.cells - 1}{at_once}" if options.cells else "",
        "signal_seconds": options.signal_seconds,
        "output": options.output or ("slurm-%A_%a.out" if options.cells else "slurm-%j.out"),
    }
    for field, value in values.items():
        if value != "":
            targets.matched(
                field,
                str(value),
                _FORMS[field],
                "in the form that sbatch accepts",
                "write it as in sbatch's manual",
            )
    for name, value in options.options:
        sbatch_options.check(name, value)
    more = [
        (_Fits(name), _Fits("" if sbatch_options.FORMS[name] == sbatch_options.FLAG else value))
        for name, value in options.options
    ]
    lines = {field: _Fits(value) for field, value in values.items()}
    return _template().render(
        lines, requeue=options.requeue, exclusive=options.exclusive, options=more
    )


def _memory(memory_mb: int | None) -> str:
    """The value of --mem, '' for none. 0 stays: all memory of the node."""
    if memory_mb is None:
        return ""
    return f"{memory_mb}M" if memory_mb else "0"


def check(spec: Mapping[str, Any], options: Options) -> None:
    """Raises ValueError where Slurm's signal would come too late for a save."""
    save = math.ceil(spec["save_seconds"])
    if save > options.signal_seconds:
        raise targets.refuse(
            "signal_seconds",
            options.signal_seconds,
            f"at least {save}, the time of a save",
            "let Slurm send its signal earlier",
        )
