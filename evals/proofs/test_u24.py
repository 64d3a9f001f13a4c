"""U24: the loop waits for the loader, and workers take the wait away."""

import time

import pytest
import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

SAMPLES, SECONDS = 32, 0.05


class Slow(Dataset):
    """Stands in for decoding and augmentation."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        time.sleep(SECONDS)
        return torch.zeros(3)


def epoch(loader) -> float:
    started = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - started


def test_without_workers_the_loop_pays_for_every_sample():
    assert epoch(DataLoader(Slow(), batch_size=4)) >= SAMPLES * SECONDS


def test_workers_that_stay_share_the_wait():
    loader = DataLoader(
        Slow(), batch_size=4, num_workers=4, persistent_workers=True, multiprocessing_context="fork"
    )
    epoch(loader)
    assert epoch(loader) < 0.7 * SAMPLES * SECONDS


def test_prefetching_and_staying_need_workers():
    for option in ({"prefetch_factor": 4}, {"persistent_workers": True}):
        with pytest.raises(ValueError, match="num_workers"):
            DataLoader(Slow(), num_workers=0, **option)


def test_the_code_of_the_entry_tells_a_loader_that_sets_the_pace_from_a_quick_one():
    def per_batch(loader):
        return float(shown(block("U24"), loader=loader, time=time).split("batch;")[1].split()[0])

    def slow():
        for _ in range(102):
            time.sleep(0.003)
            yield torch.zeros(1)

    step = 0.003  # as long as a step of the model takes here
    assert per_batch(slow()) >= step > 10 * per_batch(iter([torch.zeros(1)] * 102))
