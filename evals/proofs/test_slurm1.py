"""SLURM1: a handler that only sets a flag lets the loop finish its step; one that saves meets the lock of another save."""

import os
import signal
import threading

import pytest
import torch
from check_code import block
from launch import run_ranks
from remote_gpu_trainer.catalogue import bundle

SAVES = """\
import signal, sys, torch

def save_now(signum, frame):
    torch.save(model.state_dict(), "last.pt")
    sys.exit(0)

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(1000):
    optimizer.step()

signal.signal(signal.SIGUSR1, save_now)
"""


@pytest.fixture(autouse=True)
def handlers():
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def parts():
    """The fix's two parts: the handler, and what the loop does after a step."""
    code = block("SLURM1", "fix")
    return code.split("\n\n")


def test_a_step_is_finished_before_the_save_and_the_file_loads(tmp_path):
    handler, after_a_step = parts()
    weights, path, saved = torch.zeros(2), str(tmp_path / "last.pt"), []

    def save(where):
        saved.append(where)
        torch.save(weights, where)

    names = {"os": os, "signal": signal, "sys": __import__("sys"), "torch": torch}
    names |= {"device": "cpu", "world_size": 1, "rank": 0, "save": save, "path": path}
    exec(handler, names)
    with pytest.raises(SystemExit) as left:
        for step in range(10):
            weights[0] += 1
            if step == 3:
                os.kill(os.getpid(), signal.SIGUSR1)  # in the middle of the update
            weights[1] += 1
            exec(after_a_step, names)
    assert left.value.code == 75 and saved == [f"{path}.tmp"]
    assert torch.load(path).tolist() == [4, 4]


def test_two_ranks_of_one_job_both_leave_with_the_code_and_one_whole_file(tmp_path):
    handler, after_a_step = parts()
    path = tmp_path / "last.pt"
    script = f"""\
import os, signal, sys, torch
torch.distributed.init_process_group("gloo")
rank, world_size, device, path = torch.distributed.get_rank(), 2, "cpu", {str(path)!r}
def save(where):
    if rank == 0:
        torch.save(torch.ones(2), where)
{handler}
if rank == 1:
    os.kill(os.getpid(), signal.SIGUSR1)
try:
    exec({after_a_step!r})
except SystemExit as left:
    print("left with", left.code, flush=True)
torch.distributed.destroy_process_group()
"""
    done = run_ranks(script)
    assert done.lines("left with") == ["left with 75", "left with 75"], done.output
    assert torch.load(path).tolist() == [1, 1]
    assert not path.with_name("last.pt.tmp").exists()


@pytest.mark.parametrize("code", [0, 1, 75])
def test_the_last_line_requeues_a_warned_run_alone_and_hands_every_code_on(provider, code):
    line = next(c for c in bundle.load().get("SLURM1").fix.split("`") if c.startswith("srun "))
    provider.program("srun", f"#!/bin/sh\nexit {code}\n")
    provider.program("scontrol", '#!/bin/sh\necho "$@"\n')
    done = provider.done(line, SLURM_JOB_ID="4711")
    assert done.returncode == code
    assert done.stdout.strip() == ("requeue 4711" if code == 75 else "")


def test_a_save_within_the_handler_meets_half_an_update_and_a_lock_that_is_held():
    weights, lock, seen = torch.zeros(2), threading.Lock(), []

    def save_now(signum, frame):
        seen.append((weights.tolist(), lock.acquire(blocking=False)))

    signal.signal(signal.SIGUSR1, save_now)
    with lock:  # as a logger or an earlier save holds it
        weights[0] += 1
        os.kill(os.getpid(), signal.SIGUSR1)
        weights[1] += 1
    assert seen == [([1, 0], False)]


def test_the_check_shows_whether_a_handler_saves(provider, shell_of):
    check = shell_of("SLURM1", "grep -n")
    script = provider.place / "train.py"
    script.write_text(SAVES)
    assert "torch.save" in provider.run(check)
    script.write_text(SAVES.replace("signum, frame", "number, _"))
    assert "torch.save" in provider.run(check)
    script.write_text("\n\n".join(parts()))  # the loop saves soon after the handlers are set
    shown = provider.done(check).stdout
    assert "signal.signal(s, ask)" in shown and "def ask" in shown and "save(" not in shown
