"""P11: nan that comes with a batch."""

import numpy
import pytest
import torch
from check_code import block, shown
from torch import nn
from torch.nn.functional import cross_entropy


def first_bad_step(seed_of_order: int, skip: int | None = None) -> int | None:
    """Sample 137 of 256 holds one nan; weights are fresh in each run."""
    torch.manual_seed(0)
    data = torch.randn(256, 4)
    data[137, 2] = torch.nan
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    order = torch.randperm(256, generator=torch.Generator().manual_seed(seed_of_order)).split(8)
    for step, rows in enumerate(order):
        if step == skip:
            continue
        optimizer.zero_grad()
        loss = cross_entropy(model(data[rows]), rows % 2)
        if not loss.isfinite():
            return step
        loss.backward()
        optimizer.step()
    return None


def test_the_step_is_the_same_in_every_run_and_moves_with_the_order():
    steps = [first_bad_step(seed) for seed in (1, 1, 2)]
    assert steps[0] == steps[1] != steps[2] and None not in steps


def test_without_that_batch_the_run_is_normal():
    assert first_bad_step(1, skip=first_bad_step(1)) is None


def test_the_batch_alone_gives_nan_even_with_fresh_weights():
    x = torch.randn(8, 4)
    x[3, 2] = torch.nan
    assert nn.Linear(4, 2)(x).sum().isnan()


@pytest.mark.parametrize("divide", [False, True])
def test_a_batch_of_ignored_labels_has_a_nan_loss_and_a_zero_gradient(divide):
    logits = torch.randn(2, 3, requires_grad=True)
    labels = torch.full((2,), -100)
    if divide:
        loss = cross_entropy(logits, labels, reduction="sum") / (labels != -100).sum()
    else:
        loss = cross_entropy(logits, labels)
    loss.backward()
    assert loss.isnan() and not logits.grad.any()


def test_a_count_of_at_least_one_makes_that_loss_zero():
    logits, labels = torch.randn(2, 3), torch.full((2,), -100)
    assert cross_entropy(logits, labels, reduction="sum") / (labels != -100).sum().clamp_min(1) == 0


def sound(kind) -> list:
    if kind == "pairs":
        return [(torch.randn(4), i) for i in range(5)]
    to = torch.Tensor.tolist if kind == "lists" else torch.Tensor.clone
    return [{"x": to(torch.randn(4)), "labels": to(torch.tensor([1, -100]))} for _ in range(5)]


@pytest.mark.parametrize("kind", ["tensors", "lists", "pairs"])
def test_the_scan_of_the_entry_names_the_bad_samples(kind):
    scan = block("P11", "fix")
    samples = sound(kind)
    assert shown(scan, ds=samples, numpy=numpy) == ""
    if kind == "pairs":
        samples[1][0][0] = torch.inf
        assert shown(scan, ds=samples, numpy=numpy) == "1 [0]"
    else:
        samples[1]["x"][0] = float("inf")
        samples[3]["labels"][0] = -100
        assert shown(scan, ds=samples, numpy=numpy) == "1 ['x']\n3 []"


def test_the_check_sees_a_bad_value_or_no_label_and_passes_a_sound_batch(printed):
    x, labels = torch.randn(8, 4), torch.tensor([1, -100])
    assert printed("P11", x=x, labels=labels) == "True True 1"
    assert printed("P11", x=x.log(), labels=labels) == "False True 1"
    assert printed("P11", x=x, labels=torch.tensor([0.5, torch.nan])) == "True False 2"
    assert printed("P11", x=x, labels=torch.full((2,), -100)) == "True True 0"
