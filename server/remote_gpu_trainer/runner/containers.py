"""A container around the program: apptainer, singularity, docker, podman, or pyxis under Slurm.

The launcher's words run inside of it. The run's folders lie at the same paths there, and its
processes carry the run's mark, so that they are found, asked to save and ended as all others. What
the box doesn't let us see is reached through the engine's own process, which passes signals on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping

from . import killing, procs, secrets, setting_up
from .context import Run, home, plain_environment

NEVER_STARTED = 125  # the exit status of docker and podman for a container that didn't start
_DAEMONS = ("docker", "podman")
# Variables of the box that a library in the container wants, by how they begin.
_WANTED = (
    "ACCELERATE_", "CUDA_", "FI_", "GLOO_", "HF_", "MASTER_", "NCCL_", "OMP_", "RGT_", "SLURM_",
    "TORCH", "UCX_", "WANDB_",
)  # fmt: skip
# What names places on the box stays there, unless the job's own variables name it.
_OF_THE_BOX = {"HOME", "LD_LIBRARY_PATH", "LD_PRELOAD", "PATH", "PYTHONHOME", "PYTHONPATH"}
_EXPORT = re.compile(r"\bexport\s+([^;&|\n]*)")


def program_of(engine: str) -> str:
    """Return the program that an engine is started with."""
    return "srun" if engine == "pyxis" else engine


def around(run: Run, words: list[str], env: Mapping[str, str]) -> list[str]:
    """Return the engine's words around a command; `env`: the command's variables.

    Folders that are to be bound are made. For an engine with a daemon, how to remove the container
    is left in the run folder, for whoever ends the program. Raises OSError.
    """
    given = run.spec.container
    if not given:
        return words
    engine = given["engine"]
    if run.checkpoints:
        os.makedirs(run.checkpoints, exist_ok=True)
    if engine in _DAEMONS:
        head = _daemon(run, engine, env)
    elif engine == "pyxis":
        head = _pyxis(run, env)
    else:
        head = _apptainer(run, engine)
    options = list(given.get("options") or [])
    if engine == "pyxis":
        return [*head, *options, *words]
    return [*head, *options, image(run), *words]


def image(run: Run) -> str:
    """Return the image; one that is a file, by its path on this box."""
    name = run.spec.container["image"]
    return run.inside(name) if is_file(name) else name


def is_file(name: str) -> bool:
    """Return whether an image's name is a path."""
    return name.startswith(("/", "./", "~/")) or name.endswith((".sif", ".img", ".sqsh"))


def binds(run: Run) -> list[str]:
    """Return what is bound, each as SOURCE:TARGET or SOURCE:TARGET:ro."""
    wanted = [run.base, run.work, run.checkpoints]
    wanted += [home(copy["to"]) for copy in run.spec.data]
    found: list[str] = []
    for path in wanted:
        if path.startswith("/") and not any(f"{path}/".startswith(f"{one}/") for one in found):
            found.append(os.path.normpath(path))
    mounts = [_mount(text) for text in run.spec.container["mounts"]]
    return [f"{path}:{path}" for path in found] + mounts


def _mount(text: str) -> str:
    source, _, rest = text.partition(":")
    path = home(source)
    return (
        f"{path}:{rest}" if rest and rest not in ("ro", "rw") else f"{path}:{path}:{rest or 'rw'}"
    )


def _apptainer(run: Run, engine: str) -> list[str]:
    """The box's variables are inherited, and so are the user and the processes."""
    head = [engine, "exec", *(["--nv"] if run.spec.gpus else [])]
    head += [word for bind in binds(run) for word in ("--bind", bind)]
    return [*head, "--pwd", run.work]


def _daemon(run: Run, engine: str, env: Mapping[str, str]) -> list[str]:
    """The container isn't below its client, so it has a name by which it is removed."""
    name = container_name(run)
    remove = setting_up.around(run.spec.setup, [engine, "rm", "--force", name])
    run.folder.write(killing.CONTAINER, json.dumps(remove) + "\n")
    head = [engine, "run", "--rm", "--init", "--sig-proxy=true", f"--name={name}"]
    # As the program would have them on the box: ports for the ranks, shared memory for the workers.
    head += ["--network=host", "--ipc=host", f"--workdir={run.work}"]
    head += [f"--volume={bind}" for bind in binds(run)]
    if run.spec.gpus:
        head.append("--gpus=all" if engine == "docker" else "--device=nvidia.com/gpu=all")
    if os.getuid() != 0:
        head += _user(run, engine)
    return [*head, *(word for name in variables(run, env) for word in ("--env", name))]


def _user(run: Run, engine: str) -> list[str]:
    """Keep the user, or what the program writes would be root's. No image has a home for it."""
    place = run.folder.at("home")
    os.makedirs(place, exist_ok=True)
    if engine == "podman":
        return ["--userns=keep-id", f"--env=HOME={place}"]
    groups = [f"--group-add={group}" for group in os.getgroups() if group != os.getgid()]
    return [f"--user={os.getuid()}:{os.getgid()}", *groups, f"--env=HOME={place}"]


def _pyxis(run: Run, env: Mapping[str, str]) -> list[str]:
    """One step on this node, beside the one in which the runner may be itself."""
    head = ["srun", "--overlap", "--nodes=1", "--ntasks=1", "--input=none"]
    if node := os.environ.get("SLURMD_NODENAME"):
        head.append(f"--nodelist={node}")
    if cores := os.environ.get("SLURM_CPUS_PER_TASK"):
        head.append(f"--cpus-per-task={cores}")
    return [
        *head,
        f"--container-image={image(run)}",
        f"--container-mounts={','.join(binds(run))}",
        f"--container-workdir={run.work}",
        f"--container-env={','.join(variables(run, env))}",
    ]


def container_name(run: Run) -> str:
    """Return the name of the run's container: the same at each attempt, another for each folder."""
    digest = hashlib.sha256(run.folder.path.encode("utf-8", "surrogateescape")).hexdigest()
    return f"rgt-{run.spec.name}-{digest[:10]}"


def variables(run: Run, env: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that the program needs of `env`. A value may be a secret,
    so it stands on no command line."""
    plain, spec = plain_environment(), run.spec
    names = {name for name, value in env.items() if plain.get(name) != value}
    # Preflight's are those behind the setup.
    names |= {name for name in env if name.startswith(_WANTED)}
    for line in spec.setup:
        words = " ".join(_EXPORT.findall(line)).split()
        names |= {word.partition("=")[0] for word in words}
    names -= _OF_THE_BOX
    names |= {*spec.variables, *(name for name in secrets.names(spec) if name in env)}
    return sorted(name for name in names if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name))


def roots(run: Run, leader: int, among: Mapping[int, procs.Stat]) -> set[int]:
    """Return the first processes in the container where they aren't below `leader`, its client."""
    engine = run.spec.container.get("engine") if run.spec.container else ""
    if engine not in (*_DAEMONS, "pyxis"):
        return set()
    table = dict(among)
    above = procs.alive(run.folder, "supervisor") or leader
    inside = procs.of_program(run.folder, leader) - procs.children([above, leader], table)
    return {pid for pid in inside if pid in table and table[pid].parent not in inside}


def failure(run: Run, code: int | None) -> str:
    """Return that the container didn't start, '' for anything else."""
    engine = run.spec.container.get("engine") if run.spec.container else ""
    if engine not in _DAEMONS or code != NEVER_STARTED:
        return ""
    return f"container: {engine} didn't start it, exit status {code}; its words are in the log"
