"""DP12: images whose range or dtype nobody made right. torchvision's part runs where it can be imported."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import transforms
from torchvision.transforms import v2

WHITE = np.full((4, 4, 3), 255, np.uint8)


@pytest.mark.parametrize("layer", [nn.Conv2d(3, 2, 1), nn.Linear(4, 2)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64])
def test_byte_and_double_inputs_stop_at_the_first_layer_with_the_signatures(says, layer, dtype):
    x = torch.ones(1, 3, 4, 4, dtype=dtype)
    with pytest.raises(RuntimeError) as error:
        layer(x)
    says("DP12", str(error.value))
    layer(x.float())


def test_the_first_loss_is_near_ln_of_the_classes_with_0_to_1_and_huge_with_0_to_255():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 10))
    x, y = torch.rand(64, 3, 4, 4), torch.randint(10, (64,))
    assert nn.functional.cross_entropy(net(x), y).item() == pytest.approx(math.log(10), abs=0.3)
    assert nn.functional.cross_entropy(net(255 * x), y).item() > 5 * math.log(10)


def test_16_bit_values_read_as_signed_turn_negative():
    assert np.array([60000], np.uint16).astype(np.int16).tolist() == [-5536]


@pytest.mark.parametrize(
    "array, largest, dtype",
    [
        (WHITE, 1.0, torch.float32),
        (WHITE.astype(np.float32), 255.0, torch.float32),
        (WHITE.astype(np.float64), 255.0, torch.float64),
        (WHITE.astype(np.int32), 255, torch.int32),
        (WHITE // 255, 1 / 255, torch.float32),
    ],
)
def test_to_tensor_scales_uint8_only(array, largest, dtype):
    x = transforms.ToTensor()(array)
    assert x.dtype == dtype and x.max().item() == pytest.approx(largest)


@pytest.mark.parametrize(
    "array, scale, largest",
    [
        (WHITE, True, 1.0),
        (WHITE, False, 255.0),
        (WHITE.astype(np.float32), True, 255.0),
        (np.full((4, 4, 1), 65535, np.uint16), True, 1.0),
        (np.full((4, 4, 1), 65535, np.int32), True, 65535 / 2**31),
    ],
)
def test_to_dtype_scales_integers_by_their_type_when_told_to(array, scale, largest):

    x = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=scale)])(array)
    assert x.max().item() == pytest.approx(largest)


@pytest.mark.parametrize(
    "array, line",
    [
        (WHITE, "torch.float32 1.0 1.0"),
        (WHITE.astype(np.float32), "torch.float32 255.0 255.0"),
        (WHITE.astype(np.float64), "torch.float64 255.0 255.0"),
        (WHITE.astype(np.uint16) * 257, "torch.uint16 65535.0 65535.0"),
        (WHITE // 255, f"torch.float32 {np.float32(1 / 255)!s} {np.float32(1 / 255)!s}"),
    ],
)
def test_the_check_names_format_and_range_of_a_sample(printed, array, line):
    shown = printed("DP12", torch=torch, dataset=[(transforms.ToTensor()(array), 0)]).split()
    assert shown[0] == line.split()[0]
    assert [float(n) for n in shown[1:]] == pytest.approx([float(n) for n in line.split()[1:]])
