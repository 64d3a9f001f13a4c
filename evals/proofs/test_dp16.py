"""DP16: what a forked worker inherits from other threads: a lock that is held, a pool without its threads."""

import multiprocessing
import re

import pytest
from check_code import span

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"
)

ITEMS = """
import faulthandler, threading
import torch

LOCK = threading.Lock()

class Locked(torch.utils.data.Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, i):
        with LOCK:
            return i

class Threads(torch.utils.data.Dataset):
    def __init__(self, threads):
        self.threads = threads
    def __len__(self):
        return 2
    def __getitem__(self, i):
        if self.threads:
            torch.set_num_threads(self.threads)
        return (torch.zeros(2**16) + 1).sum()

stand = STAND
"""
DUMP = "Timeout (0:00:00.500000)!"
HELD = """
import sys, threading
import items
import torch.multiprocessing
from torch.utils.data import DataLoader

def hold(held, free):
    with items.LOCK:
        held.set()
        free.wait()

if __name__ == "__main__":
    method, by = sys.argv[1:]
    if by == "default":
        torch.multiprocessing.set_start_method(method)
    held, free = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(held, free))
    thread.start()
    held.wait()
    stuck = method == "fork"
    loader = DataLoader(
        items.Locked(), num_workers=1, timeout=2 if stuck else 60, worker_init_fn=items.stand if stuck else None,
        multiprocessing_context=None if by == "default" else method,
    )
    batches = iter(loader)  # the workers start here
    free.set()
    thread.join()  # long before the first batch nobody holds the lock any more
    print("batches", len(list(batches)))
"""
POOL = """
import sys, time
import items, torch
from torch.utils.data import DataLoader

torch.set_num_threads(2)
torch.zeros(2**16) * 2  # the pool of OpenMP starts
threads = int(sys.argv[1])
loader = DataLoader(
    items.Threads(threads), num_workers=1, timeout=2 if threads > 1 else 60, worker_init_fn=items.stand, multiprocessing_context="fork"
)
batches = iter(loader)
next(batches)
time.sleep(1.5)  # both batches are made, and the worker waits for the next index
print("batches", 1 + len(list(batches)))
"""
TOKENS = """
import os, sys
if sys.argv[1] != "unset":
    os.environ["TOKENIZERS_PARALLELISM"] = sys.argv[1]
from tokenizers import Tokenizer, models
from torch.utils.data import DataLoader

words = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
words.encode_batch(["a"] * 1000)

def collate(batch):
    return len(words.encode_batch(["a"] * 1000))

loader = DataLoader([0, 1], num_workers=1, collate_fn=collate, timeout=2 if sys.argv[1] == "true" else 60, multiprocessing_context="fork")
print("batches", len(list(loader)))
"""


@pytest.fixture
def run_file(tmp_path, run_apart):
    """The code as a script of its own: a worker that isn't forked imports it again."""
    dump = re.fullmatch(
        r"DataLoader\(.*, worker_init_fn=(lambda.*)\)", span("DP16", "faulthandler.")
    )
    (tmp_path / "items.py").write_text(ITEMS.replace("STAND", dump[1].replace("60", "0.5")))

    def run(code, *arguments):
        (tmp_path / "script.py").write_text(code)
        start = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path('script.py', run_name='__main__')"
        return run_apart(start, "script.py", *arguments)

    return run


def test_a_lock_that_was_held_at_the_fork_stays_locked_in_the_worker(run_file):
    stopped = run_file(HELD, "fork", "argument")
    assert "DataLoader timed out after 2 seconds" in stopped.stderr and not stopped.stdout
    assert stopped.stderr.count(DUMP) > 1, "it tells again, so a hang that comes later shows, too"
    told = stopped.stderr.split(DUMP)[1].splitlines()
    assert "in __getitem__" in told[2] and "items.py" in told[2], (
        "the stack of the worker ends at the lock"
    )


@pytest.mark.parametrize("by", ["argument", "default"])
def test_a_worker_of_the_forkserver_has_a_lock_of_its_own(run_file, by):
    done = run_file(HELD, "forkserver", by)
    assert done.stdout.strip() == "batches 2", done.stderr


def test_a_pool_of_threads_is_gone_after_the_fork(run_file):
    stopped = run_file(POOL, 2).stderr
    assert "DataLoader timed out" in stopped and "in __getitem__" in stopped.split(DUMP)[1]
    done = run_file(POOL, 0)  # the loader has set one thread, which needs no pool
    assert done.stdout.strip() == "batches 2", done.stderr
    told = done.stderr.split(DUMP)[1]
    assert re.search(r"in get\n.*worker\.py.* in _worker_loop\n", told), "a worker without work"
    assert "__getitem__" not in told


@pytest.mark.parametrize("setting", ["true", "false", "unset"])
def test_tokenizers_hangs_only_where_its_own_protection_is_forbidden(run_file, setting):
    pytest.importorskip("tokenizers")
    result = run_file(TOKENS, setting)
    if setting == "true":
        assert "DataLoader timed out" in result.stderr
    else:
        assert "batches 2" in result.stdout, result.stderr


def test_a_mapped_array_is_sent_whole_to_a_worker_that_is_not_forked_and_a_tensor_is_not(tmp_path):
    numpy = pytest.importorskip("numpy")
    from multiprocessing.reduction import ForkingPickler

    import torch

    numpy.save(tmp_path / "a.npy", numpy.zeros(2**20, numpy.uint8))
    mapped = numpy.load(tmp_path / "a.npy", mmap_mode="r")
    assert len(ForkingPickler.dumps(mapped)) > 2**20
    assert len(ForkingPickler.dumps(torch.zeros(2**20, dtype=torch.uint8))) < 2**12
