"""O26: averages that stay while the shape of a layer changes."""

import ast
import math

import numpy as np
import pytest
import torch
from torch import nn


def summary(values: torch.Tensor) -> torch.Tensor:
    return torch.stack([values.mean(), values.std(), values.norm() / len(values) ** 0.5])


def pair() -> tuple[torch.Tensor, torch.Tensor]:
    """Values of one mean, deviation and norm: a bell, and two spikes at the ends."""
    bell = torch.erfinv(torch.linspace(-0.999, 0.999, 1000)) * 2**0.5
    return bell / bell.std(correction=0), torch.cat([torch.full((500,), -1.0), torch.ones(500)])


def test_mean_deviation_and_norm_are_the_same_and_the_histograms_are_not():
    bell, spikes = pair()
    torch.testing.assert_close(summary(bell), summary(spikes), atol=1e-2, rtol=0)
    middle = slice(3, 7)
    assert torch.histc(bell, 10, -3, 3)[middle].sum() > 700
    assert torch.histc(spikes, 30, -3, 3)[12:18].sum() == 0


def test_one_of_thirty_layers_saturates_and_the_average_over_layers_hardly_moves():
    torch.manual_seed(0)
    x = torch.randn(512, 32)
    layers = [nn.Linear(32, 32) for _ in range(30)]
    spread = [torch.tanh(layer(x)).detach() for layer in layers]
    before = torch.stack([h.abs().mean() for h in spread]).mean()
    with torch.no_grad():
        layers[7].weight.mul_(30)
    saturated = torch.tanh(layers[7](x)).detach()
    after = torch.stack([h.abs().mean() for h in [*spread[:7], saturated, *spread[8:]]]).mean()
    assert after / before < 1.1
    share = lambda h: (h.abs() > 0.99).float().mean()
    assert share(saturated) > 0.7 and share(spread[7]) < 0.01


def test_the_text_that_numpy_prints_for_a_layer_with_nan_is_recognised(says):
    with pytest.raises(ValueError) as error:
        np.histogram(np.array([1.0, math.nan]))
    says("O26", str(error.value))


def test_the_text_that_torch_prints_for_a_layer_with_nan_is_recognised(says):
    with pytest.raises(RuntimeError) as error:
        torch.histc(torch.tensor([1.0, math.nan]))
    says("O26", str(error.value))


def test_tensorboard_refuses_a_layer_of_nothing_but_nan_or_of_huge_values(says, tmp_path):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        for values in (torch.full((10,), math.nan), torch.full((10,), 1e28)):
            with pytest.raises(ValueError) as error:
                writer.add_histogram("weights", values, 0)
            says("O26", str(error.value))
        writer.add_histogram("weights", torch.randn(10), 1)


def test_tensorboard_refuses_bf16_values_that_fp16_can_t_hold_and_takes_them_as_floats(
    says, tmp_path
):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    values = torch.full((10,), 1e5).bfloat16()
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(ValueError) as error:
            writer.add_histogram("weights", values, 0)
        says("O26", str(error.value))
        writer.add_histogram("weights", values.float(), 0)


@pytest.mark.parametrize("saturated", [True, False])
def test_the_check_shows_one_layer_far_off_its_neighbours_and_none_in_a_healthy_network(
    printed, saturated
):
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32) for _ in range(12)]
    if saturated:
        layers[7].weight.data.mul_(30)
    model = nn.Sequential(*(part for layer in layers for part in (layer, nn.Tanh())))
    x = torch.randn(512, 32)
    nn.functional.mse_loss(model(x), x).backward()
    ratios = list(ast.literal_eval(printed("O26", model=model)).values())
    off = [
        i
        for i in range(1, 11)
        if all(max(ratios[i] / r, r / ratios[i]) > 100 for r in (ratios[i - 1], ratios[i + 1]))
    ]
    assert off == ([7] if saturated else [])


def test_the_check_leaves_out_weights_that_are_still_zero_and_names_broken_ones(printed):
    fresh, broken = nn.Linear(3, 3), nn.Linear(3, 3)
    nn.init.zeros_(fresh.weight)
    nn.init.constant_(broken.weight, math.nan)
    for layer in (fresh, broken):
        layer(torch.ones(2, 3)).sum().backward()
    assert printed("O26", model=fresh) == "{}"
    assert printed("O26", model=broken) == "{'weight': nan}"
