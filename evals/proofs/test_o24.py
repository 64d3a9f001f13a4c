"""O24: fp16 updates skipped again and again while the loss stays finite."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss


def train(epsilon: float, steps: int = 17, precision=torch.float16, scaled: bool = True):
    """A distance that is zero has no gradient without `epsilon`: the loss is finite, its gradient is NaN."""
    torch.manual_seed(0)
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    parameters = [*body.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, 0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    x = torch.randn(8, 4)
    y = x.sum(1, keepdim=True)
    start = body.weight.detach().clone()
    losses, scales, skipped = [], [scaler.get_scale()], 0
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=precision):
            hidden = body(x)
            out = head(hidden)
        distance = (hidden - hidden.detach()).float().pow(2).sum(1)
        loss = mse_loss(out.float(), y) + (distance + epsilon).sqrt().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        bad = [i for i, p in enumerate(parameters) if not p.grad.isfinite().all()]
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return losses, scales, skipped, torch.equal(start, body.weight), bad


def test_the_scale_halves_at_every_step_and_no_weight_moves_though_the_loss_is_finite():
    losses, scales, skipped, unmoved, bad = train(epsilon=0.0)
    assert scales == [65536.0 / 2**i for i in range(18)]
    assert skipped == 17 and unmoved
    assert all(map(math.isfinite, losses)) and len(set(losses)) == 1
    assert bad == [0, 1]  # the check names the layer: the body's weight and bias


def test_without_the_bad_gradient_a_few_halvings_at_the_start_and_then_learning():
    losses, scales, skipped, unmoved, bad = train(epsilon=1e-6)
    assert skipped <= 5 and scales[-1] == scales[-6] and not unmoved and not bad
    assert losses[-1] < losses[0] / 2


def test_a_scale_held_too_high_is_cured_by_halving_and_a_nan_is_not():
    assert train(epsilon=1e-6, steps=60)[1][-1] >= 2**13
    assert train(epsilon=0.0, steps=60)[1][-1] < 1


def test_moving_a_true_nan_to_bf16_without_a_scaler_ruins_the_weights():
    losses, _, _, _, _ = train(epsilon=0.0, precision=torch.bfloat16, scaled=False)
    assert math.isfinite(losses[0]) and math.isnan(losses[1])


def test_the_lines_of_other_loss_scalers_are_recognised(says):
    for line in (
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 0, reducing to 0",
        "[deepspeed] OVERFLOW! Skipping step. Gradients are non-finite, weights were not updated.",
        "[deepspeed] fp16 dynamic loss scale overflow! Skipping step. Attempted loss scale: 16.0, reducing to 8.0",
        "Overflow detected. Skipping step. Attempted loss scale: 0.5, reducing to 0.25",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.00390625",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 7.62939453125e-06",
        "fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 2.0",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding.",
    ):
        says("O24", line)


def test_the_lines_of_a_healthy_start_are_not_taken_for_it(says):
    for line in (
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1",
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0",
        "fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: 8192.0",
    ):
        with pytest.raises(AssertionError, match="none of the signatures"):
            says("O24", line)


def test_anomaly_mode_points_at_a_true_nan():
    x = torch.ones(3, requires_grad=True)
    with (
        torch.autograd.set_detect_anomaly(True),
        pytest.warns(UserWarning, match="Error detected in PowBackward0"),
        pytest.raises(RuntimeError, match="Function 'PowBackward0' returned nan values"),
    ):
        (x - x.detach()).pow(2).sum().sqrt().backward()


@pytest.mark.parametrize("epsilon, named", [(0.0, "['body.weight', 'body.bias']"), (1e-6, "[]")])
def test_the_check_names_the_layer_at_every_step_and_nothing_once_the_root_has_an_epsilon(
    printed, epsilon, named
):
    torch.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(4, 4), "head": nn.Linear(4, 1)})
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scaler, seen, x = torch.amp.GradScaler("cpu"), [], torch.randn(8, 4)
    for _ in range(12):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            hidden = model["body"](x)
            out = model["head"](hidden)
        distance = (hidden - hidden.detach()).float().pow(2).sum(1)
        loss = out.float().square().mean() + (distance + epsilon).sqrt().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        seen.append(printed("O24", model=model))
        scaler.step(optimizer)
        scaler.update()
    assert set(seen[10:]) == {named}


def test_weights_in_fp16_refuse_an_fp32_input_and_the_functional_form_takes_it():
    layer = nn.Linear(4, 3).half()
    x = torch.randn(2, 4).half()
    with pytest.raises(RuntimeError, match="got Float and Half"):
        layer(x.float())
    y = torch.nn.functional.linear(x.float(), layer.weight.float(), layer.bias.float())
    y.sum().backward()
    assert y.dtype == torch.float32 and layer.weight.grad.dtype == torch.float16
