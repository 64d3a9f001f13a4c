"""DP15: tensors of workers lie in /dev/shm."""

import os
import resource
import shutil
import signal
import sys
from collections import UserDict

import pytest
import torch
from check_code import block, shown
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm")
MIB = 1 << 20


class Images(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((MIB,), index, dtype=torch.uint8)


class Dying(Images):
    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGBUS)


def as_numpy(samples):
    return torch.stack(samples).numpy()


def no_space(worker):
    """Stands in for a full /dev/shm: no file of this worker may grow beyond 1 MiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))


def batch(dataset=None, workers=1, **options):
    if workers:
        options["multiprocessing_context"] = "fork"
    return next(iter(DataLoader(dataset or Images(), batch_size=4, num_workers=workers, **options)))


def file_behind(tensor):
    """The file that the memory of a tensor is mapped from, or ''."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if start <= tensor.data_ptr() < end:
                return " ".join(line.split()[5:])
    return ""


@pytest.fixture(params=["file_descriptor", "file_system"])
def strategy(request):
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(request.param)
    yield request.param
    torch.multiprocessing.set_sharing_strategy(before)


def test_a_workers_batch_lies_in_dev_shm_under_either_strategy(strategy):
    assert file_behind(batch()).startswith("/dev/shm/torch_")


def test_without_workers_or_as_numpy_it_does_not():
    assert "/dev/shm" not in file_behind(batch(workers=0))
    assert "/dev/shm" not in file_behind(torch.from_numpy(batch(collate_fn=as_numpy)))


def test_a_batch_that_does_not_fit_fails_with_a_signature_under_either_strategy(says, strategy):
    with pytest.raises(RuntimeError) as error:
        batch(worker_init_fn=no_space)
    says("DP15", str(error.value))


def test_numpy_batches_pass_where_tensors_do_not_fit():
    assert batch(worker_init_fn=no_space, collate_fn=as_numpy).nbytes == 4 * MIB


def test_a_bus_error_in_a_worker_is_reported_with_the_signature(says):
    with pytest.raises(RuntimeError) as error:
        batch(Dying())
    says("DP15", f"{error.value}\n{error.value.__cause__}")


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("depth, fits", [(1, True), (2**20, False)])
def test_the_lines_of_the_check_compare_what_waits_with_the_room(depth, fits):
    """Batches of 6 MiB against the room of this machine; those that don't fit are only counted."""
    workers = 2

    class Labelled(Images):
        def __getitem__(self, index):
            return torch.zeros(3 * MIB // 2, dtype=torch.uint8), "a word"

    loader = DataLoader(
        Labelled(),
        batch_size=4,
        num_workers=workers,
        prefetch_factor=depth,
        multiprocessing_context="fork",
    )
    code = shown(block("DP15"), loader=loader, DataLoader=DataLoader, torch=torch)
    waiting, room = map(float, code.split())
    assert waiting == workers * depth * 6
    assert room == pytest.approx(shutil.disk_usage("/dev/shm").total / MIB)
    assert (waiting < room) == fits


def as_transformers_does(samples):
    return UserDict(images=torch.stack(samples))


def test_the_lines_of_the_check_count_a_batch_that_is_like_a_dict():
    loader = DataLoader(
        Images(),
        batch_size=2,
        num_workers=1,
        multiprocessing_context="fork",
        collate_fn=as_transformers_does,
    )
    waiting, _ = shown(block("DP15"), loader=loader, DataLoader=DataLoader, torch=torch).split()
    assert float(waiting) == 1 * 2 * 2


def test_eight_workers_with_64_images_each_need_617_mb():
    assert 8 * 2 * torch.empty(64, 3, 224, 224, device="meta").nbytes / 1e6 == pytest.approx(
        617, abs=1
    )
