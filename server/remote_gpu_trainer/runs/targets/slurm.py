"""Slurm: the `#SBATCH` lines, and the bash that hands over to the runner under sbatch. Pure.

One node: the batch script is the runner's own shell, so USR1 (`--signal=B:`) and TERM reach its traps.
Several nodes: the batch script copies itself to the run folder, which must lie on a file system that every node sees, and srun starts it once on each node.
Array: task k runs cell k + 1 of the queue.
With arguments, as in `bash run.sh status` on the login node, nothing of this happens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from . import fields
from .fields import Value

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_WORD_SAYS = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
_SIGNAL_LIMIT = 65535  # sbatch's own, man sbatch --signal
_MARGIN_MINUTES = 5  # The runner's deadline comes first; Slurm's time is the fence behind it.


@dataclass(frozen=True)
class Options:
    """What only Slurm needs. `#SBATCH` lines know no shell quoting, so each value has a strict form.

    `hours` is the deadline (None: a time of day), `limit_hours` the partition's limit (None: none). GPUs, cpus and memory are for one node;
    0 and '' leave the choice to Slurm.
    `cells` above 0 makes an array, `at_once` of it at the same time (0: all). `output` is a file name in Slurm's pattern; its folder must exist.

    Raises ValueError that names the field.
    """

    name: str
    hours: float | None
    nodes: int = 1
    gpus: int = 0
    gpu_type: str = ""
    cpus: int = 0
    memory_mb: int = 0
    limit_hours: float | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    cells: int = 0
    at_once: int = 0
    requeue: bool = False
    signal_seconds: int = 120
    output: str = ""

    def __post_init__(self) -> None:
        fields.matched("name", self.name, _WORD, _WORD_SAYS, "choose another name")
        fields.hours("hours", self.hours, "give the job a deadline")
        fields.hours("limit_hours", self.limit_hours, "look at the TIMELIMIT of `sinfo`")
        fields.whole("nodes", self.nodes, 1, 10_000, "look at `sinfo`")
        fields.whole("gpus", self.gpus, 0, 64, "give the GPUs of one node")
        fields.whole("cpus", self.cpus, 0, 4096, "give the cores of one node, or 0")
        fields.whole(
            "memory_mb", self.memory_mb, 0, 100_000_000, "give the memory of one node in MB, or 0"
        )
        for field in ("gpu_type", "partition", "account", "qos"):
            if getattr(self, field) != "":
                fields.matched(
                    field,
                    getattr(self, field),
                    _WORD,
                    _WORD_SAYS,
                    "write it as `sinfo` or `sacctmgr` shows it",
                )
        if self.constraint:
            fields.matched(
                "constraint",
                self.constraint,
                r"[A-Za-z0-9][A-Za-z0-9._&|-]{0,127}",
                "features joined by '&' or '|'",
                "write them as `sinfo -o %f` shows them",
            )
        if self.gpu_type and not self.gpus:
            raise fields.refuse(
                "gpu_type", self.gpu_type, "a type only where gpus is above 0", "set gpus"
            )
        fields.whole(
            "cells", self.cells, 0, 1_000_000, "give the number of lines of the queue, or 0"
        )
        fields.whole(
            "at_once",
            self.at_once,
            0,
            1_000_000,
            "give how many cells may run at the same time, or 0",
        )
        if self.cells and self.nodes > 1:
            raise fields.refuse(
                "nodes",
                self.nodes,
                "1 for a queue of cells",
                "run cells on one node each, or a job without a queue",
            )
        fields.whole(
            "signal_seconds",
            self.signal_seconds,
            1,
            _SIGNAL_LIMIT,
            "give the seconds that a save needs",
        )
        if self.minutes is not None and self.minutes * 60 < self.signal_seconds + 60:
            raise fields.refuse(
                "signal_seconds",
                self.signal_seconds,
                f"a minute less than the time of {self.minutes} min",
                "ask for more time or save faster",
            )
        if self.output:
            fields.matched(
                "output",
                self.output,
                r"[A-Za-z0-9%_./-]{1,255}",
                "a path of letters, digits and % _ . / -",
                "choose another path",
            )

    @property
    def minutes(self) -> int | None:
        """What `--time` asks for: the deadline and a margin, so that the runner's own deadline comes first, within the limit. None: the partition's own."""
        given = [math.floor(self.limit_hours * 60)] if self.limit_hours is not None else []
        if self.hours is not None:
            given.append(
                math.ceil(self.hours * 60) + math.ceil(self.signal_seconds / 60) + _MARGIN_MINUTES
            )
        return max(1, min(given)) if given else None


def head(options: Options) -> str:
    """The `#SBATCH` lines, in a fixed order. sbatch reads them up to the first line that is no comment."""
    days, rest = divmod(options.minutes or 0, 24 * 60)
    gpu = f"gpu:{options.gpu_type}:{options.gpus}" if options.gpu_type else f"gpu:{options.gpus}"
    array = f"0-{options.cells - 1}" + (f"%{options.at_once}" if options.at_once else "")
    lines = [
        f"--job-name={options.name}",
        f"--nodes={options.nodes}",
        "--ntasks-per-node=1",
        f"--gres={gpu}" if options.gpus else "",
        f"--cpus-per-task={options.cpus}" if options.cpus else "",
        f"--mem={options.memory_mb}M" if options.memory_mb else "",
        f"--time={days}-{rest // 60:02}:{rest % 60:02}:00" if options.minutes else "",
        f"--partition={options.partition}" if options.partition else "",
        f"--account={options.account}" if options.account else "",
        f"--qos={options.qos}" if options.qos else "",
        f"--constraint={options.constraint}" if options.constraint else "",
        f"--array={array}" if options.cells else "",
        "--requeue" if options.requeue else "--no-requeue",
        "--open-mode=append",
        f"--signal=B:USR1@{options.signal_seconds}",
        f"--output={options.output or ('slurm-%A_%a.out' if options.cells else 'slurm-%j.out')}",
    ]
    return "".join(f"#SBATCH {line}\n" for line in lines if line)


_TAIL = r"""
# ---- Slurm -------------------------------------------------------------------------------------------------------------------
# Starts this file once on each node, from a folder that every node sees, and passes "save now" on.
rgt_slurm_nodes() {
  local run_dir=$RGT_RUN_DIR code=0 asked='' woken='' step
  [[ ${run_dir:0:2} == \~/ ]] && run_dir=$HOME/${run_dir:2}
  mkdir -p -- "$run_dir" && cp -- "$0" "$run_dir/.run.sh.$$" && mv -f -- "$run_dir/.run.sh.$$" "$run_dir/run.sh" || return 1
  RGT_RENDEZVOUS=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
  [[ -n $RGT_RENDEZVOUS ]] || return 1
  export RGT_RENDEZVOUS
  trap 'asked=USR1 woken=1; rgt_slurm_pass USR1 "$run_dir/run.sh"' USR1
  trap 'asked=TERM woken=1; rgt_slurm_pass TERM "$run_dir/run.sh"' TERM
  # srun no longer takes the cores of sbatch over by itself (Slurm 22.05). A node that ended must not cut the others' save
  # short, as --kill-on-bad-exit=1 does (TERM, and KILL after KillWait): they have a quarter of an hour.
  srun --nodes="$RGT_NODES" --ntasks="$RGT_NODES" --ntasks-per-node=1 ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
    --kill-on-bad-exit=0 --wait=900 bash "$run_dir/run.sh" &
  step=$!
  while :; do # a trap ends wait early
    woken=''
    wait "$step"
    code=$?
    [[ -n $woken ]] || break
  done
  if [[ $asked == USR1 && $RGT_REQUEUE == yes && -e $run_dir/.preempted ]]; then
    scontrol requeue "$SLURM_JOB_ID"
  fi
  return "$code"
}

# scancel and srun signal every process of a step, and USR1 would end the program: a second step tells the runners alone.
rgt_slurm_pass() {
  RGT_PASS=$1 timeout -k 5 60 srun --overlap --nodes="$RGT_NODES" --ntasks="$RGT_NODES" --ntasks-per-node=1 bash "$2"
}

if [[ -n ${RGT_RENDEZVOUS-} && -n ${SLURM_NODEID-} ]]; then # one node of several
  if [[ -n ${RGT_PASS-} ]]; then
    rgt_rank=$SLURM_NODEID
    rgt_resolve
    rgt_alive "$RGT_RUN_DIR/runner.pid" && kill -s "$RGT_PASS" "$rgt_pid"
    exit 0
  fi
  RGT_REQUEUE=no
  [[ $# -gt 0 ]] || set -- run --node-rank "$SLURM_NODEID"
elif [[ -n ${SLURM_JOB_ID-} && $# -eq 0 ]]; then # started by sbatch
  if [[ -n ${SLURM_ARRAY_TASK_ID-} ]]; then
    set -- queue --part "$((SLURM_ARRAY_TASK_ID + 1))/${#RGT_CELLS[@]}"
  elif [[ $RGT_NODES -gt 1 ]]; then
    rgt_slurm_nodes
    exit
  else
    set -- run
  fi
fi
"""


def tail(options: Options) -> str:
    """The bash between the runner's functions and its last line. It is the same for all options and reads RGT_ and SLURM_ variables only."""
    return _TAIL + fields.RENDEZVOUS


def text(values: Mapping[str, Value], options: Options, script: str) -> str:
    """The whole batch script. Raises ValueError where values, options and script don't belong together."""
    fields.same("nodes", options.nodes, values, "RGT_NODES")
    fields.same(
        "requeue",
        "yes" if options.requeue else "no",
        {"RGT_REQUEUE": values.get("RGT_REQUEUE") or "no"},
        "RGT_REQUEUE",
    )
    save = str(values.get("RGT_SAVE_SECONDS", 0))
    fields.matched(
        "RGT_SAVE_SECONDS",
        save,
        r"[0-9]{1,6}",
        "whole seconds",
        "give what one save takes, at worst",
    )
    if int(save) > options.signal_seconds:
        raise fields.refuse(
            "signal_seconds",
            options.signal_seconds,
            f"at least {save}, what a save takes",
            "let Slurm tell earlier",
        )
    cells = values.get("RGT_CELLS", [])
    if options.cells != len(cells):
        raise fields.refuse(
            "cells",
            options.cells,
            f"{len(cells)}, the number of RGT_CELLS",
            "give one array task a cell",
        )
    whole = fields.before_main(script, tail(options))
    return fields.SHEBANG + head(options) + whole[len(fields.SHEBANG) :]
