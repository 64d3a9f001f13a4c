"""DF4: what the network predicts and how noise grows must be the same when sampling."""

from types import SimpleNamespace

import torch
from check_code import block, shown


def linear(start=1e-4, end=0.02):
    return torch.cumprod(1 - torch.linspace(start, end, 1000, dtype=torch.float64), 0)


def scaled_linear():
    return torch.cumprod(
        1 - torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2, 0
    )


def zero_terminal(alphas):
    root = alphas.sqrt()
    return ((root - root[-1]) * root[0] / (root[0] - root[-1])) ** 2


MEAN, STD = 2.0, 0.2  # of the data: everything bright


def clean_guess(x, a):
    """The best guess of the clean value from a noisy one."""
    return MEAN + a.sqrt() * STD**2 * (x - a.sqrt() * MEAN) / (a * STD**2 + 1 - a)


def network(kind, alphas):
    def predict(x, t):
        a, clean = alphas[t], clean_guess(x, alphas[t])
        eps = (x - a.sqrt() * clean) / (1 - a).sqrt()
        return {
            "sample": clean,
            "epsilon": eps,
            "v_prediction": a.sqrt() * eps - (1 - a).sqrt() * clean,
        }[kind]

    return predict


def sample(predict, kind, alphas, steps=50, start=999):
    x = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    times = torch.linspace(start, 0, steps).long()
    for i, t in enumerate(times):
        a, out = alphas[t], predict(x, t)
        if kind == "epsilon":
            clean = (x - (1 - a).sqrt() * out) / a.sqrt()
        elif kind == "v_prediction":
            clean = a.sqrt() * x - (1 - a).sqrt() * out
        else:
            clean = out
        eps = (x - a.sqrt() * clean) / (1 - a).sqrt()
        following = (
            alphas[times[i + 1]] if i + 1 < steps else torch.tensor(1.0, dtype=torch.float64)
        )
        x = following.sqrt() * clean + (1 - following).sqrt() * eps
    return x


def off(x):
    return abs(x.mean().item() - MEAN) + abs(x.std().item() - STD)


def test_every_kind_of_prediction_gives_the_data_when_it_is_named_rightly():
    for kind in ("epsilon", "v_prediction", "sample"):
        assert off(sample(network(kind, linear()), kind, linear())) < 0.1


def test_a_v_network_sampled_as_epsilon_or_the_reverse_gives_rubbish():
    assert off(sample(network("v_prediction", linear()), "epsilon", linear())) > 1
    assert off(sample(network("epsilon", linear()), "v_prediction", linear())) > 0.4


def test_another_beta_schedule_when_sampling_moves_the_result():
    predict = network("epsilon", scaled_linear())
    right = off(sample(predict, "epsilon", scaled_linear()))
    wrong = off(sample(predict, "epsilon", linear()))
    assert wrong > 5 * right and wrong > 0.2


def test_the_usual_schedule_never_reaches_pure_noise_and_the_rescaled_one_does():
    assert 0.06 < scaled_linear()[-1].sqrt() < 0.07
    assert zero_terminal(scaled_linear())[-1] == 0


def test_at_zero_signal_an_epsilon_cannot_be_turned_into_a_picture_but_v_can():
    alphas = zero_terminal(scaled_linear())
    assert not torch.isfinite(sample(network("epsilon", alphas), "epsilon", alphas)).all()
    assert off(sample(network("v_prediction", alphas), "v_prediction", alphas)) < 0.1


def test_sampling_that_skips_the_noisiest_steps_changes_the_brightness():
    alphas = zero_terminal(scaled_linear())
    predict = network("v_prediction", alphas)
    dark = MEAN - sample(predict, "v_prediction", alphas, steps=10, start=751).mean()
    right = MEAN - sample(predict, "v_prediction", alphas, steps=10).mean()
    assert dark > 0.03 > 10 * abs(right)


TRAINED = {
    "_class_name": "DDPMScheduler",
    "prediction_type": "v_prediction",
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "num_train_timesteps": 1000,
    "timestep_spacing": "leading",
}
FROM_CONFIG = (
    TRAINED
    | {  # what DPMSolverMultistepScheduler.from_config() makes of it in diffusers 0.42
        "_class_name": "DPMSolverMultistepScheduler",
        "timestep_spacing": "linspace",
        "algorithm_type": "dpmsolver++",
        "rescale_betas_zero_snr": False,
    }
)
EMPTY = {  # what DDIMScheduler() of diffusers has
    "_class_name": "DDIMScheduler",
    "prediction_type": "epsilon",
    "beta_schedule": "linear",
    "beta_start": 0.0001,
    "beta_end": 0.02,
    "num_train_timesteps": 1000,
}


def differing(other, trained=TRAINED, **levels) -> set[str]:
    """The names that the lines of the check print."""
    schedulers = {
        "train_scheduler": SimpleNamespace(config=trained, alphas_cumprod=levels.get("train")),
        "pipe": SimpleNamespace(
            scheduler=SimpleNamespace(config=other, alphas_cumprod=levels.get("sample"))
        ),
    }
    return {line.split()[0] for line in shown(block("DF4"), **schedulers).splitlines()}


def test_the_check_sees_a_class_that_keeps_zero_terminal_snr_in_its_config_and_ignores_it():
    config, usual = TRAINED | {"rescale_betas_zero_snr": True}, scaled_linear()
    zero = usual.clone()
    zero[-1] = 0
    assert differing(config, config, train=zero, sample=usual) == {"last_level"}
    assert differing(config, config, train=zero, sample=zero + 2.0**-24) == set()


def test_the_check_names_what_an_empty_scheduler_has_otherwise_and_nothing_of_one_from_the_config():
    assert differing(EMPTY) == {"prediction_type", "beta_schedule", "beta_start", "beta_end"}
    assert differing(FROM_CONFIG) == set()
    assert differing(TRAINED | {"clip_sample": True}) == {"clip_sample"}  # DDIMScheduler(**betas)
    schedules = {"linear": linear, "scaled_linear": scaled_linear}

    def drawn(config):
        predict = network(TRAINED["prediction_type"], schedules[TRAINED["beta_schedule"]]())
        alphas = schedules[config["beta_schedule"]]()
        return off(sample(predict, config["prediction_type"], alphas))

    assert drawn(FROM_CONFIG) < 0.1 and drawn(EMPTY) > 1
