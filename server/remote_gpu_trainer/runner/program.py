"""The training program of one attempt: started by its parent, asked to save, ended, adopted."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import Any

from ..text import proc
from . import (
    containers,
    fault_handler,
    killing,
    launchers,
    log,
    parent,
    procs,
    secrets,
    setting_up,
)
from .context import Run, plain_environment, user_mask
from .folder import RC

SHELLS = {
    "bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "busybox", "timeout", "nice", "ionice",
    "env", "time", "stdbuf", "coreutils",
    # The first processes of containers: not all of them pass a signal on to more than one child.
    "apptainer", "singularity", "starter", "starter-suid", "docker-init", "tini", "catatonit",
}  # fmt: skip
READERS = {"tee", "cat", "head", "tail", "grep", "sed", "gawk", "mawk", "tr", "ts", "logger"}
_TEE = re.compile(r"(.*[^|])(\|&?\s*tee(?:\s[^|;&]*)?)\Z", re.S)


class Program:
    """One attempt's program. `pid` and `start` say which process it is, 0 before the start."""

    def __init__(self, run: Run):
        self.run = run
        self.pid = self.start_time = self.number = self.first = 0
        self._env: dict[str, str] = {}

    def start(
        self,
        words: list[str],
        number: int,
        checkpoint: str,
        extra: dict[str, str] | None = None,
        probe: str = "",
        noted: dict[str, Any] | None = None,
    ) -> None:
        """Start attempt `number` with these words, in the job's container and behind its setup.

        `extra`: further variables. `noted`: what attempt.json says of it. `probe`: the folder by
        which the probe enters its Python processes. Raises OSError.
        """
        run = self.run
        run.folder.remove("save-now", RC)
        self.number, self.first = number, log.next_number(run)
        self._env = {**environment(run, number, checkpoint, probe), **(extra or {})}
        killing.end_container(run.folder)  # one that outlived its client
        words = containers.around(run, words, self._env)
        asked = {
            "words": setting_up.before(run.folder, run.spec.setup, words),
            "env": self._env,
            "folder": run.work,
            "number": number,
            "first": self.first,
            "umask": user_mask(),
            "noted": noted or {},
        }
        started = run.link.start(asked) if run.link else parent.start_apart(run, asked)
        self.pid, self.start_time = started

    def adopt(self, number: int, first: int) -> bool:
        """Take over the program that a runner before this one started; False if it is gone."""
        pid, started = procs.noted(self.run.folder, "train")
        if not procs.is_same_process(pid, started):
            return False
        self.pid, self.start_time, self.number, self.first = pid, started, number, first
        return True

    def alive(self) -> bool:
        """Return whether the program's first process lives."""
        return procs.is_same_process(self.pid, self.start_time)

    @property
    def code(self) -> int | None:
        """Return the exit code, as a shell tells it; None while it isn't known."""
        noted = self.run.folder.json(RC)
        found = noted.get("code") if noted.get("number") == self.number else None
        return found if isinstance(found, int) else None

    def wait_for_code(self, seconds: float = 5.0) -> int | None:
        """Return the code of a program that has ended; its parent may need a moment to tell."""
        until = time.monotonic() + seconds
        while self.run.folder.json(RC).get("number") != self.number and time.monotonic() < until:
            time.sleep(0.02)
        return self.code

    def pids(self) -> set[int]:
        """Return all living processes of the program."""
        return procs.of_program(self.run.folder, self.pid)

    def ask_to_save(self, reason: str) -> bool:
        """Ask once for a save: a file and one signal; False if somebody has asked before."""
        return ask_to_save(self.run, reason)

    def end(self) -> bool:
        """Kill what is left and wait for the log; True if anything was left."""
        had = killing.kill_program(self.run.folder)
        until = time.monotonic() + 10
        while self.run.folder.has(RC) and not self._is_logged() and time.monotonic() < until:
            if not procs.alive(self.run.folder, "supervisor"):
                break
            time.sleep(0.02)
        return had

    def _is_logged(self) -> bool:
        """Return whether its parent has written its whole log."""
        noted = self.run.folder.json(RC)
        return noted.get("number") == self.number and noted.get("is_logged") is True


def environment(run: Run, number: int, checkpoint: str, probe: str = "") -> dict[str, str]:
    """Return the program's whole environment. Settings of this tool reach it on purpose or not."""
    spec = run.spec
    env = plain_environment()
    env.pop("RGT_OWN", None)
    env.update(
        RGT_RUN_DIR=run.folder.path,
        RGT_ATTEMPT=str(number),
        RGT_RESUME_FROM=checkpoint,
        RGT_SAVE_FILE=run.folder.at("save-now"),
        RGT_NODE_RANK=str(run.rank),
        PYTHONUNBUFFERED="1",
        PYTHONFAULTHANDLER="1",
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        # A rank that leaves first must not cost the others their save.
        TORCH_ELASTIC_SHUTDOWN_TIMEOUT=str(int(max(spec.checkpoint.save_seconds, 30))),
    )
    if run.checkpoints:
        env["RGT_CHECKPOINT_DIR"] = run.checkpoints
    if not spec.gpus:
        env.update(ACCELERATE_USE_CPU="true", DS_ACCELERATOR="cpu")
    env.update(spec.variables)
    env.update(secrets.load(run))
    env.update(fault_handler.environment(run, probe))
    for name, value in launchers.environment(run, number).items():
        env.setdefault(name, value)
    return env


def words_of(command: list[str] | str) -> list[str]:
    """Return the words of a job's command; a line of shell is one argument of bash."""
    return ["bash", "-c", command] if isinstance(command, str) else list(command)


def with_arguments(words: list[str], extra: list[str]) -> list[str]:
    """Return the command with further arguments; a line of bash gets them as words behind it.

    A last `| tee log` must hide neither them from the program nor its exit code from us.
    """
    if len(words) != 3 or os.path.basename(words[0]) != "bash" or words[1] != "-c":
        return [*words, *extra]
    line, copy = words[2], ""
    if found := _TEE.match(line):
        line, copy = f"set -o pipefail\n{found[1]}", f" {found[2]}"
    if not extra:
        return [*words[:2], line + copy]
    return [*words[:2], f'{line.rstrip()} "$@"{copy}', "bash", *extra]


def save_targets(run: Run, leader: int) -> set[int]:
    """Return who should hear the save signal.

    A shell would die of it and leave its child alone, so the signal goes to what the shell runs.
    What reads the program's output (`| tee log`) stays, or the program would die of the broken
    pipe while it saves.
    """
    among = procs.table()
    inside = containers.roots(run, leader, among)
    todo = list(launchers.ranks(run, leader, among, inside) or inside or [leader])
    found: set[int] = set()
    readers: set[int] = set()
    while todo:
        pid = todo.pop()
        process = among.get(pid)
        if process is None:
            continue
        name = _executable(pid) or process.name
        below = [child for child, at in among.items() if at.parent == pid]
        if name in READERS:
            readers.add(pid)
        elif name in SHELLS and below:
            todo += below
        else:
            found.add(pid)
    return found or readers


def _executable(pid: int) -> str:
    """Return the name of what a process runs; for a script, that of its shell."""
    name = os.path.basename(proc.read_executable(pid))
    return name[: -len(" (deleted)")] if name.endswith(" (deleted)") else name


def ask_to_save(run: Run, reason: str) -> bool:
    """Create the file that asks for a save, and send one signal; False if it was there.

    Whoever creates the file sends the signal, so that runner and supervisor can both ask.
    """
    leader = procs.alive(run.folder, "train")
    # Looked for first: a program that watches the file could be on its way out when a signal comes.
    targets = save_targets(run, leader) if leader else procs.of_program(run.folder)
    try:
        os.close(os.open(run.folder.at("save-now"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    except OSError:
        pass  # on a full disk the signal is sent all the same
    procs.send(targets, getattr(signal, f"SIG{run.spec.save_signal}"))
    run.folder.write("save-now", reason + "\n")
    run.event("save-now", reason=reason, signal=run.spec.save_signal)
    return bool(targets)
