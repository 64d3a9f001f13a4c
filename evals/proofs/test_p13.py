"""P13: one odd batch, and a limit that is always hit."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest
import torch
from packaging.version import Version
from torch import nn
from torch.nn.functional import mse_loss


def train(
    max_norm: float, optimizer_class=torch.optim.SGD, odd_batch: bool = False, steps: int = 200
):
    torch.manual_seed(0)
    model, truth = nn.Linear(8, 1), torch.randn(8, 1)
    optimizer = optimizer_class(model.parameters(), lr=0.05)
    losses, norms = [], []
    for step in range(steps):
        x = torch.randn(32, 8)
        y = x @ truth
        if odd_batch and step == 100:
            x, y = 100 * x, -100 * y
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def test_one_odd_batch_undoes_the_training_and_clipping_keeps_it():
    free, _ = train(float("inf"), odd_batch=True)
    clipped, _ = train(1.0, odd_batch=True)
    assert free[99] < 1e-5 and free[101] > 1e6
    assert clipped[99] < 1e-3 and clipped[101] < 0.01 and clipped[-1] < 1e-6


def test_clipping_returns_the_norm_from_before_clipping():
    _, norms = train(1.0, odd_batch=True)
    assert norms[100] > 1e4 > 10 > norms[99]


def share_clipped(max_norm, optimizer_class):
    losses, norms = train(max_norm, optimizer_class, steps=300)
    return sum(n > max_norm for n in norms) / len(norms), losses[-1]


def test_a_limit_far_below_the_usual_norm_fires_at_every_step_and_stops_sgd():
    share, loss = share_clipped(1e-3, torch.optim.SGD)
    assert share == 1 and loss > 5
    share, loss = share_clipped(1.0, torch.optim.SGD)
    assert share < 0.5 and loss < 1e-6


def test_adam_learns_all_the_same_because_it_takes_out_the_size():
    share, loss = share_clipped(1e-3, torch.optim.Adam)
    assert share > 0.9 and loss < 1e-2


def test_one_layer_with_a_huge_gradient_shrinks_all_the_others():
    small, huge = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
    small.grad, huge.grad = torch.ones(4), torch.full((4,), 1e4)
    nn.utils.clip_grad_norm_([small, huge], 1.0)
    assert small.grad.norm() == pytest.approx(1e-4, rel=0.01)


def test_the_check_tells_odd_batches_a_limit_too_low_and_a_sound_run_apart(printed):
    def checked(norms, max_norm):
        text = printed("P13", norms=torch.tensor(norms), max_norm=max_norm)
        share, median, largest = map(float, text.split())
        return share < 0.2, largest > 10 * median

    torch.manual_seed(0)
    usual = (0.5 + 0.3 * torch.rand(200)).tolist()
    assert checked([*usual[:190], *(300.0,) * 10], 2.0) == (True, True)
    assert checked(usual, 1e-2) == (False, False)
    assert checked(usual, 2.0) == (True, False)


def test_deepspeed_clips_unless_told_otherwise_since_0_19_3():
    folder = importlib.util.find_spec("deepspeed").submodule_search_locations[0]
    text = Path(folder, "runtime", "constants.py").read_text()
    default = float(re.search(r"^GRADIENT_CLIPPING_DEFAULT = ([\d.]+)", text, re.M)[1])
    new = Version(importlib.metadata.version("deepspeed")) >= Version("0.19.3")
    assert default == (1.0 if new else 0.0)
