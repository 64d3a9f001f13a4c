"""P5: fp16 gradients that flush to zero."""

import ast

import pytest
import torch
from torch import nn


def zero_shares(precision, scale: float = 1.0) -> dict[str, float]:
    """Share of gradients that are exactly 0. The small weight of the loss stands for a mean over many tokens."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    x, y = torch.randn(256, 16), torch.randn(256, 1)
    with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
        out = model(x)
        loss = 1e-5 * nn.functional.mse_loss(out.float(), y)
    assert loss.isfinite() and loss > 0
    (loss * scale).backward()
    return {name: (p.grad == 0).float().mean().item() for name, p in model.named_parameters()}


def test_without_a_scaler_most_fp16_gradients_of_the_first_layer_are_exactly_zero():
    shares = zero_shares(torch.float16)
    assert shares["0.weight"] > 0.8 > 0.3 > shares["4.weight"]


@pytest.mark.parametrize(
    "precision, scale", [(torch.float32, 1.0), (torch.bfloat16, 1.0), (torch.float16, 65536.0)]
)
def test_fp32_bf16_and_a_scaled_fp16_loss_keep_them(precision, scale):
    assert max(zero_shares(precision, scale).values()) == 0


def test_the_smallest_fp16_number_is_6e_minus_8():
    assert torch.tensor(6e-8).half() > 0 and torch.tensor(2e-8).half() == 0


def final_loss(scaled: bool) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(
        model.parameters(), lr=1e6
    )  # large, because the loss carries a weight of 1e-7
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    x = torch.randn(256, 16)
    y = x[:, :1]
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            error = nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(1e-7 * error).backward()
        scaler.step(optimizer)
        scaler.update()
    return error.item()


def test_the_scaler_makes_the_difference_between_learning_and_none():
    assert final_loss(scaled=False) > 0.5 > 0.05 > final_loss(scaled=True)


@pytest.mark.parametrize(
    "precision, scale, lost",
    [(torch.float16, 1.0, True), (torch.float16, 65536.0, False), (torch.float32, 1.0, False)],
)
def test_the_check_shows_lost_gradients_in_unscaled_fp16_alone(printed, precision, scale, lost):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
    )
    with torch.autocast("cpu", dtype=precision, enabled=precision != torch.float32):
        out = model(torch.randn(256, 16))
        loss = 1e-5 * nn.functional.mse_loss(out.float(), torch.randn(256, 1))
    (loss * scale).backward()
    shares = ast.literal_eval(printed("P5", model=model))
    assert (shares["0.weight"] > 0.5) == lost == (max(shares.values()) > 0.05)
