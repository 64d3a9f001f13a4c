"""P17: weights that start with the wrong spread."""

import math

import pytest
import torch
from check_code import block
from torch import nn
from torch.nn.functional import cross_entropy, layer_norm


def first_loss(std: float | None, classes: int = 5000, width: int = 512) -> float:
    """Loss before training of a head that shares its matrix with the embedding."""
    torch.manual_seed(0)
    embedding = nn.Embedding(classes, width)
    if std:
        nn.init.normal_(embedding.weight, std=std)
    tokens, targets = torch.randint(classes, (64,)), torch.randint(classes, (64,))
    hidden = layer_norm(
        torch.randn(64, width) + embedding(tokens) / embedding.weight.std(), (width,)
    )
    return cross_entropy(hidden @ embedding.weight.T, targets).item()


def test_a_shared_embedding_of_spread_1_starts_in_the_hundreds_and_of_spread_002_near_ln_classes():
    assert first_loss(None) > 200
    assert first_loss(0.02) == pytest.approx(math.log(5000), rel=0.1)


def layers_of(kind: str, depth: int) -> list[nn.Linear]:
    layers = [nn.Linear(256, 256) for _ in range(depth)]
    for layer in layers:
        if kind == "he":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
        if kind == "normal":
            nn.init.normal_(layer.weight)
    return layers


def stack(kind: str, depth: int = 30):
    """Spread of the output, gradient norm of the first and of the last layer, before any step."""
    torch.manual_seed(0)
    layers = layers_of(kind, depth)
    x = torch.randn(32, 256)
    for layer in layers:
        x = torch.relu(layer(x))
    x.square().mean().sqrt().backward()
    return x.std().item(), layers[0].weight.grad.norm().item(), layers[-1].weight.grad.norm().item()


def test_thirty_default_layers_with_relu_starve_the_first():
    _, first, last = stack("default")
    assert first < 1e-10 and last > 1e-3


def test_normal_without_a_spread_explodes():
    assert stack("normal")[0] > 1e25


def test_he_initialisation_keeps_signal_and_gradients_level():
    spread, first, last = stack("he")
    assert 0.1 < spread < 10 and 0.1 < first / last < 10


def residual(depth: int, scale: float) -> float:
    torch.manual_seed(0)
    x = torch.randn(16, 256)
    for _ in range(depth):
        x = x + layer_norm(x, (256,)) @ (torch.randn(256, 256) * 0.08 * scale)
    return x.std().item()


def test_a_residual_stream_grows_with_depth_unless_each_branch_starts_smaller():
    assert residual(48, 1) > 1.8 * residual(12, 1)
    assert residual(48, 1 / math.sqrt(96)) == pytest.approx(
        residual(12, 1 / math.sqrt(24)), rel=0.05
    )


def test_the_transformer_layer_of_pytorch_normalises_after_the_branch_unless_told():
    assert nn.TransformerEncoderLayer(8, 2).norm_first is False


@pytest.mark.parametrize("std, sound", [(None, False), (0.02, True)])
def test_the_check_puts_the_first_loss_beside_the_logarithm_of_the_classes(printed, std, sound):
    loss = torch.tensor(first_loss(std))
    first, expected = map(float, printed("P17", loss=loss, math=math, classes=5000).split())
    assert (first == pytest.approx(expected, rel=0.1)) == sound == (first < 3 * expected)


def test_the_code_of_the_fix_starts_a_transformer_near_ln_of_its_classes():
    torch.manual_seed(0)
    layers, width, classes = 4, 64, 5000
    layer = nn.TransformerEncoderLayer(width, 4, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(
        layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False
    )
    model = nn.ModuleDict({"table": nn.Embedding(classes, width), "body": body})
    tokens, targets = torch.randint(classes, (2, 4, 16))

    def loss() -> float:
        logits = model["body"](model["table"](tokens)) @ model["table"].weight.T
        return cross_entropy(logits.flatten(0, 1), targets.flatten()).item()

    before = loss()
    code = block("P17", "fix")
    exec(code, {"nn": nn, "model": model, "layers": layers})
    assert loss() == pytest.approx(math.log(classes), rel=0.1) and before > 2 * math.log(classes)


@pytest.mark.parametrize("kind, sound", [("default", False), ("normal", False), ("he", True)])
def test_the_spread_of_the_check_differs_a_millionfold_only_where_the_start_is_wrong(
    value_of, kind, sound
):
    torch.manual_seed(0)
    x, spreads = torch.randn(32, 256), []
    for layer in layers_of(kind, 30):
        x = torch.relu(layer(x))
        spreads.append(value_of("P17", "out.std(0)", out=x).item())
    assert (max(spreads[0] / spreads[-1], spreads[-1] / spreads[0]) < 1e4) == sound
    assert sound or not 1e-6 < spreads[0] / spreads[-1] < 1e6
