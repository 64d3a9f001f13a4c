"""O8: schedulers in the wrong order or counted in the wrong unit."""

import json
import math
import re
import warnings

import pytest
import torch
from torch.optim import lr_scheduler


def new():
    weight = torch.nn.Parameter(torch.ones(1))
    return weight, torch.optim.SGD([weight], lr=1.0)


def said(run) -> str:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return "\n".join(str(w.message) for w in seen)


def rates(make, ticks: int, order=("optimizer", "scheduler")) -> list[float]:
    """The rate that each optimizer step used."""
    _, optimizer = new()
    scheduler = make(optimizer)
    used = []
    for _ in range(ticks):
        for name in order:
            if name == "scheduler":
                scheduler.step()
            else:
                used.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
    return used


def test_the_scheduler_first_warns_and_skips_the_first_rate(says):
    halving = lambda o: lr_scheduler.ExponentialLR(o, 0.5)
    text = said(lambda: rates(halving, 1, order=("scheduler", "optimizer")))
    says("O8", text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rates(halving, 3, order=("scheduler", "optimizer")) == [0.5, 0.25, 0.125]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rates(halving, 3) == [1.0, 0.5, 0.25]


def test_a_replaced_step_warns(says):
    def run():
        _, optimizer = new()
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.step = lambda: None
        scheduler.step()

    says("O8", said(run))


def test_a_scheduler_of_another_optimizer_warns_and_changes_no_rate(says):
    weight, first = new()
    scheduler = lr_scheduler.ExponentialLR(first, 0.5)
    second = torch.optim.SGD([weight], lr=1.0)  # made anew, after the scheduler

    def run():
        for _ in range(3):
            second.step()
            scheduler.step()

    says("O8", said(run))
    assert second.param_groups[0]["lr"] == 1 and scheduler.get_last_lr() == [0.125]


def test_a_passed_epoch_warns(says):
    def run():
        _, optimizer = new()
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.step()
        scheduler.step(3)

    says("O8", said(run))


def test_one_cycle_counts_its_calls(says):
    cycle = lambda o: lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=10)
    rates(cycle, 10)
    with pytest.raises(ValueError) as error:
        rates(cycle, 11)
    says("O8", str(error.value))


def test_a_length_in_epochs_ticked_per_batch_swings():
    used = rates(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=10), 41)
    assert (
        used[10] == pytest.approx(0, abs=1e-9)
        and used[20] == pytest.approx(1)
        and used[30] == pytest.approx(0, abs=1e-9)
    )


def test_an_epoch_decay_ticked_per_batch_is_gone_after_two_hundred():
    assert rates(lambda o: lr_scheduler.StepLR(o, 30, gamma=0.1), 201)[-1] == pytest.approx(1e-6)


def test_a_warm_up_in_steps_ticked_per_epoch_hardly_starts():
    warm = lambda o: lr_scheduler.LinearLR(o, 1e-3, total_iters=1000)
    assert rates(warm, 11)[-1] < 0.02
    assert rates(warm, 1001)[-1] == pytest.approx(1)


def test_the_right_length_ends_exactly_at_the_last_optimizer_step():
    batches, accumulation, epochs = 10, 4, 3
    _, optimizer = new()
    total = epochs * math.ceil(batches / accumulation)
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    for epoch in range(epochs):
        for i in range(batches):
            if (i + 1) % accumulation == 0 or i + 1 == batches:
                optimizer.step()
                scheduler.step()
        if epoch == 0:
            assert scheduler.last_epoch == 3  # ticks so far: the check of the entry
    assert scheduler.get_last_lr()[0] == pytest.approx(0, abs=1e-9)


def test_a_first_step_skipped_by_the_scaler_gives_the_same_warning_as_a_false_alarm(says):
    def run(scale_only: bool):
        weight, optimizer = new()
        scaler = torch.amp.GradScaler("cpu")
        scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
        scaler.scale(weight.sum() * float("inf")).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if not scale_only or scaler.get_scale() >= before:
            scheduler.step()

    says("O8", said(lambda: run(scale_only=False)))
    assert said(lambda: run(scale_only=True)) == ""


@pytest.mark.parametrize("per_batch", [True, False])
def test_the_check_counts_more_than_one_tick_where_a_length_in_epochs_ticks_per_batch(
    printed, per_batch
):
    weight, optimizer = new()
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)  # epochs
    for batch in range(8):
        optimizer.step()
        if per_batch or batch == 7:
            scheduler.step()
    ticks = int(printed("O8", scheduler=scheduler, optimizer=optimizer).split()[0])
    assert ticks == (8 if per_batch else 1)


@pytest.mark.parametrize("fault", ["per micro-batch", "another optimizer", None])
def test_the_check_counts_the_ticks_and_sees_a_scheduler_that_belongs_elsewhere(printed, fault):
    weight, optimizer = new()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    if fault == "another optimizer":
        optimizer = torch.optim.SGD([weight], lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in range(8):  # two optimizer steps
            if batch % 4 == 3:
                optimizer.step()
            if batch % 4 == 3 or fault == "per micro-batch":
                scheduler.step()
    ticks, rates = printed("O8", scheduler=scheduler, optimizer=optimizer).split(" ", 1)
    computed, in_force = (json.loads(f"[{part}]") for part in re.findall(r"\[(.*?)\]", rates))
    assert (int(ticks) == 2) == (fault != "per micro-batch")
    assert (computed == in_force) == (fault != "another optimizer")
