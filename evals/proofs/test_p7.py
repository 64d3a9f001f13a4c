"""P7: clipping gradients that still carry the loss scale."""

import pytest
import torch
from torch import nn


def train(unscale: bool, optimizer_class=torch.optim.SGD, max_norm: float = 1.0, steps: int = 50):
    """Last loss, first norm that clipping returned, length of the first step."""
    torch.manual_seed(0)
    model, truth = nn.Linear(8, 1), torch.randn(8, 1)
    optimizer = optimizer_class(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu")
    norms, moved = [], []
    for _ in range(steps):
        x = torch.randn(32, 8)
        loss = (model(x) - x @ truth).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        before = model.weight.detach().clone()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
        moved.append((model.weight.detach() - before).norm().item())
    return loss.item(), norms[0], moved[0]


def test_without_unscale_the_norm_is_65536_times_larger_and_the_step_that_much_smaller():
    _, right_norm, right_step = train(unscale=True, steps=1)
    _, norm, step = train(unscale=False, steps=1)
    assert norm == pytest.approx(right_norm * 65536, rel=0.01)
    assert step == pytest.approx(right_step / 65536, rel=0.2)


def test_sgd_stands_still_whatever_the_limit_and_learns_once_unscaled():
    for limit in (1.0, 5.0):
        assert train(False, max_norm=limit)[0] > 10
    assert train(True)[0] < 1


def test_adam_hides_the_mistake():
    assert train(False, torch.optim.Adam)[0] < 0.1 and train(True, torch.optim.Adam)[0] < 0.1


def test_unscaling_twice_raises_the_signature(says):
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError) as error:
        scaler.unscale_(optimizer)
    says("P7", str(error.value))


def test_unscaling_twice_is_allowed_after_an_update():
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(layer(torch.ones(1, 2)).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


@pytest.mark.parametrize("unscaled", [False, True])
def test_the_check_sees_a_missing_unscale_and_passes_a_present_one(printed, unscaled):
    layer = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(layer(torch.ones(4, 2)).square().mean() + layer.bias.sum()).backward()
    if unscaled:
        scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    first, second = map(float, printed("P7", norm=norm, scaler=scaler).split())
    usual = [0.1 < number < 100 for number in (first, second)]
    assert usual == ([True, False] if unscaled else [False, True])
