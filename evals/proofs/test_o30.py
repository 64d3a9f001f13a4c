"""O30: a linear layer is built for one width; a lazy one takes the width that comes."""

import pytest
import torch
from torch import nn


def test_another_width_is_refused_with_the_signature_and_the_hook_shows_it(says):
    layer, seen = nn.Linear(768, 10), []
    layer.register_forward_pre_hook(lambda m, i: seen.append(i[0].shape))
    with pytest.raises(RuntimeError) as error:
        layer(torch.zeros(32, 512))
    says("O30", str(error.value))
    assert seen[0][-1] != layer.in_features


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
