"""DF8: training and sampling walk through other noise levels. The network is replaced by the exact velocity of pictures of known width."""

import math

import pytest
import torch

PIXELS = 4096


def shifted(sigma: float, shift: float) -> float:
    return shift * sigma / (1 + (shift - 1) * sigma)


def mu(tokens: int) -> float:
    """`calculate_shift` of diffusers' FluxPipeline with its defaults."""
    slope = (1.15 - 0.5) / (4096 - 256)
    return tokens * slope + 0.5 - slope * 256


def schedule(steps: int, shift: float) -> list[float]:
    return [shifted(1 - i * (1 - 1 / steps) / (steps - 1), shift) for i in range(steps)] + [0.0]


def width(variance: float, steps: int, shift: float, told=lambda sigma: sigma) -> float:
    """Width of one direction of the samples, where the data have `variance`; `told` is the level that the model is told."""
    levels, value = schedule(steps, shift), 1.0
    for sigma, after in zip(levels, levels[1:]):
        t = told(sigma)
        velocity = (1 - (1 - t) * variance / ((1 - t) ** 2 * variance + t**2)) / t
        value *= 1 + (after - sigma) * velocity
    return value


def test_dynamic_shifting_is_a_shift_of_e_to_the_mu():
    for tokens, expected in ((256, 1.65), (1024, 1.88), (4096, 3.16)):
        assert math.exp(mu(tokens)) == pytest.approx(expected, abs=0.01)
    t, m = 0.3, mu(4096)
    assert math.exp(m) / (math.exp(m) + (1 / t - 1)) == pytest.approx(shifted(t, math.exp(m)))


def test_without_the_shift_few_steps_lie_where_the_large_shapes_are_decided():
    assert sum(s > 0.9 for s in schedule(28, 1.0)) == 3
    assert sum(s > 0.9 for s in schedule(28, 3.16)) == 8


def test_without_the_shift_the_large_shapes_stay_faint():
    contrast = {shift: width(PIXELS, 28, shift) / PIXELS**0.5 for shift in (1.0, 3.16)}
    assert contrast[1.0] < 0.4 and contrast[3.16] > 0.7
    assert width(PIXELS, 50, 3.16) / PIXELS**0.5 > 0.8


def test_a_model_told_another_level_than_the_latents_have_leaves_grain():
    clean = width(0.05**2, 28, 1.0)
    grain = width(0.05**2, 28, 1.0, told=lambda sigma: shifted(sigma, 3.0))
    assert clean < 0.05 < grain
    assert grain > 3 * clean
    assert (
        width(0.05**2, 200, 1.0, told=lambda sigma: shifted(sigma, 3.0)) > 0.1
    )  # more steps don't cure it


def test_told_the_level_of_the_latents_it_is_clean_with_any_shift():
    for shift in (1.0, 3.0, 6.0):
        assert width(0.05**2, 28, shift) < 0.05


def test_shifting_twice_is_another_schedule():
    once, twice = schedule(28, 3.0), [shifted(s, 3.0) for s in schedule(28, 3.0)]
    assert twice == pytest.approx(schedule(28, 9.0))
    assert max(abs(a - b) for a, b in zip(once, twice)) > 0.2


class Scheduler:
    """Of FlowMatchEulerDiscreteScheduler what the check uses: `mu` moves the levels of `set_timesteps`."""

    def set_timesteps(self, steps: int, mu: float) -> None:
        self.sigmas = torch.tensor(schedule(steps, math.exp(mu)))


def test_the_check_counts_the_steps_above_a_level_of_nine_tenths(printed):
    for shift, count in ((3.16, 8), (1.0, 3)):
        assert printed("DF8", sched=Scheduler(), mu=math.log(shift)).endswith(f"tensor({count})")
