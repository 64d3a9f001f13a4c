"""T1: loader and compute run side by side; only work on the one that sets the pace makes the run faster."""

import itertools
import time

import pytest
import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.alone  # measures seconds


class Slow(Dataset):
    """Stands in for decoding."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 60

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.zeros(3)


def loader(seconds):
    return DataLoader(Slow(seconds), batch_size=None, num_workers=1, multiprocessing_context="fork")


def per_second(batches, step, skip=6, count=25):
    it = iter(batches)
    for _ in range(skip):
        step(next(it))
    start = time.perf_counter()
    for _ in range(count):
        step(next(it))
    return count / (time.perf_counter() - start)


def compute(seconds):
    return lambda batch: time.sleep(seconds)


@pytest.mark.parametrize(
    ("data", "work", "limit"), [(0.03, 0.005, "data"), (0.002, 0.03, "compute")]
)
def test_the_three_numbers_name_the_limit_and_only_its_cure_helps(data, work, limit):
    as_it_is = per_second(loader(data), compute(work))
    alone = {
        "data": per_second(loader(data), lambda batch: None),
        "compute": per_second(itertools.repeat(torch.zeros(3)), compute(work)),
    }
    assert min(alone, key=alone.get) == limit
    assert as_it_is > 0.6 * alone[limit]
    assert max(alone.values()) > 2 * as_it_is
    cured = {
        "data": per_second(loader(data / 4), compute(work)),
        "compute": per_second(loader(data), compute(work / 4)),
    }
    assert cured.pop(limit) > 1.6 * as_it_is
    (other,) = cured.values()
    assert other < 1.3 * as_it_is


def test_the_batch_that_is_used_again_asks_the_loader_for_nothing():
    asked = []

    class Counted(Slow):
        def __getitem__(self, index):
            asked.append(index)
            return torch.zeros(3)

    first = next(iter(DataLoader(Counted(0), batch_size=None)))
    per_second(itertools.repeat(first), lambda batch: None)
    assert len(asked) == 1


@pytest.mark.parametrize(("data", "work", "limit"), [(0.02, 0.002, "b"), (0.001, 0.02, "c")])
def test_the_lines_of_the_entry_name_the_limit(data, work, limit, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(Slow, "__len__", lambda self: 80)
    code = block("T1")
    told = shown(
        code,
        time=time,
        torch=torch,
        itertools=itertools,
        loader=loader(data),
        to_gpu=lambda batch: batch,
        train_step=compute(work),
    )
    rates = {name: float(rate) for name, rate in (line.split() for line in told.splitlines())}
    other = "c" if limit == "b" else "b"
    assert 0.6 * rates[limit] < rates["a"] < 0.5 * rates[other]
