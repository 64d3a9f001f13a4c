"""L6: logits that drift, and the loss that holds them."""

import pytest
import torch
from torch.nn.functional import cross_entropy

VOCABULARY = 500


def z_loss(logits, weight=1e-4):
    return weight * logits.float().logsumexp(-1).pow(2).mean()


def batch(shift=0.0):
    logits = torch.randn(32, VOCABULARY, generator=torch.Generator().manual_seed(0)) + shift
    return logits, torch.randint(0, VOCABULARY, (32,), generator=torch.Generator().manual_seed(1))


def test_cross_entropy_does_not_see_the_drift():
    logits, target = batch()
    assert cross_entropy(logits + 300, target).item() == pytest.approx(
        cross_entropy(logits, target).item(), abs=1e-3
    )
    shift = torch.zeros((), requires_grad=True)
    cross_entropy(logits + shift, target).backward()
    assert shift.grad.abs() < 1e-6  # no force brings the logits back


def test_log_z_does():
    logits, _ = batch()
    assert logits.logsumexp(-1).mean() < 10
    assert (logits + 300).logsumexp(-1).mean() > 300


def test_z_loss_pulls_the_drift_back_and_costs_next_to_nothing_when_logits_are_sound():
    logits, target = batch()
    assert z_loss(logits) < 0.01 * cross_entropy(logits, target)
    shift = torch.zeros((), requires_grad=True)
    z_loss(logits + 300 + shift).backward()
    assert shift.grad > 0.05


def test_training_with_it_brings_log_z_near_zero_and_without_it_nothing_moves():
    def after(weight):
        shift = torch.tensor(50.0, requires_grad=True)
        optimizer = torch.optim.SGD([shift], 400.0)
        logits, target = batch()
        for _ in range(60):
            optimizer.zero_grad()
            (cross_entropy(logits + shift, target) + z_loss(logits + shift, weight)).backward()
            optimizer.step()
        return (logits + shift).logsumexp(-1).mean().item()

    assert after(0.0) > 55
    assert abs(after(1e-4)) < 2


def test_bf16_can_not_tell_neighbouring_logits_apart_once_they_are_large():
    logits, target = batch()
    exact = cross_entropy(logits, target)
    assert (cross_entropy(logits.bfloat16().float(), target) - exact).abs() < 0.01
    assert (cross_entropy((logits + 300).bfloat16().float(), target) - exact).abs() > 0.05
    assert torch.tensor(301.0, dtype=torch.bfloat16) in (300, 302)  # steps of 2 from 256 on


def test_the_check_shows_logits_that_drifted_and_is_near_zero_for_sound_ones(value_of):
    logits, _ = batch()
    sound, drifted = (value_of("L6", "logits.float()", logits=x) for x in (logits, logits + 300))
    assert sound < 10 and drifted > 300
