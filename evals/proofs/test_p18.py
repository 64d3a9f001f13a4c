"""P18: gradients that change size from layer to layer."""

import pytest
import torch
from torch import nn
from torch.nn.functional import gelu


def norms(activation, residual: bool = False, scale: float = 1.0, depth: int = 20):
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Linear(64, 64) for _ in range(depth)])
    x = torch.randn(32, 64)
    for layer in layers:
        layer.weight.data.mul_(scale)
        h = activation(layer(x))
        x = x + h if residual else h
    x.square().mean().backward()
    return [layer.weight.grad.norm().item() for layer in layers]


def test_twenty_sigmoid_layers_leave_the_first_with_nothing():
    found = norms(torch.sigmoid)
    assert found[0] < 1e-15 and found[-1] > 0.1


def test_large_weights_multiply_the_gradient_from_layer_to_layer():
    assert norms(torch.relu, scale=5)[0] > 1e10


def test_residual_paths_keep_first_and_last_layer_within_a_factor_of_ten():
    found = norms(gelu, residual=True)
    assert 0.1 < found[0] / found[-1] < 10


def test_one_total_norm_hides_that_the_first_layer_gets_nothing():
    found = torch.tensor(norms(torch.sigmoid))
    assert found.norm() > 0.1


def test_an_infinite_limit_measures_without_clipping():
    weight = nn.Parameter(torch.zeros(9))
    weight.grad = torch.ones(9)
    assert nn.utils.clip_grad_norm_([weight], float("inf")) == 3
    assert torch.equal(weight.grad, torch.ones(9))


@pytest.mark.parametrize("growth, end", [(0.9, "vanishes"), (1.1, "explodes")])
def test_a_recurrent_weight_a_tenth_off_one_is_enough_over_200_steps(growth, end):
    state = torch.ones(1, requires_grad=True)
    x = state
    for _ in range(200):
        x = x * growth
    x.backward()
    assert state.grad < 1e-8 if end == "vanishes" else state.grad > 1e8


@pytest.mark.parametrize("activation, residual", [(torch.sigmoid, False), (gelu, True)])
def test_the_check_compares_first_and_last_matrix(printed, activation, residual):
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(64, 64) for _ in range(20)])
    x = torch.randn(32, 64)
    for layer in model:
        x = x + activation(layer(x)) if residual else activation(layer(x))
    x.square().mean().backward()
    lines = dict(line.split() for line in printed("P18", model=model).splitlines())
    ratio = float(lines["0.weight"]) / float(lines["19.weight"])
    assert 0.01 < ratio < 100 if residual else ratio < 1e-6


@pytest.mark.parametrize("every, vanishes", [(False, True), (True, False)])
def test_over_the_steps_of_a_recurrent_net_only_the_gradient_of_its_input_shows_it(
    value_of, every, vanishes
):
    torch.manual_seed(0)
    net, x = nn.RNN(8, 64, batch_first=True), torch.randn(4, 60, 8).requires_grad_()
    out, _ = net(x)
    (out if every else out[:, -1]).square().mean().backward()
    matrices = [p.grad.norm() for p in net.parameters() if p.ndim > 1]
    assert 0.01 < matrices[0] / matrices[1] < 100
    ratio = value_of("P18", "x.grad[:, 0]", x=x)
    assert ratio < 1e-6 if vanishes else 0.01 < ratio < 100
