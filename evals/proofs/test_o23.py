"""O23: the learning rate that is logged is not the one in force."""

import warnings

import pytest
import torch
from torch import nn


def run(log, steps: int = 6):
    """What `log` reads and what the optimizer uses, step by step; the rate is to fall tenfold after 3 steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.1)
    logged, used = [], []
    for _ in range(steps):
        logged.append(log(optimizer, scheduler))
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return logged, used


def test_the_configured_value_is_a_flat_line_while_the_rate_falls():
    logged, used = run(lambda optimizer, scheduler: optimizer.defaults["lr"])
    assert set(logged) == {1.0} and used[-1] == pytest.approx(0.1)


def test_get_lr_applies_the_decay_twice_and_warns_with_the_signature(says):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        logged, used = run(lambda optimizer, scheduler: scheduler.get_lr()[0])
    assert used[3] == pytest.approx(0.1) and logged[3] == pytest.approx(0.01)
    says("O23", str(caught[0].message))


def test_reading_after_the_scheduler_is_one_step_ahead():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    used = optimizer.param_groups[0]["lr"]
    optimizer.step()
    scheduler.step()
    assert used == 0 and scheduler.get_last_lr() == [0.1]


def test_the_fix_both_ways_of_reading_before_the_step_agree_with_what_is_used():
    logged, used = run(lambda optimizer, scheduler: optimizer.param_groups[0]["lr"])
    assert logged == used
    logged, used = run(lambda optimizer, scheduler: scheduler.get_last_lr()[0])
    assert logged == used


def test_a_scheduler_built_on_another_optimizer_leaves_the_rate_alone():
    weight = nn.Parameter(torch.ones(1))
    old, optimizer = torch.optim.SGD([weight], lr=1.0), torch.optim.SGD([weight], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(old, 1, 0.1)
    old.step()
    scheduler.step()
    assert (
        scheduler.get_last_lr() == [pytest.approx(0.1)] and optimizer.param_groups[0]["lr"] == 1.0
    )


@pytest.mark.parametrize("stepped", [True, False])
def test_the_check_shows_whether_the_rate_itself_moves(printed, stepped):
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step, 4 - step) / 2)
    seen = []
    for _ in range(4):
        seen.append(printed("O23", optimizer=optimizer))
        optimizer.step()
        if stepped:
            scheduler.step()
    moving = ["[0.0]", "[0.5]", "[1.0]", "[0.5]"]
    assert seen == (moving if stepped else ["[0.0]"] * 4)
    assert optimizer.defaults["lr"] == 1.0  # what a flat plot shows
