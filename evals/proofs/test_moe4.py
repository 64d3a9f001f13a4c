"""MOE4: FP8 scales that are zero, stale, different from rank to rank, or lost, and what repairs each."""

import pytest
import torch
from check_code import span
from torch import nn

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
TOP = torch.finfo(E4M3).max  # 448


def through(x, amax, kind=E4M3):
    """x as it comes back from FP8, scaled so that amax lands on the format's largest number."""
    scale = torch.finfo(kind).max / amax
    limit = torch.finfo(kind).max
    return (x * scale).clamp(-limit, limit).to(kind).float() / scale


def by_row(x, floor: float | None = None):
    """Row by row with the row's own amax, as the quantizers divide: x / (amax / 448)."""
    scale = x.abs().amax(-1, keepdim=True) / TOP
    scale = scale if floor is None else scale.clamp(min=floor)
    return (x / scale).to(E4M3).float() * scale


def error(got, wanted) -> float:
    return ((got - wanted).norm() / wanted.norm()).item()


def step(floor: float | None):
    """One step of a linear layer behind FP8 activations, one row of which is padding."""
    torch.manual_seed(0)
    layer = nn.Linear(8, 4)
    x = torch.randn(6, 8)
    x[2] = 0.0
    loss = layer(by_row(x, floor)).square().mean()
    loss.backward()
    torch.optim.SGD(layer.parameters(), 0.1).step()
    return loss, layer


def test_one_row_of_zeros_makes_the_loss_and_every_weight_nan():
    loss, layer = step(floor=None)
    assert loss.isnan() and layer.weight.isnan().all()


def test_a_floor_under_the_scale_keeps_it_finite():
    loss, layer = step(floor=1e-12)
    assert loss.isfinite() and layer.weight.isfinite().all()
    x = torch.zeros(2, 8)
    assert torch.equal(by_row(x, 1e-12), x)


def test_a_tiny_amax_gives_an_infinite_scale():
    amax = torch.tensor(1e-38)
    assert (TOP / amax).isinf()
    assert (torch.zeros(1) * (TOP / amax)).isnan()
    assert (TOP / amax.clamp(min=1e-12)).isfinite()


def test_the_line_of_the_check_finds_the_rows():
    code, x = span("MOE4", "(x == 0)"), torch.randn(2, 3, 8)
    assert not eval(code, {"x": x}).item()
    x[1, 2] = 0.0
    assert eval(code, {"x": x}).item()


def test_a_scale_from_the_steps_before_clips_an_outlier_and_a_current_one_does_not():
    torch.manual_seed(0)
    history = [torch.randn(64, 64).abs().max() for _ in range(16)]
    now = torch.randn(64, 64)
    now[:, 0] *= 100.0
    late = through(now, max(history))
    assert late.abs().max() < 0.05 * now.abs().max() and error(late, now) > 0.9
    assert error(through(now, now.abs().max()), now) < 0.05


def test_the_last_value_forgets_what_the_window_remembers():
    torch.manual_seed(0)
    amaxes = [torch.tensor(a) for a in (4.0, 4.0, 90.0, 4.0)]  # a large batch every few steps
    large = torch.randn(64) * 20.0
    assert error(through(large, amaxes[-1]), large) > 0.5
    assert error(through(large, max(amaxes)), large) < 0.05


def test_shards_that_were_scaled_apart_cannot_be_read_with_one_scale():
    torch.manual_seed(0)
    shards = [torch.randn(32), torch.randn(32) * 8.0]
    whole = torch.cat(shards)
    scales = [TOP / s.abs().max() for s in shards]
    gathered = torch.cat([(s * k).to(E4M3) for s, k in zip(shards, scales, strict=True)])
    assert error(gathered.float() / scales[0], whole) > 0.8
    together = TOP / max(s.abs().max() for s in shards)  # the amax, reduced over both ranks
    gathered = torch.cat([(s * together).to(E4M3) for s in shards])
    assert error(gathered.float() / together, whole) < 0.05


def test_gradients_vanish_when_the_scale_comes_back_as_one():
    torch.manual_seed(0)
    gradient = torch.randn(256) * 1e-7
    lost = gradient.to(E5M2).float()  # after a load without the saved scale
    assert lost.count_nonzero() == 0
    assert error(through(gradient, gradient.abs().max(), E5M2), gradient) < 0.1


def test_a_wide_gradient_keeps_more_numbers_in_e5m2():
    gradient = torch.logspace(-6, 0, 64)
    kept = {
        kind: through(gradient, gradient.max(), kind).count_nonzero().item()
        for kind in (E4M3, E5M2)
    }
    assert kept[E5M2] == 64 and kept[E4M3] < 64


def test_accelerate_looks_at_the_last_step_only_unless_told():
    pytest.importorskip("accelerate")
    import inspect

    from accelerate.utils import TERecipeKwargs

    assert '"AMAX_COMPUTE_ALGO", "most_recent"' in inspect.getsource(TERecipeKwargs)
