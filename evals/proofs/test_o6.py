"""O6: weight decay inside Adam, and decay on norm gains."""

import math

import pytest
import torch
from torch import nn

Adam, AdamW = torch.optim.Adam, torch.optim.AdamW


def pull(optimizer_class, size: float, decay: float = 0.01, steps: int = 1000) -> float:
    """How far the decay alone moved a weight of 1.0 whose gradient is noise of that size."""
    ends = []
    for weight_decay in (0.0, decay):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.ones(1))
        optimizer = optimizer_class([weight], lr=1e-3, weight_decay=weight_decay, foreach=True)
        for _ in range(steps):
            weight.grad = size * torch.randn(1)
            optimizer.step()
        ends.append(weight.item())
    return ends[0] - ends[1]


def test_adam_drags_weights_with_small_gradients_far_more_than_others():
    small, middle, large = (pull(Adam, size) for size in (1e-4, 1e-2, 1.0))
    assert small > 0.5 and 0.2 < middle < small and large < 0.02


def test_adamw_pulls_every_weight_by_rate_times_decay():
    for size in (1e-4, 1e-2, 1.0):
        assert pull(AdamW, size) == pytest.approx(1e-3 * 0.01 * 1000, rel=0.1)


def shrunk(optimizer_class, decay: float) -> float:
    weight = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = optimizer_class([weight], lr=1e-3, weight_decay=decay)
    for _ in range(100):
        weight.grad = torch.zeros_like(weight)
        optimizer.step()
    return 1 - weight.item()


def test_without_a_gradient_the_value_of_adams_decay_makes_no_difference():
    assert (
        shrunk(Adam, 1e-4)
        == pytest.approx(shrunk(Adam, 1e-1), rel=1e-3)
        == pytest.approx(0.1, rel=0.05)
    )
    assert shrunk(AdamW, 1e-1) == pytest.approx(1000 * shrunk(AdamW, 1e-4), rel=0.02)


def test_one_group_shrinks_norm_gains_and_two_groups_spare_them():
    def gain_after(groups, steps=1000):
        optimizer = AdamW(groups, lr=1e-3)
        for _ in range(steps):
            for p in model.parameters():
                p.grad = torch.zeros_like(p)
            optimizer.step()
        return model[1].weight[0].item()

    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    one = [{"params": list(model.parameters()), "weight_decay": 0.1}]
    assert gain_after(one) == pytest.approx(math.exp(-1e-3 * 0.1 * 1000), rel=1e-3)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    two = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    assert gain_after(two) == 1.0


def test_the_defaults_of_the_two_classes_differ():
    weight = [nn.Parameter(torch.ones(1))]
    assert Adam(weight).param_groups[0]["weight_decay"] == 0
    assert AdamW(weight).param_groups[0]["weight_decay"] == 0.01


def test_the_check_tells_decay_inside_adam_from_adamw_in_two_groups(printed):
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    matrices = {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1}
    rest = {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}

    def checked(optimizer_class, parameters, **options):
        return printed("O6", optimizer=optimizer_class(parameters, **options))

    assert checked(Adam, model.parameters(), weight_decay=0.01) == "Adam [(0.01, False, 4)]"
    assert checked(AdamW, model.parameters()) == "AdamW [(0.01, True, 4)]"  # one group
    assert checked(AdamW, [matrices, rest]) == "AdamW [(0.1, True, 1), (0.0, True, 3)]"
    assert checked(Adam, model.parameters()) == "Adam [(0, False, 4)]"
    decoupled = checked(Adam, model.parameters(), weight_decay=0.1, decoupled_weight_decay=True)
    assert decoupled == "Adam [(0.1, True, 4)]"


def test_adam_with_the_flag_shrinks_weights_as_adamw_does():
    def shrunken(optimizer_class, **options):
        weight = nn.Parameter(torch.ones(1))
        optimizer = optimizer_class([weight], lr=1e-3, weight_decay=0.1, **options)
        weight.grad = torch.ones(1)
        optimizer.step()
        return weight.item()

    assert shrunken(Adam, decoupled_weight_decay=True) == shrunken(AdamW) != shrunken(Adam)
