"""DP18: a loader's worker is a daemon, so it can't start processes, and no loader in a daemon can start workers."""

import multiprocessing
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

FORK = multiprocessing.get_context("fork")


class Items(Dataset):
    def __init__(self, work):
        self.work = work

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.work(i)


def with_processes(i):
    with FORK.Pool(1) as pool:
        return pool.map(abs, [-i])[0]


def with_threads(i):
    with ThreadPoolExecutor(1) as pool:
        return next(pool.map(abs, [-i]))


def first(work, workers):
    kind = "fork" if workers else None
    return next(
        iter(DataLoader(Items(work), num_workers=workers, multiprocessing_context=kind))
    ).item()


def test_a_pool_in_the_dataset(says):
    with pytest.raises(AssertionError) as stop:
        first(with_processes, workers=1)
    says("DP18", str(stop.value))


def test_the_same_without_workers_or_with_threads():
    assert first(with_processes, workers=0) == first(with_threads, workers=1) == 0


def answer_of(daemon):
    def train(answers):
        try:
            answers.put(str(first(abs, workers=1)))
        except AssertionError as stop:
            answers.put(traceback.format_exception_only(stop)[-1])

    answers = FORK.Queue()
    process = FORK.Process(target=train, args=(answers,), daemon=daemon)
    process.start()
    answer = answers.get(timeout=60)
    process.join()
    return answer


def test_a_loader_in_a_daemon(says):
    says("DP18", answer_of(daemon=True))
    assert answer_of(daemon=False) == "0"


def test_a_forked_child_inherits_the_default_device():
    answers = FORK.Queue()
    torch.set_default_device("meta")
    try:
        process = FORK.Process(target=lambda: answers.put(str(torch.get_default_device())))
        process.start()
    finally:
        torch.set_default_device(None)
    assert answers.get(timeout=60) == "meta"
    process.join()


def test_the_line_of_the_check_shows_the_device_of_a_sample_that_is_not_on_the_cpu(printed):
    """`meta` stands for the card: torch prints the device of any tensor that isn't on the CPU."""
    on_device = [{"x": torch.ones(2, device="meta"), "y": 1}]
    assert "device='meta'" in printed("DP18", dataset=on_device)
    assert "device" not in printed("DP18", dataset=[{"x": torch.ones(2), "y": 1}])


def test_the_text_of_torch_in_a_fork_of_a_process_that_used_cuda(monkeypatch, says):
    """This build has no CUDA, so no fork can break it: torch is told that one did."""
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(RuntimeError) as error:
        torch.cuda.init()
    says("DP18", str(error.value))
