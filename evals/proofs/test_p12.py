"""P12: steps that are too large for the curvature, or for an Adam average that lags."""

import pytest
import torch
from torch import nn


def losses(rate: float, steps: int = 200) -> list[float]:
    """Gradient descent on a bowl whose steepest curvature is 10: the critical rate is 2 / 10."""
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=rate)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = 0.5 * (torch.tensor([10.0, 1.0]) * x.square()).sum()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_twentieth_above_the_critical_rate_diverges_and_below_it_converges():
    assert losses(0.21)[-1] > 1e10 and losses(0.19)[-1] < 1e-10


def test_with_a_warm_up_the_loss_falls_first_and_explodes_once_the_ramp_passes_the_critical_rate():
    x = torch.tensor([1.0, 50.0], requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.3)
    ramp = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-3, total_iters=100)
    loss_log, norm_log = [], []
    for _ in range(160):
        optimizer.zero_grad()
        loss = 0.5 * (torch.tensor([10.0, 1.0]) * x.square()).sum()
        loss.backward()
        norm_log.append(nn.utils.clip_grad_norm_([x], float("inf")).item())
        optimizer.step()
        ramp.step()
        loss_log.append(loss.item())
    best = loss_log.index(min(loss_log))
    assert (
        60 < best < 140
        and loss_log[best] < loss_log[0] / 100
        and loss_log[-1] > 1e3 * loss_log[best]
    )
    assert norm_log[best + 5] > norm_log[best]


def step_sizes(beta2: float, jump: float = 100.0) -> list[float]:
    """Steps of Adam, in units of the rate, when gradients become `jump` times larger after 2000 quiet ones."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=1.0, betas=(0.9, beta2), weight_decay=0.0)
    for i in range(2000):
        weight.grad = torch.tensor([1e-3 if i % 2 else -1e-3])
        optimizer.step()
    sizes = []
    for _ in range(6):
        before = weight.item()
        weight.grad = torch.tensor([1e-3 * jump])
        optimizer.step()
        sizes.append(abs(weight.item() - before))
    return sizes


def test_after_a_quiet_stretch_adam_steps_five_times_the_rate_and_with_a_shorter_memory_less_than_once():
    slow, fast = step_sizes(0.999), step_sizes(0.95)
    assert slow[0] == pytest.approx(2.8, abs=0.1) and slow[-1] == pytest.approx(5.6, abs=0.1)
    assert fast[0] == pytest.approx(0.45, abs=0.01) and fast[-1] < 1


@pytest.mark.parametrize("gradient", [1e-6, 1.0, 1e3])
def test_the_first_adam_step_is_as_long_as_the_rate_whatever_the_gradient(gradient):
    weight = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.0)
    weight.grad = torch.tensor([gradient])
    optimizer.step()
    assert abs(weight.item()) == pytest.approx(1e-3, rel=0.02)


def jumps(rate: float, odd_batch: bool) -> bool:
    """Whether the loss of the same forty batches ever rises tenfold within two steps."""
    torch.manual_seed(0)
    model, truth = nn.Linear(8, 1), torch.randn(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    found = []
    for step in range(40):
        x = torch.randn(32, 8)
        y = x @ truth
        if odd_batch and step == 20:
            x, y = 100 * x, -100 * y
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return any(later > 10 * earlier for earlier, later in zip(found, found[2:]))


def test_the_check_tells_the_rate_from_an_odd_batch():
    assert jumps(1.5, odd_batch=False) and not jumps(0.15, odd_batch=False)
    assert jumps(0.15, odd_batch=True) and jumps(0.05, odd_batch=True)
