"""T8: limits that all workers share: one disk, the work per sample, the way to the main process, the cores that they may use."""

import functools
import io
import multiprocessing
import os
import time

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

pytestmark = [
    pytest.mark.alone,
    pytest.mark.filterwarnings("ignore:This DataLoader will create", "ignore:Got pickle error"),
]  # measures seconds


def seconds(dataset, workers, **settings):
    """Of an epoch after its first batch, without any step."""
    if workers:
        settings["multiprocessing_context"] = "fork"
    batches = iter(
        DataLoader(
            dataset, batch_size=settings.pop("batch_size", None), num_workers=workers, **settings
        )
    )
    next(batches)
    started = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - started


class OnOneDisk(Dataset):
    """Whoever reads keeps the others waiting."""

    def __init__(self, reading):
        self.reading, self.disk = reading, multiprocessing.get_context("fork").Lock()

    def __len__(self):
        return 40

    def __getitem__(self, index):
        with self.disk:
            time.sleep(self.reading)
        return index


def test_six_workers_get_no_more_out_of_a_busy_disk_than_two():
    two = seconds(OnOneDisk(0.03), 2)
    assert seconds(OnOneDisk(0.03), 6) > 0.75 * two
    assert seconds(OnOneDisk(0.003), 2) < 0.4 * two  # a tenth to read, and as many workers


def jpeg(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


def timed(work, times=5):
    started = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - started


def test_a_photo_resized_once_costs_a_small_part_of_decoding_it_each_time():
    noise = np.random.default_rng(0).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    photo = Image.fromarray(noise).resize((2000, 1500))
    large, size = jpeg(photo), (340, 255)
    small = jpeg(photo.resize(size))

    def draft():
        image = Image.open(io.BytesIO(large))
        image.draft("RGB", size)
        return image.convert("RGB").resize(size)

    each_time = timed(lambda: Image.open(io.BytesIO(large)).convert("RGB").resize(size))
    assert timed(draft) < 0.5 * each_time
    assert timed(lambda: Image.open(io.BytesIO(small)).convert("RGB")) < 0.1 * each_time


class Batches(Dataset):
    def __init__(self, batch):
        self.batch = batch

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return self.batch()


def test_a_thousand_tensors_in_a_batch_take_many_times_as_long_as_one():
    pieces = Batches(lambda: [torch.zeros(8) for _ in range(1000)])
    assert seconds(Batches(lambda: torch.zeros(1000, 8)), 1) < 0.1 * seconds(pieces, 1)


def test_arrays_travel_through_a_pipe_and_tensors_through_shared_memory():
    as_they_are = {"collate_fn": lambda batch: batch}
    arrays = seconds(Batches(lambda: np.zeros((8, 1000, 1000), np.float32)), 1, **as_they_are)
    assert seconds(Batches(lambda: torch.zeros(8, 1000, 1000)), 1, **as_they_are) < 0.7 * arrays


def test_samples_in_memory_are_faster_without_workers():
    data = TensorDataset(torch.zeros(2000, 4))
    assert seconds(data, 0, batch_size=4) < 0.5 * seconds(data, 2, batch_size=4)


def free(cores, worker):
    os.sched_setaffinity(0, cores)


class Cores(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return len(os.sched_getaffinity(0))


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two cores",
)
def test_workers_inherit_a_mask_of_one_core_and_worker_init_fn_gives_back_the_first_one():
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})  # what some libraries do at import
        loader = {"batch_size": None, "num_workers": 1}
        assert list(DataLoader(Cores(), multiprocessing_context="fork", **loader)) == [1, 1]
        for method in ("fork", "spawn"):
            data = DataLoader(
                Cores(),
                worker_init_fn=functools.partial(free, cores),
                multiprocessing_context=method,
                **loader,
            )
            assert list(data) == [len(cores)] * 2
    finally:
        os.sched_setaffinity(0, cores)


def test_a_lambda_does_not_reach_workers_that_are_not_forked():
    data = DataLoader(
        Cores(),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="spawn",
        worker_init_fn=lambda worker: None,
    )
    with pytest.raises(Exception, match="pickle"):
        list(data)
