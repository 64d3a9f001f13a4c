"""O10: Adam on float16 parameters."""

import math

import pytest
import torch
from torch import nn

LOOPS = [
    pytest.param({"foreach": False}, id="for-loop"),
    pytest.param({"foreach": True}, id="foreach"),
]


def move(dtype, gradient: float, steps: int = 1, **options):
    """The parameter, started at 0, and its Adam state after `steps` equal gradients at lr=1e-3."""
    weight = nn.Parameter(torch.zeros(4, dtype=dtype))
    optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.0, **options)
    for _ in range(steps):
        weight.grad = torch.full_like(weight, gradient)
        optimizer.step()
    return weight.detach().float()[0].item(), optimizer.state[weight]


def test_the_default_eps_is_zero_in_float16_and_kept_in_bfloat16():
    assert torch.tensor(1e-8, dtype=torch.float16) == 0
    assert torch.tensor(1e-8, dtype=torch.bfloat16).item() == pytest.approx(1e-8, rel=0.01)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}])
def test_the_state_has_the_dtype_of_the_parameters(dtype, options):
    _, state = move(dtype, 1.0, **options)
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == dtype


@pytest.mark.parametrize("options", LOOPS)
def test_one_step_in_float16_gives_nan_for_zero_and_inf_for_small_gradients(options):
    zero, _ = move(torch.float16, 0.0, **options)
    assert math.isnan(zero)
    for gradient in (1e-5, 1e-3, 5e-3):
        weight, state = move(torch.float16, gradient, **options)
        assert weight == -math.inf and not state["exp_avg_sq"].any()
    assert move(torch.float16, 1e-2, **options)[0] == pytest.approx(-1e-3, rel=0.1)


def test_finite_loss_and_gradients_become_nan_weights_where_rows_were_unused():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2)).half()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    loss = model(torch.tensor([1, 2, 3])).float().square().mean()
    loss.backward()
    assert loss.isfinite() and all(p.grad.isfinite().all() for p in model.parameters())
    optimizer.step()
    assert model[0].weight[7].isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("gradient", [0.0, 1e-5, 1e-3])
def test_bfloat16_and_float32_take_a_correct_step(dtype, gradient):
    assert move(dtype, gradient)[0] == pytest.approx(-1e-3 if gradient else 0.0, rel=0.02)


@pytest.mark.parametrize("eps, moved", [(1e-7, 8.4), (1e-6, 0.99), (1e-4, 0.01)])
def test_a_larger_eps_stops_the_nan_and_not_the_oversized_step(eps, moved):
    assert move(torch.float16, 0.0, eps=eps)[0] == 0
    assert -move(torch.float16, 1e-3, eps=eps)[0] == pytest.approx(moved, rel=0.02)


def test_the_fused_kernel_stays_finite_but_drifts_since_its_state_is_float16():
    assert -move(torch.float16, 1e-3, fused=True)[0] == pytest.approx(1e-3, rel=0.02)
    assert move(torch.float16, 0.0, fused=True)[0] == 0
    assert -move(torch.float16, 1e-3, steps=1000, fused=True)[0] == pytest.approx(19.3, rel=0.02)
    assert -move(torch.float32, 1e-3, steps=1000, fused=True)[0] == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}])
def test_the_second_moment_of_bfloat16_never_decays(options):
    seen = {}
    for dtype in (torch.bfloat16, torch.float32):
        weight = nn.Parameter(torch.zeros(4, dtype=dtype))
        optimizer = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.0, **options)
        for step in range(1000):
            weight.grad = torch.full_like(weight, 1e-3 if step else 1.0)
            optimizer.step()
        seen[dtype] = optimizer.state[weight]["exp_avg_sq"][0].item()
    assert seen[torch.bfloat16] == pytest.approx(1e-3, rel=0.01) and seen[torch.float32] < 4e-4


def test_the_fix_keeps_float32_parameters_under_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(torch.tensor([1, 2, 3])).float().square().mean()
    loss.backward()
    optimizer.step()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert all(p.isfinite().all() for p in model.parameters())


def test_the_scaler_refuses_float16_parameters():
    model = nn.Linear(2, 2).half()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 2).half()).sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.step(optimizer)


def test_the_check_shows_float16_parameters_and_float32_ones_under_autocast(printed):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    kept = torch.optim.AdamW(model.parameters())
    assert printed("O10", optimizer=kept) == "{torch.float32}"
    cast = torch.optim.AdamW(nn.Linear(4, 2).half().parameters())
    assert printed("O10", optimizer=cast) == "{torch.float16}"
    safe = torch.optim.AdamW(nn.Linear(4, 2).bfloat16().parameters())
    assert printed("O10", optimizer=safe) == "{torch.bfloat16}"
