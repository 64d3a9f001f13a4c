"""DP9: a cache in the dataset, with workers."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

pytestmark = pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)
SAMPLES, WORKERS = 32, 2


class Cached(Dataset):
    """A sample tells whether the cache held it, the worker, and how many samples that worker holds by now."""

    def __init__(self):
        self.cache = {}

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        hit = index in self.cache
        self.cache[index] = torch.full((4,), index)
        info = get_worker_info()
        return torch.tensor([hit, info.id if info else 0, len(self.cache)])


class Shared(Dataset):
    def __init__(self):
        self.data = torch.zeros(SAMPLES, 4).share_memory_()
        self.have = torch.zeros(SAMPLES, dtype=torch.bool).share_memory_()

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        hit = bool(self.have[index])
        self.data[index], self.have[index] = index, True
        return torch.tensor([hit, 0, 0])


def epochs(dataset, workers=WORKERS, count=3, **options):
    """(hits, samples held by all workers together) of each epoch."""
    torch.manual_seed(0)
    if workers:
        options["multiprocessing_context"] = "fork"
    loader = DataLoader(dataset, num_workers=workers, shuffle=True, **options)
    seen = []
    for _ in range(count):
        held, hits = {}, 0
        for hit, worker, size in (batch[0].tolist() for batch in loader):
            held[worker], hits = size, hits + hit
        seen.append((hits, sum(held.values())))
    return seen


def test_without_workers_the_second_epoch_is_served_by_the_cache():
    assert epochs(Cached(), workers=0) == [(0, 32), (32, 32), (32, 32)]


def test_with_workers_the_cache_is_thrown_away_after_each_epoch_and_the_parents_stays_empty():
    dataset = Cached()
    assert epochs(dataset) == [(0, 32), (0, 32), (0, 32)]
    assert dataset.cache == {}


def test_persistent_workers_go_on_to_hold_the_data_set_once_each():
    [_, first], [_, second], [_, third] = epochs(Cached(), persistent_workers=True)
    assert first == SAMPLES < second < third <= WORKERS * SAMPLES


def test_a_shared_tensor_is_hit_by_all_workers_from_the_second_epoch_on():
    assert [hits for hits, _ in epochs(Shared())] == [0, SAMPLES, SAMPLES]


def test_a_change_in_place_spoils_a_shared_cache_unless_a_clone_is_returned():
    data = Shared().data
    data[0].clone().add_(1)
    assert data[0].sum() == 0
    data[0].add_(1)
    assert data[0].sum() == 4


READER = """
import mmap, os, sys

MIB = 1 << 20
kind, file = sys.argv[1:]
with open(file, "wb") as out:
    out.truncate(32 * MIB)
mapped = mmap.mmap(os.open(file, os.O_RDONLY), 0, prot=mmap.PROT_READ)
shared, cache = mmap.mmap(-1, 32 * MIB), {}
if not os.fork():
    for start in map(int, sys.stdin):
        for i in range(start, start + 16):
            place = slice(i * MIB, (i + 1) * MIB)
            if kind == "cache":
                cache[i] = os.urandom(MIB)
            elif kind == "shared":
                shared[place] = os.urandom(MIB)
            else:
                sum(mapped[place])
        print(os.getpid(), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(
    "kind, low, high", [("cache", 15, 17), ("shared", -1, 1), ("mapped", -1, 1)]
)
def test_the_line_of_the_check_sees_a_cache_of_a_worker_and_neither_shared_nor_mapped_samples(
    tmp_path, shell_of, kind, low, high
):
    """A process forks a worker, which reads 16 samples of 1 MiB, and 16 more."""
    script = tmp_path / f"train_{os.getpid()}_{kind}.py"
    script.write_text(READER)
    code = shell_of("DP9", "smaps_rollup").replace("train.py", script.name)
    job = subprocess.Popen(
        [sys.executable, script, kind, tmp_path / "samples"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    sizes = []
    with job:
        for start in (0, 16):
            job.stdin.write(f"{start}\n")
            job.stdin.flush()
            worker = job.stdout.readline().strip()
            told = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
            sizes += [line.split()[1:] for line in told.splitlines() if line.split()[0] == worker]
        job.stdin.close()
    [(first, unit), (second, _)] = sizes
    assert unit == "MiB" and low < float(second) - float(first) < high


HELD = """
import os, sys
import numpy

held = [str(i) for i in range(500_000)] if sys.argv[1] == "list" else numpy.arange(5_000_000)

def own():
    return sum(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Private_Dirty")) / 1024

if not os.fork():
    before = own()
    for one in held[::10]:
        pass
    print(own() - before, flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("kind, low, high", [("list", 15, 60), ("array", -1, 2)])
def test_a_worker_that_only_reads_a_list_copies_its_objects_and_of_an_array_nothing(
    kind, low, high
):
    """The list of half a million short texts takes some 30 MB, the array 40."""
    done = subprocess.run(
        [sys.executable, "-c", HELD, kind], capture_output=True, text=True, timeout=60
    )
    assert low < float(done.stdout) < high, done.stderr


class Dying(Cached):
    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_the_kernel_kills_is_reported_with_the_signature(says):
    with pytest.raises(RuntimeError) as error:
        list(DataLoader(Dying(), num_workers=1, multiprocessing_context="fork"))
    says("DP9", f"{error.value}\n{error.value.__cause__}")
