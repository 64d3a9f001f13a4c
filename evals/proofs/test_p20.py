"""P20: weights kept in bf16 round the optimizer's small steps away."""

import ast
import copy
import re

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle
from torch import nn

FP32, BF16 = torch.float32, torch.bfloat16


def train(weights, rate, steps=200, **options):
    """Last loss, share of the weights that the last step moved, and the gains of the norm layer after AdamW at this rate."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 1)).to(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, **options)
    x = torch.randn(256, 32)
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=BF16):
            loss = nn.functional.mse_loss(model(x.to(weights)).float(), 2 * x[:, :1])
        loss.backward()
        before = copy.deepcopy(model).parameters()
        optimizer.step()
    assert all(p.grad.isfinite().all() and p.grad.any() for p in model.parameters())
    pairs = list(zip(before, model.parameters()))
    return (
        loss.item(),
        sum((a != b).sum().item() for a, b in pairs) / sum(b.numel() for _, b in pairs),
        model[1].weight.detach(),
    )


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}])
def test_bf16_weights_stand_still_where_fp32_weights_under_autocast_learn(options):
    stuck, learning = train(BF16, 1e-4, **options), train(FP32, 1e-4, **options)
    assert stuck[0] > 1.3 * learning[0]
    assert stuck[1] < 0.2 and learning[1] > 0.95
    assert (stuck[2] == 1).all() and (
        learning[2] != 1
    ).all()  # gains begin at 1.0 and need the largest step of all


def test_a_larger_rate_moves_the_rest_but_not_the_gains():
    loss, moved, gains = train(BF16, 1e-3)
    assert loss < 0.1 and moved > 0.2 and (gains == 1).all()


@pytest.mark.parametrize("rate, largest", [(1e-3, 0.512), (1e-4, 0.0512), (1e-5, 0.00512)])
def test_no_weight_above_512_times_the_rate_moves(rate, largest):
    weights = torch.logspace(-6, 0, 20_000).to(BF16)
    still = weights[weights - rate == weights]
    assert (
        still.min() < largest
        and (weights[weights > largest] - rate == weights[weights > largest]).all()
    )
    assert (weights[weights < largest / 4] - rate != weights[weights < largest / 4]).all()


@pytest.mark.parametrize("weights, fades", [(FP32, True), (BF16, False)])
def test_weight_decay_does_nothing_to_bf16_weights(weights, fades):
    p = nn.Parameter(torch.full((4,), 0.7, dtype=weights))
    start, optimizer = p.detach().clone(), torch.optim.AdamW([p], lr=1e-3, weight_decay=0.1)
    for _ in range(3000):
        p.grad = torch.zeros_like(p)
        optimizer.step()
    assert (p < 0.6).all() if fades else torch.equal(p, start)


@pytest.mark.parametrize("fused", [False, True])
def test_the_second_moment_of_bf16_weights_never_falls_again_after_one_large_gradient(fused):
    def second_moment(weights):
        p = nn.Parameter(torch.ones(1, dtype=weights))
        optimizer = torch.optim.Adam([p], lr=1e-3, fused=fused)
        for gradient in [1.0] + 3000 * [1e-3]:
            p.grad = torch.full_like(p, gradient)
            optimizer.step()
        return optimizer.state[p]["exp_avg_sq"].item()

    assert second_moment(FP32) < 1e-4 and second_moment(BF16) > 9e-4


@pytest.mark.parametrize("weights, follows", [(FP32, True), (BF16, False)])
def test_an_average_with_decay_0_9999_never_leaves_its_start_in_bf16(weights, follows):
    average = torch.ones(4, dtype=weights)
    for _ in range(2000):
        average.lerp_(torch.zeros_like(average), 1e-4)
    assert (average < 0.9).all() if follows else (average == 1).all()


def test_stochastic_rounding_keeps_the_small_steps_on_average():
    torch.manual_seed(0)
    weight = torch.ones(10_000, dtype=BF16)
    for _ in range(100):
        bits = (weight.float() - 1e-4).view(torch.int32) + torch.randint(
            0, 1 << 16, weight.shape, dtype=torch.int32
        )
        weight = (bits & -65536).view(torch.float32).to(BF16)
    assert abs(weight.float().mean().item() - 0.99) < 5e-4


@pytest.mark.parametrize("weights, rate, stuck", [(BF16, 1e-5, True), (FP32, 1e-5, False)])
def test_the_check_shows_shares_far_below_one_in_bf16_and_nearly_one_in_fp32(
    printed, weights, rate, stuck
):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.Linear(64, 1)).to(weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    names = {"torch": torch, "model": model}
    old = re.search(r"`(old = [^`]*)`", bundle.load().get("P20").check)[1]
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(256, 32).to(weights)).float().square().mean().backward()
        exec(old, names)
        optimizer.step()
    dtypes, shares = printed("P20", **names).split(" ", 1)
    assert dtypes == f"{{{weights}}}"
    shares = ast.literal_eval(shares)
    assert max(shares[0], shares[2]) < 0.3 if stuck else min(shares[0], shares[2]) > 0.95
