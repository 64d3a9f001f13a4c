"""O19: one learning rate for a new head and a pretrained backbone."""

import copy
import functools

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy


def data(rows: int, seed: int, classes: int):
    """The old task has 6 classes, the new one 4; both read the same three hidden features."""
    x = torch.randn(rows, 50, generator=torch.Generator().manual_seed(seed))
    world = torch.Generator().manual_seed(99)
    features = torch.tanh(x @ torch.randn(50, 3, generator=world) / 3)
    tasks = {6: torch.randn(3, 6, generator=world), 4: torch.randn(3, 4, generator=world)}
    return x, (features @ tasks[classes]).argmax(1)


def accuracy(backbone, head, x, y) -> float:
    return (head(backbone(x)).argmax(1) == y).float().mean().item()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small matrices: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pretrained(one_thread):
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(50, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
    head = nn.Linear(64, 6)
    x, y = data(8000, 1, 6)
    optimizer = torch.optim.Adam([*backbone.parameters(), *head.parameters()], 3e-3)
    for _ in range(200):
        rows = torch.randint(0, 8000, (256,))
        optimizer.zero_grad()
        cross_entropy(head(backbone(x[rows])), y[rows]).backward()
        optimizer.step()
    return backbone, head


@pytest.fixture(scope="module")
def fine_tune(pretrained):
    @functools.cache
    def run(backbone_lr: float, head_lr: float) -> tuple[float, float, float]:
        """Training loss and test accuracy on the new task, and what is left of the old one."""
        backbone, old_head = copy.deepcopy(pretrained[0]), pretrained[1]
        torch.manual_seed(1)
        head = nn.Linear(64, 4)
        optimizer = torch.optim.Adam(
            [
                {"params": backbone.parameters(), "lr": backbone_lr},
                {"params": head.parameters(), "lr": head_lr},
            ]
        )
        x, y = data(30, 3, 4)
        for _ in range(60):
            optimizer.zero_grad()
            loss = cross_entropy(head(backbone(x)), y)
            loss.backward()
            optimizer.step()
        new = accuracy(backbone, head, *data(2000, 4, 4))
        return loss.item(), new, accuracy(backbone, old_head, *data(2000, 2, 6))

    return run


def test_the_head_s_rate_for_all_is_worse_than_a_frozen_backbone_and_forgets(fine_tune):
    loss, new, old = fine_tune(1e-2, 1e-2)
    _, frozen_new, frozen_old = fine_tune(0.0, 1e-2)
    assert loss < 0.01  # the training loss looks perfect
    assert new < frozen_new - 0.1 and old < frozen_old - 0.15


def test_the_backbone_s_rate_for_all_leaves_the_head_near_its_start(fine_tune):
    loss, new, _ = fine_tune(1e-5, 1e-5)
    assert loss > 1.2  # ln 4 = 1.39
    assert new < fine_tune(0.0, 1e-2)[1] - 0.3


def test_the_fix_two_rates_beat_every_single_one_and_keep_the_old_task(fine_tune):
    _, new, old = fine_tune(1e-4, 1e-2)
    assert new > max(fine_tune(lr, lr)[1] for lr in (1e-2, 1e-3, 1e-4, 1e-5)) + 0.05
    assert old > fine_tune(0.0, 1e-2)[2] - 0.03


def test_the_head_first_and_then_everything_at_the_low_rate_does_as_well(fine_tune, pretrained):
    backbone, old_head = copy.deepcopy(pretrained[0]), pretrained[1]
    torch.manual_seed(1)
    head = nn.Linear(64, 4)
    x, y = data(30, 3, 4)
    for parameters, lr in [
        ([*head.parameters()], 1e-2),
        ([*backbone.parameters(), *head.parameters()], 1e-4),
    ]:
        optimizer = torch.optim.Adam(parameters, lr)
        for _ in range(60):
            backbone.zero_grad()
            optimizer.zero_grad()
            cross_entropy(head(backbone(x)), y).backward()
            optimizer.step()
    assert accuracy(backbone, head, *data(2000, 4, 4)) > fine_tune(1e-2, 1e-2)[1] + 0.1
    assert accuracy(backbone, old_head, *data(2000, 2, 6)) > fine_tune(1e-2, 1e-2)[2] + 0.15


def groups():
    return torch.optim.SGD(
        [{"params": [nn.Parameter(torch.ones(1))], "lr": lr} for lr in (1e-5, 1e-3)]
    )


def test_one_cycle_with_a_single_maximum_puts_both_groups_at_one_rate():
    optimizer = groups()
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=10)
    assert optimizer.param_groups[0]["lr"] == optimizer.param_groups[1]["lr"]
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-5, 1e-3], total_steps=10)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(optimizer.param_groups[1]["lr"] / 100)


def test_a_lambda_schedule_keeps_the_ratio_of_the_groups():
    optimizer = groups()
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    assert [g["lr"] for g in optimizer.param_groups] == pytest.approx([5e-6, 5e-4])


@pytest.mark.parametrize("backbone_lr, too_high", [(1e-2, True), (1e-4, False)])
def test_the_check_finds_a_backbone_that_is_too_fast_and_passes_a_sound_one(
    fine_tune, backbone_lr, too_high
):
    full = fine_tune(backbone_lr, 1e-2)[1]
    alone, tenth = fine_tune(0.0, 1e-2)[1], fine_tune(backbone_lr / 10, 1e-2)[1]
    assert (alone > full and tenth > full) == too_high
