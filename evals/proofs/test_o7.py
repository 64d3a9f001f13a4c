"""O7: a learning rate far too small, and the range test that finds the band."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy


def setting():
    torch.manual_seed(0)
    x = torch.randn(256, 10)
    y = (x @ torch.randn(10, 3)).argmax(1)
    return nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)), x, y


def run(rate: float, steps: int = 100) -> tuple[float, float, float, float]:
    """First loss, last loss, gradient norm at the end, relative size of the last update of a weight matrix."""
    model, x, y = setting()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    first = None
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
        before = model[2].weight.detach().clone()
        optimizer.step()
        first = first or loss.item()
    update = ((model[2].weight - before).norm() / before.norm()).item()
    return first, loss.item(), norm, update


def test_a_tiny_rate_creeps_with_a_healthy_gradient_and_a_tiny_update():
    first, last, norm, update = run(1e-6)
    assert 0 < first - last < 0.01
    assert norm > 0.1 and 0 < update < 1e-4


def test_the_ladder_of_rates_shows_the_difference_within_a_hundred_steps():
    drops = [first - last for first, last, _, _ in map(run, (1e-6, 1e-5, 1e-4, 1e-3, 1e-2))]
    assert drops == sorted(drops) and drops[-1] > 20 * drops[1]


def test_a_sound_rate_learns_and_moves_weights_by_about_a_thousandth():
    first, last, _, update = run(3e-3)
    assert last < first / 3 and 3e-4 < update < 3e-2


def test_a_range_test_falls_within_the_band_and_rises_beyond_it():
    model, x, y = setting()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    curve = []
    for step in range(100):
        rate = 1e-4 * 10 ** (step * 7 / 99)  # 1e-4 to 1e3
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        curve.append((loss.item(), rate))
    lowest, best = min(curve)
    assert curve[0][0] - curve[10][0] < 0.01  # far too small: nothing happens
    assert lowest < curve[0][0] * 0.75 and 1e-1 < best < 1e2
    assert not curve[-1][0] < 2 * lowest  # far too large: up or NaN


def checked(printed, rate: float, trainable: bool = True) -> list[float]:
    """What the check prints around the last of twenty steps."""
    model, x, y = setting()
    held = model if trainable else setting()[0]
    optimizer = torch.optim.AdamW(held.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(20):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        w_old = model[2].weight.detach().clone()
        optimizer.step()
    text = printed("O7", optimizer=optimizer, w_new=model[2].weight, w_old=w_old)
    return [float(word) for word in text.split()]


def test_the_check_sees_a_tiny_step_a_healthy_one_and_none_at_all(printed):
    for rate in (1e-7, 1e-6):
        shown, update = checked(printed, rate)
        assert shown == rate and 0 < update < 1e-4
    assert 3e-4 < checked(printed, 3e-3)[1] < 3e-2
    assert checked(printed, 3e-3, trainable=False)[1] == 0  # O2: the optimizer holds others
