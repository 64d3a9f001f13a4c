"""DF2: the moving average of the weights."""

import torch
from check_code import shown, span


def noisy_descent(steps=4000, decay=0.99):
    """A weight that SGD shakes around its best value, 0."""
    generator = torch.Generator().manual_seed(0)
    weight, average = torch.ones(1000), torch.ones(1000)
    for _ in range(steps):
        weight -= 0.1 * (weight + torch.randn(1000, generator=generator))
        average.lerp_(weight, 1 - decay)
    return weight.pow(2).mean().item(), average.pow(2).mean().item()


def test_the_average_lies_far_nearer_to_the_best_weights_than_the_last_step():
    raw, average = noisy_descent()
    assert average < raw / 5


def left_of_the_start(steps, decay):
    kept = 1.0
    for step in range(1, steps + 1):
        kept *= decay(step)
    return kept


def warmed_up(step, largest=0.9999):
    """What diffusers' EMAModel uses without use_ema_warmup."""
    return min((1 + (step - 1)) / (10 + (step - 1)), largest) if step > 1 else 0.0


def test_a_fixed_decay_of_four_nines_still_holds_a_third_of_the_random_start_after_10_000_steps():
    assert 0.36 < left_of_the_start(10_000, lambda step: 0.9999) < 0.38
    assert left_of_the_start(2_000, lambda step: 0.9999) > 0.8


def test_a_decay_that_warms_up_holds_nothing_of_it():
    assert left_of_the_start(100, warmed_up) == 0


def test_an_average_kept_in_bf16_never_moves():
    average, weight = (
        torch.ones(10, dtype=torch.bfloat16),
        torch.full((10,), 2.0, dtype=torch.bfloat16),
    )
    for _ in range(2000):
        average.mul_(0.9999).add_(weight, alpha=1e-4)
    assert torch.equal(average, torch.ones(10, dtype=torch.bfloat16))
    precise = torch.ones(10)
    for _ in range(2000):
        precise.mul_(0.9999).add_(weight.float(), alpha=1e-4)
    assert precise[0] > 1.15


def test_the_checks_number_says_too_young_for_2000_steps_and_not_for_40_000(value_of):
    assert value_of("DF2", "0.9999 **", steps=2000) > 0.05
    assert value_of("DF2", "0.9999 **", steps=40_000) < 0.05


def test_the_check_shows_an_average_that_does_not_move(value_of):
    def told(dtype, updated=True):
        w = torch.ones(4, dtype=dtype)
        before = w.detach().clone()
        for _ in range(100 * updated):
            w.mul_(0.9999).add_(torch.full_like(w, 2.0), alpha=1e-4)
        return shown(span("DF2", "(w != before)"), w=w, before=before)

    assert told(torch.bfloat16) == "torch.bfloat16 0.0"
    assert told(torch.float32, updated=False) == "torch.float32 0.0"
    kind, moved = told(torch.float32).split()
    assert kind == "torch.float32" and float(moved) > 0.005
