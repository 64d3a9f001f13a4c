"""T4: without workers the process that trains loads every sample itself, between two steps; with workers it loads none."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from check_code import span
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.alone  # measures seconds

BATCHES, LOAD, STEP = 12, 0.04, 0.04


class Files(Dataset):
    """Stands in for reading and decoding; a sample tells who loaded it, and when."""

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        time.sleep(LOAD)
        return torch.tensor([os.getpid(), time.monotonic()], dtype=torch.float64)


def epoch(**settings):
    """Seconds of an epoch with its steps, the processes that loaded it, and how many samples were ready before the first step ended."""
    loader = DataLoader(Files(), batch_size=1, **settings)
    started, ended, samples = time.monotonic(), [], []
    for batch in loader:
        samples.append(batch[0])
        time.sleep(STEP)  # a step that leaves the CPU alone, as one on a GPU does
        ended.append(time.monotonic())
    return (
        ended[-1] - started,
        {int(s[0]) for s in samples},
        sum(s[1].item() < ended[0] for s in samples),
    )


def test_the_default_is_the_main_process_and_loading_and_steps_add_up():
    seconds, processes, early = epoch()
    assert DataLoader(Files()).num_workers == 0
    assert processes == {os.getpid()} and early == 1
    assert seconds >= BATCHES * (LOAD + STEP)


def test_workers_load_while_the_step_runs():
    seconds, processes, early = epoch(num_workers=2, multiprocessing_context="fork")
    assert os.getpid() not in processes and len(processes) == 2
    assert early > 1
    assert seconds < 0.85 * BATCHES * (LOAD + STEP)


def test_the_trainer_loads_in_the_main_process_until_told_otherwise(tmp_path):
    from transformers import TrainingArguments

    assert TrainingArguments(output_dir=tmp_path, report_to=[]).dataloader_num_workers == 0


LOOP = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
from torch.utils.data import DataLoader, Dataset
class Files(Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index):
        time.sleep(0.2)
        return index
print("up", flush=True)
for _ in DataLoader(Files(), num_workers=int(sys.argv[1]), multiprocessing_context="fork" if int(sys.argv[1]) else None): pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs py-spy on Linux")
@pytest.mark.parametrize("workers", [0, 2])
def test_the_stack_of_the_trainer_tells_who_loads(workers):
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if not program:
        pytest.skip("needs py-spy: pip install py-spy")
    with subprocess.Popen(
        [sys.executable, "-c", LOOP, str(workers)], stdout=subprocess.PIPE, start_new_session=True
    ) as job:
        try:
            assert job.stdout.readline() == b"up\n"
            time.sleep(1)
            _, *arguments = span("T4", "py-spy dump").replace("PID", str(job.pid)).split()
            stack = subprocess.run(
                [program, *arguments], capture_output=True, text=True, timeout=15
            ).stdout
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    own, with_workers = "__getitem__" in stack and "fetch" in stack, "_try_get_data" in stack
    assert "_next_data" in stack and (own, with_workers) == (workers == 0, workers > 0), stack
