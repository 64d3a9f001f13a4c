"""Runs of four ranks under torchrun and gloo whose logs mislead: what each prints, and what is to be said of it.

`made` runs one. What it returns holds no path, name or folder of the machine that it ran on.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

RANKS = 4
LIMIT_S = 300
LAUNCHER = "run.log"
STEPS = re.compile(rb"step \d+ loss")


class Case(NamedTuple):
    """`kind` is what the program does at step 3, `who` the rank that it befalls. `tee`: one log of all ranks.

    `do`, `first` and `how` are the decision, the rank that is named first and what it did; None for nothing.
    """

    kind: str
    who: int
    tee: bool
    do: str
    first: int | None = None
    how: str | None = None


CASES = {
    "other call, by tracebacks": Case("strays", 1, False, "fix_first"),
    "other call, by own words": Case(
        "strays and says so", 1, False, "fix_first", 1, "stood in another call"
    ),
    "quiet rank, another fails after the loss": Case(
        "sleeps", 1, False, "restart", 1, "went silent"
    ),
    "killed rank, another fails after the loss": Case(
        "is killed", 1, False, "restart", 1, "was ended by SIGKILL"
    ),
    "killed rank, all in one log": Case("is killed", 1, True, "restart", 1, "was ended by SIGKILL"),
    "caught exception": Case("catches", 2, False, "stop"),
    "caught exception, all in one log": Case("catches", 2, True, "stop"),
    "lines of the level DEBUG": Case("debugs", 0, False, "stop"),
    "Ctrl-C": Case("is interrupted", 0, False, "stop"),
    "Ctrl-C, all in one log": Case("is interrupted", 0, True, "stop"),
}

PROGRAM = """
    import datetime, logging, os, signal, sys, time
    import torch
    import torch.distributed as dist

    def load_image(step):
        raise ValueError(f"cannot identify image file 'shard-{step}/00017.jpg'")

    def sync_gradients(gradient):
        dist.all_reduce(gradient)

    def share_metrics(loss):
        dist.broadcast(loss, 0)

    def give_up(call, tensor):
        logging.info("entering %s", "all_reduce" if call is sync_gradients else "broadcast")
        try:
            call(tensor)
            sync_gradients(tensor)
        except RuntimeError as error:
            logging.error("giving up: %s", error)
            sys.exit(1)

    def misbehave(kind, who, step, gradient):
        rank = dist.get_rank()
        call = sync_gradients if rank == who else share_metrics
        if kind == "strays":
            call(gradient)
        elif kind == "strays and says so":
            give_up(call, gradient)
        elif kind == "sleeps" and rank == who:
            time.sleep(20)
        elif kind == "is killed" and rank == who:
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "catches" and rank == who:
            try:
                load_image(step)
            except ValueError:
                logging.exception("skipping a bad image")

    def main():
        kind, who = sys.argv[1], int(sys.argv[2])
        level = logging.DEBUG if kind == "debugs" else logging.INFO
        form = "%(asctime)s %(levelname)s train: %(message)s"
        logging.basicConfig(level=level, format=form, stream=sys.stdout)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
        dist.barrier()  # all have started
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=5))
        for step in range(4000 if kind == "is interrupted" else 8):
            gradient = torch.full((4,), float(step))
            logging.debug("GET shard %d: retry on ConnectionError, 3 tries left", step)
            logging.debug('parsing {"error": null, "shard": %d}', step)
            if step == 3:
                misbehave(kind, who, step, gradient)
            if kind == "is interrupted":
                time.sleep(0.3)
            try:
                sync_gradients(gradient)
            except RuntimeError:
                if kind in ("sleeps", "is killed") and dist.get_rank() == who + 1:
                    torch.load("checkpoints/last.pt")
                raise
            logging.info("step %d loss %.4f", step, 3 - step / 10)
        logging.info("training finished")
        dist.destroy_process_group()

    if __name__ == "__main__":
        main()
"""


def made(case: Case, folder: Path) -> dict[str, str]:
    """Run it in a folder. Returns {file of its logs: text}."""
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(textwrap.dedent(PROGRAM))
    logs = ["--tee", "3"] if case.tee else ["--log-dir", str(folder / "logs"), "--redirects", "3"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={RANKS}", *logs, "train.py", case.kind, str(case.who)]
    with open(folder / LAUNCHER, "wb") as log:
        run = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        try:
            if case.kind == "is interrupted":
                _interrupt(run, folder)
            run.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            raise
    return _texts(folder)


def _interrupt(run: subprocess.Popen, folder: Path) -> None:
    """Do what a terminal does on Ctrl-C, once all ranks train."""
    for _ in range(LIMIT_S):
        time.sleep(1)
        found = sum(len(STEPS.findall(path.read_bytes())) for path in folder.rglob("*.log"))
        if found >= 3 * RANKS or run.poll() is not None:
            os.killpg(run.pid, signal.SIGINT)
            return


def _texts(folder: Path) -> dict[str, str]:
    texts = {}
    for path in sorted(folder.rglob("*.log")):
        text = path.read_text(encoding="utf-8", errors="replace")
        for here, there in (
            (str(folder), "/root/code"),
            (sys.prefix, "/opt/venv"),
            (socket.gethostname(), "gpu-box"),
        ):
            text = text.replace(here, there)
        name = path.relative_to(folder).as_posix()
        texts[re.sub(r"^logs/[^/]+/", "logs/", name)] = text
    return texts


def written(texts: dict[str, str], folder: Path) -> Path:
    """Write logs into a folder. Returns the folder."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
