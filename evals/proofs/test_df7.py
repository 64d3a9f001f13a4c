"""DF7: the weights of the steps."""

import torch

A = torch.cumprod(1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2, 0)
SNR = A / (1 - A)


def weights(snr, kind, gamma=5.0):
    least = torch.minimum(snr, torch.full_like(snr, gamma))
    return least / snr if kind == "epsilon" else least / (snr + 1)


def test_an_unweighted_noise_loss_counts_errors_of_the_picture_by_the_signal_to_noise_ratio():
    clean, wrong, t = torch.randn(8).double(), torch.randn(8).double(), 300
    noise = torch.randn(8).double()
    noisy = A[t].sqrt() * clean + (1 - A[t]).sqrt() * noise
    as_noise = (noisy - A[t].sqrt() * wrong) / (1 - A[t]).sqrt()
    assert torch.allclose((as_noise - noise) ** 2, SNR[t] * (wrong - clean) ** 2)
    assert SNR[0] > 1000 and SNR[999] < 0.01


def test_min_snr_lowers_the_steps_with_little_noise_and_leaves_the_noisy_ones():
    w = weights(SNR, "epsilon")
    assert w[0] < 0.01
    assert torch.all(w[SNR <= 5] == 1)
    assert w.max() == 1


def test_so_the_logged_loss_is_lower_with_the_weights_though_nothing_is_better():
    assert weights(SNR, "epsilon").mean() < 0.95
    assert weights(SNR, "v_prediction").mean() < 0.5


def test_for_v_prediction_the_divisor_is_one_larger():
    w = weights(SNR, "v_prediction")
    assert w.max() < 0.84 and w[-1] < 0.01
    old = torch.minimum(SNR + 1, torch.full_like(SNR, 5.0)) / (SNR + 1)  # the 1 added too early
    assert old[-1] == 1


def test_a_rescaled_schedule_makes_the_epsilon_weight_nan_and_not_that_of_v():
    root = A.sqrt()
    rescaled = ((root - root[-1]) * root[0] / (root[0] - root[-1])) ** 2
    snr = rescaled / (1 - rescaled)
    assert snr[-1] == 0
    assert weights(snr, "epsilon").isnan().sum() == 1
    assert weights(snr, "v_prediction").isfinite().all()


def test_the_check_is_nan_only_for_the_epsilon_form_at_zero_terminal_snr(printed):
    def shown(snr, kind):
        return (
            printed("DF7", w=weights(snr, kind))
            .replace("tensor", "")
            .replace(", dtype=torch.float64", "")
        )

    first, middle, last, bad = shown(SNR, "epsilon").split()
    assert first.startswith("(0.0043") and middle == last == "(1.)" and bad == "(False)"
    assert shown(SNR, "v_prediction").endswith("(False)")
    zero = SNR.clone()
    zero[-1] = 0
    assert shown(zero, "epsilon").endswith("(True)")
    assert shown(zero, "v_prediction").endswith("(False)")
