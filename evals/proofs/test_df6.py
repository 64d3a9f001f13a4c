"""DF6: sampler and number of steps."""

import numpy as np
import pytest
import torch

A = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2, 0)
STD = 0.3
ONE = torch.tensor(1.0, dtype=torch.float64)


def network(x, t):
    """The best noise prediction for data of mean 0 and deviation STD."""
    return (1 - A[t]).sqrt() * x / (A[t] * STD**2 + 1 - A[t])


def sample(steps, noise, times=None):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4000, generator=generator, dtype=torch.float64)
    times = torch.linspace(999, 0, steps).long() if times is None else torch.tensor(times)
    for i, t in enumerate(times):
        a, eps = A[t], network(x, t)
        clean = (x - (1 - a).sqrt() * eps) / a.sqrt()
        b = A[times[i + 1]] if i + 1 < len(times) else ONE
        sigma = noise * ((1 - b) / (1 - a) * (1 - a / b)).sqrt()
        x = b.sqrt() * clean + (1 - b - sigma**2).clamp(min=0).sqrt() * eps
        x += sigma * torch.randn(4000, generator=generator, dtype=torch.float64)
    return x


def off(x):
    """How far the deviation is from that of the data, as a share."""
    return abs(x.std().item() / STD - 1)


def test_both_kinds_of_sampler_reach_the_data_with_many_steps():
    assert off(sample(250, 0.0)) < 0.05
    assert off(sample(1000, 1.0)) < 0.05


def test_the_result_gets_worse_as_steps_are_taken_away():
    assert off(sample(3, 0.0)) > 2 * off(sample(250, 0.0))


def spaced(count, how):
    """The steps that diffusers picks of 1000."""
    if how == "leading":
        return (np.arange(0, count) * (1000 // count)).round()[::-1].astype(int) + 1
    if how == "trailing":
        return np.round(np.arange(1000, 0, -1000 / count)).astype(int) - 1
    return np.linspace(0, 999, count).round()[::-1].astype(int)


@pytest.mark.parametrize("count, first", [(50, 981), (10, 901), (4, 751)])
def test_leading_spacing_starts_well_below_the_noisiest_step(count, first):
    assert spaced(count, "leading")[0] == first
    assert spaced(count, "trailing")[0] == 999


def test_leading_spacing_at_four_steps_feeds_pure_noise_to_a_step_that_expects_a_picture():
    assert A[751].sqrt() > 0.2 and A[999].sqrt() < 0.07


def test_a_sampler_can_not_take_more_steps_than_were_trained(says):
    assert 1000 // 2000 == 0  # the leading spacing has no step width left
    # https://github.com/huggingface/diffusers/blob/main/src/diffusers/schedulers/scheduling_ddim.py
    says(
        "DF6",
        "`num_inference_steps`: 2000 cannot be larger than `self.config.train_timesteps`: 1000 as the unet model "
        "trained with this scheduler can only handle maximal 1000 timesteps.",
    )


def test_the_check_is_bad_at_250_steps_only_where_the_schedule_is_wrong(monkeypatch):
    """Each count gets better with sound weights; a network of another schedule stays wrong."""
    sound = [off(sample(steps, 0.0)) for steps in (10, 50, 250)]
    assert sound[0] > sound[1] > sound[2] and sound[2] < 0.05
    trained = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)

    def other(x, t):
        return (1 - trained[t]).sqrt() * x / (trained[t] * STD**2 + 1 - trained[t])

    monkeypatch.setitem(globals(), "network", other)
    assert off(sample(250, 0.0)) > 0.2


@pytest.mark.parametrize("kind", ["dpmsolver", "sde-dpmsolver"])
def test_the_default_of_final_sigmas_is_what_an_older_algorithm_refuses(says, kind):
    diffusers = pytest.importorskip("diffusers")
    make = diffusers.DPMSolverMultistepScheduler
    with pytest.raises(ValueError) as error:
        make(algorithm_type=kind)
    says("DF6", str(error.value))
    assert make(algorithm_type=kind, final_sigmas_type="sigma_min")
    assert make(algorithm_type="dpmsolver++").config.final_sigmas_type == "zero"
