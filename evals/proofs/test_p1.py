"""P1: what each number format can hold."""

import pytest
import torch
from torch import nn

FORMATS = [
    pytest.param(torch.float32, 3.4e38, 1.4e-45, 1.2e-7, id="fp32"),
    pytest.param(torch.bfloat16, 3.4e38, 9.2e-41, 7.8e-3, id="bf16"),
    pytest.param(torch.float16, 65504, 6e-8, 9.8e-4, id="fp16"),
]


@pytest.mark.parametrize("dtype, largest, smallest, gap", FORMATS)
def test_the_table_of_formats_holds(dtype, largest, smallest, gap):
    assert torch.finfo(dtype).max == pytest.approx(largest, rel=0.01)
    assert torch.finfo(dtype).eps == pytest.approx(gap, rel=0.03)
    down = torch.tensor(smallest, dtype=torch.float64)
    assert down.to(dtype) > 0 and (down / 4).to(dtype) == 0


def test_fp16_overflows_where_bf16_does_not_and_bf16_rounds_where_fp16_does_not():
    assert torch.tensor(70000.0).half().isinf() and torch.tensor(70000.0).bfloat16().isfinite()
    assert torch.tensor(1.002).bfloat16() == 1 and torch.tensor(1.002).half() != 1


@pytest.mark.parametrize("dtype, moves", [(torch.float32, True), (torch.bfloat16, False)])
def test_a_thousand_small_steps_are_lost_in_bf16_weights_and_not_in_fp32_weights(dtype, moves):
    weight = nn.Parameter(torch.ones(1, dtype=dtype))
    optimizer = torch.optim.SGD([weight], lr=1e-3)
    for _ in range(1000):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    assert (weight.item() == 1.0) is not moves


def test_autocast_leaves_weights_gradients_and_adam_state_in_fp32():
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(layer.parameters())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(torch.randn(2, 8))
        assert (
            torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16
        )
    out.float().sum().backward()
    optimizer.step()
    assert (
        out.dtype == torch.bfloat16
        and layer.weight.dtype == layer.weight.grad.dtype == torch.float32
    )
    assert optimizer.state[layer.weight]["exp_avg"].dtype == torch.float32


@pytest.mark.filterwarnings("ignore")
def test_the_check_shows_the_wrong_set_ups_and_the_right_one(printed):
    def checked(model, inside=True):
        torch.set_autocast_enabled("cuda", inside)
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        try:
            return printed("P1", model=model, torch=torch)
        finally:
            torch.set_autocast_enabled("cuda", False)
            torch.set_autocast_dtype("cuda", torch.float16)

    assert checked(nn.Linear(2, 2)) == "{torch.float32} True torch.bfloat16"
    assert checked(nn.Linear(2, 2), inside=False).startswith("{torch.float32} False")
    assert checked(nn.Linear(2, 2).bfloat16()).startswith("{torch.bfloat16} True")
    base_with_adapter = nn.Sequential(
        nn.Linear(2, 2).bfloat16().requires_grad_(False), nn.Linear(2, 2)
    )
    assert checked(base_with_adapter) == "{torch.float32} True torch.bfloat16"
