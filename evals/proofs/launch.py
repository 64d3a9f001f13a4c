"""Starts a few ranks of a script on this machine's CPU, for the proofs of the D entries."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

LAUNCHER_VARIABLES = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
)


@dataclass(frozen=True)
class Finished:
    """returncode: the launcher's own, negative when a signal ended it, as after a time-out.
    output: every rank's stdout and stderr, rank by rank, then what the launcher printed.
    ranks: the output of each rank alone, empty for a command that is not torchrun's."""

    returncode: int
    output: str
    timed_out: bool
    ranks: tuple[str, ...] = ()

    def lines(self, start: str) -> list[str]:
        """The lines of the output that begin with `start`, sorted: what the script printed, without the launcher's
        own lines, which come and go."""
        return sorted(line for line in self.output.splitlines() if line.startswith(start))


def free_port() -> int:
    """A port of this machine that nobody holds now."""
    with socket.socket() as server:
        server.bind(("", 0))
        return server.getsockname()[1]


def run_ranks(
    script: str,
    nproc: int = 2,
    timeout: float = 90,
    env: dict | None = None,
    by_torchrun: bool = False,
) -> Finished:
    """Run `script` in `nproc` processes, as `torchrun --standalone` would start them.

    The text is dedented. It sees no GPU, so it opens its own group with `init_process_group("gloo")`, and ends with
    `dist.barrier(); dist.destroy_process_group()`, or a rank may abort while it goes down. After `timeout` seconds all
    ranks are killed and `timed_out` is true.

    The ranks are forked from a process that has imported torch (forked_ranks.py), which saves four seconds. torchrun
    itself starts them where `by_torchrun` asks for what it prints, and where `env`, which is added to the environment,
    may be read while torch is imported; a value of None takes a variable away.
    """
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        path, logs = Path(folder, "script.py"), Path(folder, "logs")
        path.write_text(textwrap.dedent(script), encoding="utf-8")
        if not env and not by_torchrun:
            code = FORKED.run(path, nproc, logs, timeout)
            ranks = tuple(_rank_output(logs, rank, "") for rank in range(nproc))
            return Finished(
                -signal.SIGKILL if code is None else code, "".join(ranks), code is None, ranks
            )
        arguments = ("--standalone", f"--nproc-per-node={nproc}", "--redirects=3")
        command = torchrun(*arguments, f"--log-dir={logs}", str(path))
        [launcher] = run_commands([command], timeout, env)
        ranks = tuple(_rank_output(logs, rank, "*/attempt_*/") for rank in range(nproc))
    output = "".join((*ranks, launcher.output))
    return Finished(launcher.returncode, output, launcher.timed_out, ranks)


class Forked:
    """The process that ranks are forked from, started when it is first needed."""

    def __init__(self):
        self.process: subprocess.Popen | None = None

    def run(self, script: Path, nproc: int, logs: Path, timeout: float) -> int | None:
        """The exit code of the job, or None where it took longer than `timeout` seconds."""
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("forked_ranks.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(None),
                text=True,
                start_new_session=True,
            )
            atexit.register(_kill, self.process)
        request = {"script": str(script), "nproc": nproc, "logs": str(logs)}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answered = select.select([self.process.stdout], [], [], timeout)[0]
        if answered:
            return int(self.process.stdout.readline())
        _kill(self.process)
        return None


FORKED = Forked()


def torchrun(*arguments: str) -> list[str]:
    """A torchrun command line of the Python that runs the proofs; its ranks meet on the loopback address."""
    return [sys.executable, "-m", "torch.distributed.run", "--local-addr=127.0.0.1", *arguments]


def run_commands(
    commands: list[list[str]],
    timeout: float = 90,
    env: dict | None = None,
    cwd: str | Path | None = None,
) -> list[Finished]:
    """Run the commands side by side, as machines of one job would, and kill them all after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    with ExitStack() as stack:
        started = []
        for command in commands:
            log = stack.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=cwd,
                env=_environment(env),
                start_new_session=True,
            )
            stack.callback(_kill, process)
            started.append((process, log))
        return [_finish(process, log, deadline) for process, log in started]


def _environment(extra: dict | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    kept |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    if sys.platform == "linux":
        kept["GLOO_SOCKET_IFNAME"] = "lo"
    kept |= extra or {}
    return {name: str(value) for name, value in kept.items() if value is not None}


def _finish(process: subprocess.Popen, log, deadline: float) -> Finished:
    timed_out = False
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        timed_out = True
        _kill(process)
    log.seek(0)
    return Finished(process.returncode, log.read().decode(errors="replace"), timed_out)


def _kill(process: subprocess.Popen) -> None:
    """End a launcher and its ranks. torchrun gives every rank a session of its own, so no group signal reaches them."""
    if process.poll() is not None:
        return
    family = _descendants(process.pid)
    for pid in (process.pid, *family):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def _descendants(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[int]] = {}
    for line in listed.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def _rank_output(logs: Path, rank: int, within: str) -> str:
    """stdout, then stderr, of the last attempt."""
    return "".join(
        max(found, key=lambda path: path.stat().st_mtime).read_text(
            encoding="utf-8", errors="replace"
        )
        for name in ("stdout.log", "stderr.log")
        if (found := list(logs.glob(f"{within}{rank}/{name}")))
    )
