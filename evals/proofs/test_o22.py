"""O22: the size of a step against the size of the weights."""

import torch
from torch import nn
from torch.nn.functional import mse_loss


def train(lr: float, scale: float = 1.0, dtype=torch.float32) -> dict[str, float]:
    """Fifty AdamW steps: first and last loss, then what the last step did to the first layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1)).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    x = torch.randn(256, 20).to(dtype)
    y = x[:, :1] * x[:, 1:2]
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        (loss * scale).backward()
        before = model[0].weight.detach().clone()
        optimizer.step()
        losses.append(loss.item())
    after = model[0].weight.detach()
    return {
        "first": losses[0],
        "last": losses[-1],
        "gradient": model[0].weight.grad.norm().item(),
        "ratio": ((after - before).norm() / before.norm()).item(),
        "unmoved": (after == before).float().mean().item(),
    }


def test_the_gradient_norm_does_not_tell_the_size_of_an_adam_step():
    one, thousand = train(1e-3), train(1e-3, scale=1000.0)
    assert thousand["gradient"] > 500 * one["gradient"]
    assert 0.9 < thousand["ratio"] / one["ratio"] < 1.1


def test_a_ratio_of_a_millionth_goes_with_a_loss_that_stands():
    run = train(1e-7)
    assert run["ratio"] < 1e-5 and run["last"] > 0.99 * run["first"]


def test_a_ratio_near_a_thousandth_goes_with_a_loss_that_falls():
    run = train(1e-3)
    assert 1e-3 < run["ratio"] < 1e-2 and run["last"] < 0.8 * run["first"]


def test_a_ratio_far_above_goes_with_a_loss_that_jumps_up():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 0.3)
    x = torch.randn(256, 20)
    y = x[:, :1] * x[:, 1:2]
    loss = mse_loss(model(x), y)
    loss.backward()
    before = model[0].weight.detach().clone()
    optimizer.step()
    assert (model[0].weight - before).norm() / before.norm() > 0.5
    assert mse_loss(model(x), y) > 3 * loss


def test_bf16_weights_round_small_steps_away_and_fp32_weights_do_not():
    assert train(1e-5, dtype=torch.bfloat16)["unmoved"] > 0.9
    assert train(1e-5)["unmoved"] < 0.01


def test_the_check_prints_a_ratio_that_tells_too_small_fitting_and_none(printed):
    def checked(rate: float, stepped: bool = True) -> float:
        torch.manual_seed(0)
        p = nn.Parameter(torch.randn(64, 20))
        optimizer = torch.optim.AdamW([p], rate)
        for _ in range(5):
            old = p.detach().clone()
            p.grad = torch.randn_like(p)
            if stepped:
                optimizer.step()
        return float(printed("O22", p=p, old=old))

    assert 0 < checked(1e-7) < 1e-6 and 1e-4 < checked(1e-3) < 1e-2 < checked(0.3)
    assert checked(1e-3, stepped=False) == 0
