"""P6: bf16 and a loss scaler. The crash itself needs a GPU; on the CPU the kernel takes bf16."""

import math

import pytest
import torch
from torch import nn


def train(scaled: bool, steps: int = 20):
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    for _ in range(steps):
        x = torch.randn(16, 8)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x), x[:, :1])
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return model.weight.detach()


def test_with_fp32_weights_under_bf16_autocast_the_scaler_changes_nothing():
    assert torch.equal(train(scaled=True), train(scaled=False))


def test_bf16_weights_give_the_scaler_bf16_gradients_and_fp32_weights_fp32_ones():
    for dtype in (torch.bfloat16, torch.float32):
        layer = nn.Linear(4, 4).to(dtype)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer(torch.randn(2, 4)).float().sum().backward()
        assert layer.weight.grad.dtype == dtype


def test_nothing_ever_stops_the_scale_from_growing_before_it_nears_the_largest_number():
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], 1e-9)
    scaler = torch.amp.GradScaler("cpu", growth_interval=1)
    for steps in range(1, 112):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0**127 and steps * 2000 == 222_000
    assert math.isinf(scaler.scale(torch.tensor(3.0)).item())


@pytest.mark.parametrize(
    "line",
    [
        """NotImplementedError: "_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'""",
        """RuntimeError: "_amp_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'""",
        "MisconfigurationException: `precision='bf16-mixed'` does not use a scaler, found <torch.amp.grad_scaler.GradScaler>.",
    ],
)
def test_the_texts_are_recognised(says, line):
    says("P6", line)


def test_the_check_shows_bf16_with_a_scaler_and_passes_both_sound_pairs(printed):
    on, off = torch.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu", enabled=False)
    cast, kept = nn.Linear(2, 2).bfloat16(), nn.Linear(2, 2)
    assert printed("P6", model=cast, scaler=on) == "{torch.bfloat16} True"
    assert printed("P6", model=cast, scaler=off) == "{torch.bfloat16} False"
    assert printed("P6", model=kept, scaler=on) == "{torch.float32} True"
