"""DF1: a denoising loss says little about samples."""

import pytest
import torch
from check_code import block, shown

A = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64), 0)


def knows_the_data(x, t):
    """The best noise prediction where every pixel is -1 or 1."""
    a = A[t]
    return (x - a.sqrt() * torch.tanh(a.sqrt() * x / (1 - a))) / (1 - a).sqrt()


def knows_mean_and_variance_only(x, t):
    return (1 - A[t]).sqrt() * x


def loss(model, clean):
    noise = torch.randn(
        clean.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    steps = torch.arange(len(clean)) % 1000
    noisy = A[steps].sqrt() * clean + (1 - A[steps]).sqrt() * noise
    return (model(noisy, steps) - noise).pow(2).mean().item()


def sample(model, count=2000, steps=100):
    x = torch.randn(count, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    times = torch.linspace(999, 0, steps).long()
    for i, t in enumerate(times):
        eps = model(x, t)
        clean = (x - (1 - A[t]).sqrt() * eps) / A[t].sqrt()
        following = A[times[i + 1]] if i + 1 < steps else torch.tensor(1.0, dtype=torch.float64)
        x = following.sqrt() * clean + (1 - following).sqrt() * eps
    return x


CLEAN = torch.randint(0, 2, (50_000,), generator=torch.Generator().manual_seed(0)).double() * 2 - 1


def near_a_mode(x):
    return ((x.abs() - 1).abs() < 0.1).double().mean().item()


def test_a_loss_of_a_quarter_needs_only_the_mean_and_the_variance_of_the_data():
    assert 0.2 < loss(knows_mean_and_variance_only, CLEAN) < 0.3
    assert loss(lambda x, t: torch.zeros_like(x), CLEAN) > 0.98


def test_samples_of_that_model_are_of_another_kind():
    assert near_a_mode(sample(knows_the_data)) > 0.95
    assert near_a_mode(sample(knows_mean_and_variance_only)) < 0.2


def test_the_loss_falls_with_noise_whatever_the_model_knows():
    def at(low, high):
        steps = torch.randint(low, high, (20_000,), generator=torch.Generator().manual_seed(3))
        clean, noise = (
            CLEAN[:20_000],
            torch.randn(20_000, generator=torch.Generator().manual_seed(4)).double(),
        )
        noisy = A[steps].sqrt() * clean + (1 - A[steps]).sqrt() * noise
        return (knows_mean_and_variance_only(noisy, steps) - noise).pow(2).mean()

    assert at(0, 100) > 0.8 and at(800, 1000) < 0.05


def test_the_loss_does_not_see_how_samples_are_made():
    before = loss(knows_the_data, CLEAN)
    wrong = sample(lambda x, t: knows_the_data(x, torch.clamp(t + 300, max=999)))
    assert loss(knows_the_data, CLEAN) == before
    assert near_a_mode(wrong) < 0.8


def bins(model):
    """What the lines of the check print for data with detail of every size: the loss in ten bins of the timestep."""

    class Scheduler:
        def add_noise(self, clean, noise, t):
            return A[t].sqrt() * clean + (1 - A[t]).sqrt() * noise

    torch.manual_seed(0)
    clean = torch.randn(5000, dtype=torch.float64)
    told = shown(block("DF1"), torch=torch, clean=clean, scheduler=Scheduler(), model=model)
    rows = [line.split() for line in told.splitlines()]
    assert [int(low) for low, _ in rows] == list(range(0, 1000, 100))
    return [float(loss) for _, loss in rows]


def test_the_check_falls_over_the_bins_for_a_model_that_learned_and_stays_near_1_for_one_that_did_not():
    learned = bins(knows_mean_and_variance_only)  # of such data there is no more to know
    assert learned == sorted(learned, reverse=True) and max(learned[7:]) < 0.01
    nothing = bins(lambda x, t: torch.zeros_like(x))
    assert all(0.9 < loss < 1.1 for loss in nothing)


def test_the_code_of_the_fix_rebuilds_the_image_for_a_perfect_network():
    diffusers = pytest.importorskip("diffusers")
    scheduler = diffusers.DDPMScheduler(beta_schedule="scaled_linear", beta_end=0.012)
    clean = torch.randn(2, 4, 8, 8)

    def knows_the_image(noisy, t):
        a = scheduler.alphas_cumprod[t]
        return (noisy - a.sqrt() * clean[:1]) / (1 - a).sqrt()

    names = {"clean": clean, "scheduler": scheduler, "model": knows_the_image, "torch": torch}
    names["DDIMScheduler"] = diffusers.DDIMScheduler
    exec(block("DF1", "fix"), names)
    assert torch.allclose(names["rebuilt"], clean[:1], atol=1e-4)
