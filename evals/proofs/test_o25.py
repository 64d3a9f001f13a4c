"""O25: ReLU units that answer zero to every input and never come back."""

import torch
from check_code import block
from torch import nn
from torch.nn.functional import mse_loss


def train(activation, lr: float):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(10, 64), activation(), nn.Linear(64, 64), activation(), nn.Linear(64, 1)
    )
    x = torch.randn(256, 10)
    y = 3 * x[:, :1] + 5
    steps(model, x, y, lr)
    return model, x, y


def steps(model, x, y, lr: float, count: int = 200):
    optimizer = torch.optim.SGD(model.parameters(), lr)
    for _ in range(count):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def dead(model, x) -> float:
    """Share of units of the second hidden layer that are zero for every row."""
    return (model[:4](x) <= 0).all(dim=0).float().mean().item()


def test_a_rate_too_high_kills_the_layer_and_a_lower_one_does_not_revive_it():
    model, x, y = train(nn.ReLU, 0.3)
    assert dead(model, x) == 1.0
    plateau = mse_loss(model(x), y).item()
    assert model[2].weight.grad.norm() == 0
    assert steps(model, x, y, 0.01) > 0.9 * plateau and dead(model, x) == 1.0


def test_a_lower_rate_from_the_start_keeps_the_units_alive():
    model, x, y = train(nn.ReLU, 0.01)
    assert dead(model, x) < 0.05 and mse_loss(model(x), y) < 0.5


def test_a_leaky_unit_survives_the_same_rate():
    model, x, y = train(nn.LeakyReLU, 0.3)
    assert model[2].weight.grad.norm() > 0 and mse_loss(model(x), y) < 0.5


def test_half_of_all_outputs_zero_is_normal_and_says_nothing_about_dead_units():
    model, x, _ = train(nn.ReLU, 0.01)
    assert 0.3 < (model[:4](x) == 0).float().mean() < 0.6


def test_the_hook_counts_dead_channels_of_a_convolution_and_dead_units_of_a_layer():
    torch.manual_seed(0)
    conv, line = nn.Conv2d(3, 8, 3), nn.Linear(3, 8)
    with torch.no_grad():
        conv.bias[:2] = line.bias[:2] = -100.0
    for out in (conv(torch.randn(64, 3, 8, 8)).relu(), line(torch.randn(64, 3)).relu()):
        rows = out.detach().transpose(1, -1).reshape(-1, out.shape[1])
        assert (rows <= 0).all(dim=0).tolist() == [True] * 2 + [False] * 6


def test_the_check_reads_one_for_a_dead_layer_and_nearly_zero_for_a_healthy_one(printed):
    for rate, share in ((0.3, 1.0), (0.01, 0.0)):
        model, x, _ = train(nn.ReLU, rate)
        act = model[:4](x)
        assert abs(float(printed("O25", act=act)) - share) < 0.05


def test_the_code_of_the_fix_logs_the_share_of_dead_units_of_each_relu():
    logged = {}
    model, x, _ = train(nn.ReLU, 0.3)
    code = block("O25", "fix")
    exec(code, {"nn": nn, "model": model, "log": logged.__setitem__})
    model(x)
    assert set(logged) == {"dead/1", "dead/3"} and logged["dead/3"] == 1.0
