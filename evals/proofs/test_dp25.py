"""DP25: each tensor of a worker that is kept holds a descriptor, and so does each file that nobody closes; the check counts them beside the limit."""

import gc
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import threading
import traceback
from unittest import mock

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
FORK = multiprocessing.get_context("fork") if sys.platform == "linux" else None
SPARE = 60


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def keep(batch):
    return batch


def clone(batch):
    return batch.clone()


def end_of(use, strategy="file_descriptor"):
    """How an epoch of 200 batches ends, each kept as `use` says, in a process that may open 60 more files."""

    def train(answers):
        torch.multiprocessing.set_sharing_strategy(strategy)
        before = descriptors()
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + SPARE, before + SPARE))
        loader, kept = DataLoader(range(200), num_workers=1, multiprocessing_context="fork"), []
        try:
            kept.extend(use(batch) for batch in loader)
            answer = f"{len(kept)} batches"
        except (OSError, RuntimeError) as error:
            answer = traceback.format_exception_only(error)[-1]
        kept.clear()
        answers.put(answer)

    answers = FORK.Queue()
    process = FORK.Process(target=train, args=(answers,))
    process.start()
    answer = answers.get(timeout=60)
    process.join()
    return answer


def test_batches_that_are_kept_end_the_loader_with_a_signature(says):
    says("DP25", end_of(keep))


def test_with_pinned_memory_the_thread_says_so_and_the_loader_only_that_the_thread_is_gone(says):
    """A pretended card, whose pinning copies nothing."""
    card = mock.patch.multiple(
        torch.accelerator,
        is_available=lambda: True,
        current_accelerator=lambda *_: torch.device("cuda"),
        current_device_index=lambda: 0,
        set_device_index=lambda _: None,
    )
    pinning = mock.patch("torch.utils.data._utils.pin_memory.pin_memory", lambda data, _: data)
    wait = mock.patch.object(_MultiProcessingDataLoaderIter._try_get_data, "__defaults__", (0.2,))

    def train(answers):
        threading.excepthook = lambda thread: answers.put(f"{thread.exc_value}")
        limit = descriptors() + SPARE
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        loader = DataLoader(
            range(200), num_workers=1, pin_memory=True, multiprocessing_context="fork"
        )
        with card, pinning, wait:
            try:
                kept = list(loader)
            except RuntimeError as error:
                kept = None
                answers.put(str(error))
        assert kept is None

    answers = FORK.Queue()
    process = FORK.Process(target=train, args=(answers,))
    process.start()
    of_thread, of_loader = answers.get(timeout=60), answers.get(timeout=60)
    process.join()
    says("DP25", of_thread)
    assert of_thread == "received 0 items of ancdata"
    assert of_loader == "Pin memory thread exited unexpectedly"


@pytest.mark.parametrize(
    "use, strategy", [(clone, "file_descriptor"), (keep, "file_system")], ids=["clone", "files"]
)
def test_a_clone_or_the_other_strategy_holds_no_descriptor(use, strategy):
    assert end_of(use, strategy) == "200 batches"


def test_files_that_nobody_closes_end_with_the_signature(says, tmp_path, run_apart):
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); kept = []\n"
    leaking = run_apart(code + "while True: kept.append(open('/dev/null'))")
    says("DP25", leaking.stderr)
    assert not run_apart(code + "for _ in range(99):\n  with open('/dev/null'): pass").stderr


TRAIN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
kept = []
for line in sys.stdin:
    for _ in range(100):
        file = open(sys.argv[2])
        kept.append(file) if sys.argv[1] == "leaks" else file.close()
    print(flush=True)
"""


@pytest.mark.parametrize("kind, growth", [("leaks", 100), ("closes", 0)])
def test_the_lines_of_the_check_show_what_grows_towards_the_limit_and_what_it_is(
    tmp_path, shell_of, kind, growth
):
    script, sample = tmp_path / f"train_{os.getpid()}_{kind}.py", tmp_path / "sample7.npy"
    script.write_text(TRAIN)
    sample.touch()
    count = shell_of("DP25", "open files").replace("train.py", script.name)
    job = subprocess.Popen(
        [sys.executable, script, kind, sample],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def told(code):
        job.stdin.write("\n")
        job.stdin.flush()
        job.stdout.readline()
        out = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
        return [line.split() for line in out.splitlines()]

    with job:
        counts = [
            list(map(int, numbers))
            for _ in range(2)
            for pid, *numbers in told(count)
            if pid == str(job.pid)
        ]
        [*_, kinds] = [told(shell_of("DP25", "uniq -c").replace("PID", str(job.pid)))]
        job.stdin.close()
    [first, limit], [second, _] = counts
    assert limit == 512 and second - first == growth
    opened = re.sub("[0-9]", "", str(sample))
    assert (kinds[0] == ["300", opened]) == (kind == "leaks")


def test_the_second_line_of_the_check_counts_tensors_of_workers_under_one_name(shell_of):
    code = shell_of("DP25", "uniq -c").replace("PID", str(os.getpid()))

    def held():
        out = subprocess.run(["bash", "-c", code], capture_output=True, text=True).stdout
        found = re.search(r"^ *(\d+) /dev/shm/torch___ \(deleted\)$", out, re.M)
        return int(found[1]) if found else 0

    gc.collect()
    before = held()  # other tests of this process may hold some, and their threads add one
    kept = list(DataLoader(range(30), num_workers=1, multiprocessing_context="fork"))
    assert len(kept) == 30 and before + 30 <= held() <= before + 32
