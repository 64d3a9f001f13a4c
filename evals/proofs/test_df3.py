"""DF3: the scale of the latents."""

import torch

A = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2, 0)
STD = 1 / 0.18215  # of Stable Diffusion's latents before they are scaled


def best_loss(std):
    """The least error of a noise prediction for white latents of this deviation, mean over the steps."""
    return (A * std**2 / (A * std**2 + 1 - A)).mean().item()


def test_unscaled_latents_keep_their_picture_at_the_noisiest_step():
    signal = A[-1].sqrt() / (1 - A[-1]).sqrt()
    assert 0.06 < signal < 0.08
    assert 0.35 < signal * STD < 0.4  # sampling starts from pure noise, which training never showed


def test_latents_scaled_twice_drown_early_and_show_a_lower_loss():
    assert best_loss(0.18215) < best_loss(1) / 3
    half = A[500]
    assert (half.sqrt() / (1 - half).sqrt()) > 0.5
    assert (half.sqrt() / (1 - half).sqrt()) * 0.18215 < 0.12


def test_one_over_the_measured_deviation_is_the_factor():
    latents = torch.randn(64, 4, 16, 16, generator=torch.Generator().manual_seed(0)) * 3.7 + 0.4
    factor = 1 / latents.std()
    assert abs((latents * factor).std() - 1) < 1e-4
    assert abs((latents * 0.18215).std() - 1) > 0.3


def test_a_shift_is_taken_off_before_the_factor_and_put_back_after_it():
    latents = torch.randn(4, 16, 8, 8, generator=torch.Generator().manual_seed(0)) * 2.77 + 0.1159
    factor, shift = 0.3611, 0.1159
    scaled = (latents - shift) * factor
    assert abs(scaled.std() - 1) < 0.05 and abs(scaled.mean()) < 0.05
    assert torch.allclose(scaled / factor + shift, latents, atol=1e-5)
    assert not torch.allclose(scaled / 0.18215, latents, atol=0.5)


def test_the_check_reads_about_1_only_for_latents_scaled_once(printed):
    torch.manual_seed(0)
    latents = torch.randn(4, 4, 32, 32) * STD

    def deviation(z):
        return float(printed("DF3", z=z).split()[1])

    assert 0.8 < deviation(latents * 0.18215) < 1.2
    assert deviation(latents) > 5
    assert deviation(latents * 0.18215**2) < 0.2
