"""T18: a step costs nearly the same for one row as for many, and a larger batch with less accumulation gives the same gradients."""

import time

import pytest
import torch
from check_code import block, shown
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.alone  # measures seconds

ROWS = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))


class Launches(TorchDispatchMode):
    """Counts the operations that a card would get as kernels."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        *(m for _ in range(20) for m in (torch.nn.Linear(32, 32), torch.nn.Tanh()))
    )


def update(net, batch):
    """One optimizer step over all 64 rows in pieces of `batch`: (operations, gradients)."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    pieces = ROWS.split(batch)
    with Launches() as launches:
        for piece in pieces:
            (net(piece).square().mean() / len(pieces)).backward()
        optimizer.step()
    return launches.count, [p.grad.clone() for p in net.parameters()]


def test_a_batch_of_64_needs_as_many_operations_as_a_batch_of_one():
    def operations(rows):
        net = network()
        with Launches() as launches:
            net(ROWS[:rows]).square().mean().backward()
        return launches.count

    assert operations(64) == operations(1)


def test_accumulating_64_single_rows_needs_many_times_the_operations_for_the_same_gradients():
    many, accumulated = update(network(), batch=1)
    few, at_once = update(network(), batch=64)
    assert many > 40 * few
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(accumulated, at_once, strict=True))


def test_the_step_hardly_grows_while_rows_a_second_rise():
    net = network()

    def seconds(rows):
        def once():
            start = time.perf_counter()
            net(ROWS[:rows]).square().mean().backward()
            return time.perf_counter() - start

        return min(once() for _ in range(30))

    one, all_rows = seconds(1), seconds(64)
    assert all_rows < 8 * one  # 64 times the rows in less than 8 times the time


def test_accelerate_starts_high_and_goes_down(monkeypatch):
    accelerate = pytest.importorskip("accelerate")
    tried = []

    @accelerate.utils.find_executable_batch_size(starting_batch_size=128)
    def train(batch_size):
        tried.append(batch_size)
        if batch_size > 100:
            raise RuntimeError("CUDA out of memory.")
        return batch_size

    assert train() == 92 and tried == [128, 115, 103, 92]


def test_the_lines_of_the_check_tell_a_small_batch_from_a_busy_card(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def rates(seconds):
        def step(size):
            clock[0] += seconds(size)

        printed = shown(block("T18"), step=step, make_batch=lambda size: size)
        return [float(line.split()[1]) for line in printed.splitlines()]

    small = rates(lambda size: 0.005)
    assert all(later > 1.6 * earlier for earlier, later in zip(small, small[1:]))
    busy = rates(lambda size: 0.0005 * size)
    assert busy[-1] < 1.1 * busy[0]
