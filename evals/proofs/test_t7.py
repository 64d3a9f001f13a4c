"""T7: a wait every few steps. With batches that are all too slow only more loading helps; with a few slow ones a deeper line or any order does."""

import time

import pytest
import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

pytestmark = [
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]  # measures seconds
STEP = 0.05


class Timed(Dataset):
    """A sample is a batch; `seconds(index)` is how long it takes to load."""

    def __init__(self, length, seconds):
        self.length, self.seconds = length, seconds
        self.loaded = torch.zeros(1, dtype=torch.int64).share_memory_()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.seconds(index))
        self.loaded.add_(1)
        return index


def loader(dataset, workers, **settings):
    return DataLoader(
        dataset, batch_size=None, num_workers=workers, multiprocessing_context="fork", **settings
    )


def waits(dataset, workers, **settings):
    """Seconds that the loop waits for each batch, and the batches in the order in which they came."""
    batches, seconds, order = iter(loader(dataset, workers, **settings)), [], []
    while True:
        started = time.perf_counter()
        try:
            order.append(int(next(batches)))
        except StopIteration:
            return seconds, order
        seconds.append(time.perf_counter() - started)
        time.sleep(STEP)


def even(index):
    return 6 * STEP


def uneven(index):
    return 6 * STEP if index % 8 == 7 else 0.0


def test_equally_slow_batches_leave_a_wait_every_num_workers_steps():
    """6 steps to load, 3 workers: 2 steps a batch. A deeper line ends up as empty as the default one."""
    late = {}
    for depth in (2, 6):
        seconds, _ = waits(Timed(24, even), 3, prefetch_factor=depth)
        assert sum(seconds[::3]) > 0.75 * sum(seconds) and min(seconds[::3]) > STEP
        late[depth] = sum(seconds)
    assert late[6] > 0.8 * late[2]
    assert sum(waits(Timed(24, even), 8)[0]) < 0.4 * late[2]


def test_a_few_slow_batches_are_waited_for_though_the_workers_have_time():
    """On average 0.4 steps to load, and still a wait at each slow batch: in order, and 4 batches ahead at most."""
    dataset = Timed(24, uneven)
    seconds, order = waits(dataset, 2)
    assert order == list(range(24))
    slow = [wait for index, wait in enumerate(seconds) if index % 8 == 7]
    assert min(slow) > STEP

    deep, order = waits(dataset, 2, prefetch_factor=6)
    assert order == list(range(24)) and sum(deep[1:]) < 0.4 * sum(seconds[1:])

    free, order = waits(dataset, 2, in_order=False)
    assert order != list(range(24)) and sorted(order) == list(range(24))
    assert sum(free[1:16]) < 0.4 * sum(
        seconds[1:16]
    )  # at the end of the epoch nothing else is left to hand out


def test_the_line_holds_prefetch_factor_times_workers_batches():
    for depth in (2, 5):
        dataset = Timed(40, lambda index: 0)
        batches = iter(loader(dataset, 2, prefetch_factor=depth))
        next(batches)
        time.sleep(0.5)
        assert dataset.loaded.item() == 2 * depth + 1


def test_a_few_slow_batches_are_the_same_ones_with_another_number_of_workers():
    """What tells them from equally slow ones: the batches stay, and no remainder is theirs alone."""
    slow = {3, 10}
    for workers in (2, 3):
        seconds, _ = waits(Timed(14, lambda index: 12 * STEP if index in slow else 0.0), workers)
        assert {index for index, wait in enumerate(seconds) if wait > 3 * STEP} - {0} == slow


def test_the_lines_of_the_check_name_the_rhythm_the_slow_batches_or_nothing():
    def waited_for(seconds, workers):
        data = loader(Timed(32, seconds), workers)
        lines = shown(block("T7"), time=time, loader=data, STEP=STEP).splitlines()
        told = [line.split() for line in lines[1:]]  # without the start
        return [(int(n), int(rest)) for n, rest, wait, _ in told if float(wait) > STEP]

    rhythm = waited_for(even, 3)
    remainders = {remainder for _, remainder in rhythm}  # one, or two if a worker started late
    assert len(rhythm) >= 5 and len(remainders) < 3
    few = [number for number, _ in waited_for(uneven, 2)]
    # Of the first eight the slow one may be loaded before a slow start is over.
    assert {15, 23, 31} <= set(few) and len(few) <= 6
    assert not waited_for(lambda index: 0.2 * STEP, 2)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_the_lines_of_the_check_end_with_a_stream_that_has_no_length():
    data = DataLoader(Stream(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    told = shown(block("T7"), time=time, loader=data, STEP=STEP)
    assert all(line.split()[1] == "0" for line in told.splitlines())
