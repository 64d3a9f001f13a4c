"""The lines that a user or an agent types around a rendered script: start, watch, stop, resume. Every value in them is quoted; BOX stands for the box's name."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from .code_snapshot import Snapshot
from .job import Job


@dataclass(frozen=True)
class Commands:
    start: str
    watch: str
    stop: str
    resume: str


def commands(job: Job, target: str, file: str, snapshot: Snapshot | None) -> Commands:
    """The lines for a target. `file`: the rendered script here."""
    return {
        "ssh": _ssh,
        "local": _local,
        "slurm": _slurm,
        "kubernetes": _kubernetes,
        "skypilot": _skypilot,
    }[target](job, _here(file), snapshot)


def _here(path: str) -> str:
    """A local path as one shell word that no program takes for an option."""
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _code(job: Job, snapshot: Snapshot | None, destination: str) -> list[str]:
    """Sends what git would commit, or the whole folder where there is no git."""
    if not job.code:
        return []
    folder = job.code.rstrip("/") or "/"
    if snapshot is not None and not snapshot.tracked:
        return [f"rsync -az --exclude=.git -- {_here(folder + '/')} {destination}"]
    listed = f"git -C {_here(folder)} ls-files -co --exclude-standard -z"
    return [
        f"{listed} | rsync -az --from0 --files-from=- --ignore-missing-args -- {_here(folder + '/')} {destination}"
    ]


def _from_home(folder: str) -> str:
    """A run folder for rsync, which begins in the home folder."""
    return folder.removeprefix("~/")


def _ssh(job: Job, file: str, snapshot: Snapshot | None) -> Commands:
    folder = job.folder
    verb = "start --queue" if job.queue else "start"
    box, rank, before, after = (
        ("BOX$n", " --node-rank $n", f"for n in $(seq 0 {job.nodes - 1}); do\n", "\ndone")
        if job.nodes > 1
        else ("BOX", "", "", "")
    )
    send = [
        f"ssh {box} 'mkdir -p {folder}/code'",
        *_code(job, snapshot, f"{box}:{_from_home(folder)}/code/"),
        f"ssh {box} 'cat > {folder}/run.sh.new && mv {folder}/run.sh.new {folder}/run.sh' < {file}",
        f'ssh {box} "bash {folder}/run.sh {verb}{rank} --sent-at $(date +%s)"',
    ]
    where = "" if job.run_dir is None else f" --run {folder}"
    resume = f'ssh {box} "bash {folder}/run.sh resume{" --queue" if job.queue else ""}{rank} --sent-at $(date +%s)"'
    return Commands(
        before + "\n".join(send) + after,
        f"remote-gpu-trainer status BOX{'0' if job.nodes > 1 else ''}{where or f' --run {job.name}'} --wait",
        f"{before}ssh {box} 'bash {folder}/run.sh stop'{after}",
        before + resume + after,
    )


def _local(job: Job, file: str, snapshot: Snapshot | None) -> Commands:
    folder, verb = job.folder, " --queue" if job.queue else ""
    lines = [
        f"mkdir -p {folder}/code",
        *_code(job, snapshot, f"{folder}/code/"),
        f"cp {file} {folder}/run.sh.new && mv {folder}/run.sh.new {folder}/run.sh",
    ]
    return Commands(
        "\n".join([*lines, f"bash {folder}/run.sh start{verb}"]),
        f"remote-gpu-trainer status local --run {job.name if job.run_dir is None else folder} --wait",
        f"bash {folder}/run.sh stop",
        f"bash {folder}/run.sh resume{verb}",
    )


def _slurm(job: Job, file: str, snapshot: Snapshot | None) -> Commands:
    """On the cluster's login node, whose home every node sees."""
    folder = job.folder
    lines = [
        f"mkdir -p {folder}/code {folder}/log",
        *_code(job, snapshot, f"{folder}/code/"),
        f"cp {file} {folder}/run.sh.new && mv {folder}/run.sh.new {folder}/run.sh",
    ]
    submit = (
        f"sbatch --chdir {folder} {folder}/run.sh"  # a shell doesn't read ~ behind an equals sign
    )
    return Commands(
        "\n".join([*lines, submit]),
        f"squeue --me --name={job.name} --start && bash {folder}/run.sh status --json",
        f"scancel --state=PENDING --name={job.name}; timeout 3 scancel --batch --signal=TERM --name={job.name}",
        submit,
    )


def _kubernetes(job: Job, file: str, snapshot: Snapshot | None) -> Commands:
    space = (
        f" --namespace={job.kubernetes.namespace}"
        if job.kubernetes and job.kubernetes.namespace
        else ""
    )
    lines = []
    if names := sorted({s.variable for s in job.secrets.values() if s.variable}):
        lines.append(
            f"# once, the values from files: kubectl{space} create secret generic {job.name}-secrets "
            + " ".join(f"--from-file={name}=FILE" for name in names)
        )
    return Commands(
        "\n".join([*lines, f"kubectl{space} apply --server-side -f {file}"]),
        f"kubectl{space} wait --for=condition=complete --timeout=8h job/{job.name} || kubectl{space} logs --tail=60 job/{job.name}",
        f'kubectl{space} patch job/{job.name} --type=strategic --patch \'{{"spec":{{"suspend":true}}}}\'',
        f'kubectl{space} patch job/{job.name} --type=strategic --patch \'{{"spec":{{"suspend":false}}}}\'',
    )


def _skypilot(job: Job, file: str, snapshot: Snapshot | None) -> Commands:
    secrets = "".join(
        f" --secret {name}"
        for name in sorted({s.variable for s in job.secrets.values() if s.variable})
    )
    verb = "jobs launch" if job.skypilot.spot else f"launch -c {job.name}"
    name = f" -n {job.name}" if job.skypilot.spot else ""
    watch, stop = (
        (f"sky jobs logs -n {job.name}", f"sky jobs cancel -n {job.name}")
        if job.skypilot.spot
        else (f"sky logs {job.name}", f"sky stop {job.name}")
    )
    return Commands(
        f"sky {verb}{name}{secrets} {file}", watch, stop, f"sky {verb}{name}{secrets} {file}"
    )
