"""T3: the share that the loop waits for the loader, and the name under which `top` shows the workers."""

import itertools
import os
import pathlib
import re
import sys
import time

import pytest
import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.alone  # measures seconds


SKIP = 10  # the workers' start is no part of the share


class Slow(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 40

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.zeros(3)


def waited(loader, step) -> float:
    wait = work = 0.0
    t = time.perf_counter()
    for number, batch in enumerate(loader):
        now = time.perf_counter()
        wait += (now - t) * (number >= SKIP)
        t = now
        step(batch)
        now = time.perf_counter()
        work += (now - t) * (number >= SKIP)
        t = now
    return wait / (wait + work)


def loader(seconds, workers=1):
    return DataLoader(
        Slow(seconds),
        batch_size=None,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )


def test_the_share_tells_data_from_compute():
    assert waited(loader(0.02), lambda batch: time.sleep(0.004)) > 0.5
    assert waited(loader(0.002), lambda batch: time.sleep(0.02)) < 0.3


def test_workers_that_keep_up_take_the_wait_away():
    work = lambda batch: time.sleep(0.02)
    alone = waited(loader(0.02, workers=0), work)
    assert alone > 0.4
    assert waited(loader(0.02, workers=2), work) < 0.7 * alone


class Name(Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return pathlib.Path(f"/proc/{os.getpid()}/comm").read_text().strip()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_workers_have_a_name_of_their_own():
    (name,) = DataLoader(Name(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    assert name == "pt_data_worker"


def test_the_lines_of_the_check_tell_a_late_loader_from_one_that_keeps_up(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def share(seconds, step):
        printed = shown(
            block("T3"),
            time=time,
            torch=torch,
            loader=itertools.islice(loader(seconds, workers=0), 12),
            train_step=lambda batch: time.sleep(step),
        )
        return int(re.fullmatch(r"waited for data (\d+)%", printed)[1])

    assert share(0.02, step=0.004) > 60
    assert share(0.001, step=0.03) < 15
