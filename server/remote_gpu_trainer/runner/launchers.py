"""A launcher around the program: torchrun, accelerate or deepspeed, on one node or several.

slurm-tasks is torchrun with the variables that srun would give one task for each GPU.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from types import SimpleNamespace
from typing import Iterable, Mapping

from . import child, procs
from .context import Run, home

PORT = "29400"  # of the first node, where the job names none
_PYTHON = re.compile(r"python([23](\.[0-9]+)?)?\Z")
_MODULE = {"deepspeed": "--module"}
_BARE = {"torchrun": ["--no-python"], "accelerate": ["--no_python"],
         "deepspeed": ["--no_python", "--no_local_rank"]}  # fmt: skip
# A configuration of accelerate on the box that decides for itself how processes work together.
_SHARDED = re.compile(r"^distributed_type: *(FSDP|DEEPSPEED|MEGATRON_LM)", re.M)
# Under torchrun's spawner, in each process: the variables of a task of srun (man srun, OUTPUT
# ENVIRONMENT VARIABLES). Without TORCHELASTIC_RUN_ID a library such as Lightning takes the process
# for what it is told to be, a task of Slurm. A job that runs elsewhere has no number.
_TASK = """\
export SLURM_PROCID=$RANK SLURM_LOCALID=$LOCAL_RANK
export SLURM_NTASKS=$WORLD_SIZE SLURM_NPROCS=$WORLD_SIZE
export SLURM_NTASKS_PER_NODE=$LOCAL_WORLD_SIZE SLURM_NODEID=$GROUP_RANK
export SLURM_NNODES=$((WORLD_SIZE / LOCAL_WORLD_SIZE)) SLURM_JOB_ID=${SLURM_JOB_ID-0}
export SLURM_JOB_NUM_NODES=$SLURM_NNODES SLURM_STEP_NUM_NODES=$SLURM_NNODES
export SLURM_STEP_NUM_TASKS=$WORLD_SIZE SLURM_TASKS_PER_NODE=$LOCAL_WORLD_SIZE
((SLURM_NNODES == 1)) || SLURM_TASKS_PER_NODE+="(x$SLURM_NNODES)"
export SLURM_STEP_TASKS_PER_NODE=$SLURM_TASKS_PER_NODE
unset TORCHELASTIC_RUN_ID
exec -- "$@"
"""


def wrap(run: Run, words: list[str], attempt: int = 0) -> list[str]:
    """Return the launcher's command line around the program's."""
    spec = run.spec
    if spec.launcher == "none":
        return words
    if spec.launcher == "slurm-tasks":
        python = [spec.python] if words[0].endswith(".py") else []
        task = ["--no-python", "bash", "-c", _TASK, "task", *python, *words]
        return [*_torchrun(run, attempt), *task]
    head = {"torchrun": _torchrun, "accelerate": _accelerate, "deepspeed": _deepspeed}
    start = head[spec.launcher](run, attempt)
    rest = words[1:]
    if not (words[0] == spec.python or _PYTHON.match(os.path.basename(words[0]))):
        # A script is started with Python; anything else as it stands.
        return [*start, *([] if words[0].endswith(".py") else _BARE[spec.launcher]), *words]
    while rest[:1] == ["-u"]:
        rest = rest[1:]
    if rest[:1] == ["-m"]:
        return [*start, _MODULE.get(spec.launcher, "-m"), *rest[1:]]
    if rest and not rest[0].startswith("-"):
        return [*start, *rest]
    # Options of the interpreter: the launcher starts the whole line.
    return [*start, *_BARE[spec.launcher], *words]


def _torchrun(run: Run, attempt: int) -> list[str]:
    spec = run.spec
    # Where a rank of a program that is decorated with `record` writes its error.json. Without it
    # that is a folder of its own in /tmp.
    errors = run.folder.at("elastic", str(attempt))
    head = [spec.python, "-m", "torch.distributed.run", f"--nproc-per-node={spec.processes}",
            "--max-restarts=0", f"--log-dir={errors}"]  # fmt: skip
    if spec.nodes == 1:
        return [*head, "--nnodes=1", "--standalone"]
    # c10d ignores --node-rank and orders the nodes by their addresses' text: said here, so that
    # rank 0, its checkpoints and its results stay on node 0. Its address is also the one that all
    # others can reach; a container's own name isn't.
    host, port = rendezvous(spec)
    address = host if run.rank == 0 else f"~node-{run.rank:05d}"
    return [
        *head,
        f"--nnodes={spec.nodes}",
        f"--node-rank={run.rank}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={host}:{port}",
        f"--rdzv-id={spec.name}",
        f"--local-addr={address}",
        f"--rdzv-conf=is_host={int(run.rank == 0)},read_timeout=900,join_timeout=900",
    ]


def _accelerate(run: Run, _: int) -> list[str]:
    spec = run.spec
    total = spec.processes * spec.nodes
    head = [spec.python, "-m", "accelerate.commands.launch", f"--num_processes={total}",
            f"--num_machines={spec.nodes}"]  # fmt: skip
    if spec.nodes > 1:
        host, port = rendezvous(spec)
        head += [
            f"--machine_rank={run.rank}",
            f"--main_process_ip={host}",
            f"--main_process_port={port}",
        ]
    else:
        head.append("--main_process_port=0")
    # Without --multi_gpu it starts one process and says nothing, with --cpu too.
    if total > 1:
        return head if _is_sharded(run) else [*head, "--multi_gpu"]
    return head if spec.gpus else [*head, "--cpu"]


def _is_sharded(run: Run) -> bool:
    """Return whether accelerate's own configuration asks for FSDP, DeepSpeed or Megatron."""
    env = _given(run)
    cache = env.get("XDG_CACHE_HOME") or home("~/.cache")
    folder = env.get("HF_HOME") or os.path.join(cache, "huggingface")
    try:
        with open(os.path.join(folder, "accelerate/default_config.yaml"), errors="replace") as file:
            return bool(_SHARDED.search(file.read(1 << 20)))
    except OSError:
        return False


def _deepspeed(run: Run, _: int) -> list[str]:
    spec = run.spec
    host, port = rendezvous(spec)
    port = _free_port() if spec.nodes == 1 else port
    head = [spec.python, "-m", "deepspeed.launcher.runner", f"--master_port={port}"]
    # --num_gpus takes the first cards, whatever CUDA_VISIBLE_DEVICES says.
    cards = _given(run).get("CUDA_VISIBLE_DEVICES", "").split(",")[: spec.processes]
    is_named = len(cards) == spec.processes and all(card.isdigit() for card in cards)
    if spec.nodes == 1 and spec.gpus and is_named:
        head.append("--include=localhost:" + ",".join(cards))
    else:
        head.append(f"--num_gpus={spec.processes}")
    if spec.nodes > 1:
        lines = [f"node-{node} slots={spec.processes}\n" for node in range(spec.nodes)]
        run.folder.write("own/hostfile", "".join(lines))
        head += [
            f"--hostfile={run.folder.at('own/hostfile')}",
            "--no_ssh",
            f"--node_rank={run.rank}",
            f"--master_addr={host}",
        ]
    return head


def _free_port() -> int:
    """Return a port that nobody listens on: cells beside each other need one each."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _given(run: Run) -> dict[str, str]:
    """Return the box's variables with the job's over them."""
    return {**os.environ, **run.spec.variables}


def ranks(
    run: Run, leader: int, table: Mapping[int, procs.Stat], inside: Iterable[int] = ()
) -> set[int]:
    """Return the ranks below a launcher whose first process is `leader`; none without a launcher.

    `inside`: the first processes of a container that isn't below it.

    A launcher of one process and DeepSpeed's pass no signal on; torchrun and DeepSpeed kill 30 s
    after theirs.
    """
    spec = run.spec
    if spec.launcher == "none":
        return set()
    is_single = spec.launcher == "accelerate" and spec.processes * spec.nodes == 1
    mark = "ACCELERATE_MIXED_PRECISION" if is_single else "LOCAL_RANK"
    below = procs.children([leader, *inside], dict(table)) - {leader}
    marked = {pid for pid in below if mark in procs.environ(pid)}
    return {pid for pid in marked if table[pid].parent not in marked}


def environment(run: Run, attempt: int) -> dict[str, str]:
    """Return PyTorch's Flight Recorder: where each rank stood when a collective timed out.

    The dumps lie with the log, so they go where it goes. What the user has set in either spelling
    stays: the newer one would win over the older.
    """
    if run.spec.launcher == "none" or max(run.spec.processes, run.spec.nodes) == 1:
        return {}
    files = run.folder.at("log", f"nccl_trace_attempt_{attempt}_rank_")
    wanted = (
        (("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), "2000"),
        (("TORCH_NCCL_DUMP_ON_TIMEOUT",), "1"),
        (("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), files),
    )
    given = _given(run)
    return {
        name: value
        for spellings, value in wanted
        if not any(name in given for name in spellings)
        for name in spellings
    }


def find_node(
    words_rank: str | None, spec: SimpleNamespace, environ: Mapping[str, str]
) -> tuple[int, str]:
    """Return this node's number, and the first node's address where the scheduler knows it."""
    names = ("RGT_NODE_RANK", "SLURM_NODEID", "JOB_COMPLETION_INDEX", "SKYPILOT_NODE_RANK")
    given = words_rank or next((environ[name] for name in names if environ.get(name)), "")
    rank = int(given) if given.isdigit() else 0
    if spec.nodes == 1:
        return 0, rendezvous(spec)[0]
    host = environ.get("RGT_RENDEZVOUS") or rendezvous(spec)[0] or _first_node(environ)
    return rank or _known_rank(home(spec.rendered.run_dir)), host


def rendezvous(spec: SimpleNamespace) -> tuple[str, str]:
    """Return the host and the port of the first node, as the job names them; the host may be ''."""
    host, mark, port = (spec.rendezvous or "").rpartition(":")
    return (host, port) if mark else (port, PORT)


def _first_node(environ: Mapping[str, str]) -> str:
    if environ.get("SLURM_JOB_NODELIST"):
        words = ["scontrol", "show", "hostnames", environ["SLURM_JOB_NODELIST"]]
        said = child.answer(words, 20)
        if said is not None:
            return (said.split() or [""])[0]
    return (environ.get("SKYPILOT_NODE_IPS", "").split() or [""])[0]


def _known_rank(base: str) -> int:
    """Return the number of the one node whose state this box holds: a verb names none."""
    found = []
    with suppress(OSError):
        if os.path.exists(os.path.join(base, "state.json")):
            return 0
        found = [name for name in os.listdir(base) if re.match(r"node-[0-9]{1,6}\Z", name)
                 and os.path.exists(os.path.join(base, name, "state.json"))]  # fmt: skip
    return int(found[0][5:]) if len(found) == 1 else 0
