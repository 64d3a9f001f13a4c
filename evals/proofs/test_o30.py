"""O30: a linear layer is built for one width; a lazy one takes the width that comes."""

import re
from types import SimpleNamespace

import pytest
import torch
from check_code import span
from torch import nn


def test_another_width_is_refused_with_the_signature_and_the_hook_shows_it(says, capsys):
    layer = nn.Linear(768, 10)
    exec(span("O30", "register_forward_pre_hook"), {"model": SimpleNamespace(layer=layer)})
    with pytest.raises(RuntimeError) as error:
        layer(torch.zeros(32, 512))
    says("O30", str(error.value))
    layer(torch.zeros(32, 768))
    refused, taken = re.findall(r"torch.Size\(\[32, (\d+)\]\)", capsys.readouterr().out)
    assert int(refused) != layer.in_features == int(taken)


def head(last):
    return nn.Sequential(nn.Conv2d(3, 8, 3), *last)


def test_another_image_size_breaks_a_flattened_head_and_pooling_or_a_lazy_layer_cures_it(says):
    fixed = head([nn.Flatten(1), nn.Linear(8 * 30 * 30, 10)])
    assert fixed(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    with pytest.raises(RuntimeError) as error:
        fixed(torch.zeros(2, 3, 40, 40))
    says("O30", str(error.value))
    pooled = head([nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(8, 10)])
    lazy = head([nn.Flatten(1), nn.LazyLinear(10)])
    for model in (pooled, lazy):
        assert model(torch.zeros(2, 3, 40, 40)).shape == (2, 10)


def test_a_packed_4_bit_weight_that_meets_the_plain_kernel_shows_a_1_in_front(says):
    packed = torch.zeros(512 * 768 // 2, 1)  # two numbers a byte, in one column
    with pytest.raises(RuntimeError, match="80x512 and 1x196608") as error:
        nn.functional.linear(torch.zeros(80, 512), packed)
    says("O30", str(error.value))
