"""T25: what makes each step a little longer than the one before, counted in operations and numbers, and what keeps it level."""

import subprocess
import sys
import time

import pytest
import torch
from check_code import shown, span
from operation_counts import operations
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


def steps(step, count=5):
    """The number of operations of each step."""
    return [sum(operations(step).values()) for _ in range(count)]


def growth(counts):
    return [later - earlier for earlier, later in zip(counts, counts[1:])]


def watch(module, given, out):
    out.detach().norm()


def hooks(model):
    return sum(len(m._forward_hooks) for m in model.modules())


def test_a_hook_registered_in_each_step_adds_its_work_each_time():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.ones(2, 4)

    def step():
        model[0].register_forward_hook(watch)
        model(x)

    assert set(growth(steps(step))) == {2}  # detach and norm, once more in each step
    assert hooks(model) == 5


@pytest.mark.parametrize(
    "register",
    ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"],
)
def test_the_check_counts_each_kind_of_hook_on_modules(register):
    model = nn.Sequential(nn.Linear(4, 4))
    code = span("T25", "_forward_hooks")
    for at in range(3):
        assert int(shown(code, model=model)) == at
        getattr(model[0], register)(lambda *given: None)


def test_a_hook_that_is_removed_leaves_the_step_level():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.ones(2, 4)

    def step():
        handle = model[0].register_forward_hook(watch)
        try:
            model(x)
        finally:
            handle.remove()

    assert set(growth(steps(step))) == {0} and hooks(model) == 0


def recurrent(detached):
    cell, state = nn.RNNCell(3, 3), [torch.zeros(2, 3)]

    def step():
        state[0] = cell(torch.ones(2, 3), state[0].detach() if detached else state[0])
        state[0].sum().backward(retain_graph=not detached)

    return steps(step)


def test_a_state_that_is_carried_on_with_its_graph_makes_backward_longer_each_step():
    assert all(more > 0 for more in growth(recurrent(detached=False))[1:])
    assert set(growth(recurrent(detached=True))[1:]) == {0}


class Numbers(TorchDispatchMode):
    """Counts the numbers that the operations named take in."""

    def __init__(self, name):
        super().__init__()
        self.name, self.n = name, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if self.name in str(function):
            self.n += sum(
                t.numel() for t in torch.utils._pytree.tree_leaves(args) if torch.is_tensor(t)
            )
        return function(*args, **(kwargs or {}))


def handled(name, call):
    with Numbers(name) as seen:
        call()
    return seen.n


def test_outputs_joined_in_each_step_are_copied_again_and_again():
    kept = [torch.empty(0)]

    def step():
        kept[0] = torch.cat([kept[0], torch.ones(10)])

    assert [handled("aten.cat", step) for _ in range(4)] == [10, 20, 30, 40]
    parts = [torch.ones(10) for _ in range(4)]
    assert handled("aten.cat", lambda: torch.cat(parts)) == 40


def test_a_metric_computed_in_each_step_sorts_all_that_came_before_until_reset():
    from torchmetrics.classification import BinaryAveragePrecision

    metric = BinaryAveragePrecision()

    def step():
        metric.update(torch.linspace(0, 1, 8), torch.tensor([0, 1] * 4))
        metric.compute()

    first, second, third = (handled("sort", step) for _ in range(3))
    assert 0 < first < second < third
    metric.reset()
    assert handled("sort", step) == first


def test_lightning_now_appends_to_its_csv_file(tmp_path):
    from lightning.pytorch.loggers import CSVLogger

    logger = CSVLogger(tmp_path)
    for number in range(3):
        logger.log_metrics({"loss": 1.0}, step=number)
        logger.save()
        assert logger.experiment.metrics == []  # before 2.1 all rows stayed and were written anew
    assert len((tmp_path / "lightning_logs/version_0/metrics.csv").read_text().splitlines()) == 4


def test_subnormal_numbers_are_flushed_on_demand():
    code = "import torch; x = torch.full((4,), 1e-38); print((x * 0.01 > 0).any().item(), torch.set_flush_denormal(True), (x * 0.01 > 0).any().item())"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert told == ["True", "True", "False"]


def test_the_stopwatch_names_the_part_that_grew():
    """The check of the entry: five parts at two steps; here the metrics part goes through all that came before."""
    seen, took = [], {}
    for step in range(1, 2001):
        marks = [time.perf_counter()]
        torch.ones(4) @ torch.ones(4)
        marks.append(time.perf_counter())
        seen.append(float(step))
        sum(seen)
        marks.append(time.perf_counter())
        for name, begin, end in zip(("forward", "metrics"), marks, marks[1:]):
            took.setdefault((name, step > 1900), []).append(
                end - begin
            ) if step <= 100 or step > 1900 else None
    middle = {key: sorted(values)[len(values) // 2] for key, values in took.items()}
    ratio = {name: middle[name, True] / middle[name, False] for name in ("forward", "metrics")}
    assert ratio["metrics"] > 3 * ratio["forward"]


def test_the_sum_of_the_check_grows_with_hooks_that_stay_and_not_with_removed_ones():
    code = span("T25", "_forward_hooks")
    for removed, sums in ((False, [1, 2, 3]), (True, [0, 0, 0])):
        model, told = nn.Sequential(nn.Linear(4, 4)), []
        for _ in range(3):
            handle = model[0].register_forward_hook(watch)
            model(torch.ones(2, 4))
            if removed:
                handle.remove()
            told.append(int(shown(code, model=model)))
        assert told == sums
