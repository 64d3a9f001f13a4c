"""DP13: transforms in an order, or on a type, that doesn't work."""

import numpy as np
import pytest
import torch
from check_code import shown, span
from PIL import Image
from torchvision import transforms
from torchvision.transforms import v2

ARRAY = np.full((8, 8, 3), 255, np.uint8)
PICTURE = Image.fromarray(ARRAY)
THREE = dict(mean=[0.5] * 3, std=[0.5] * 3)


@pytest.mark.parametrize(
    "step, x",
    [
        (transforms.Normalize(**THREE), PICTURE),
        (transforms.Normalize(**THREE), ARRAY),
        (transforms.Normalize(**THREE), torch.zeros(3, 8, 8, dtype=torch.uint8)),
        (transforms.Normalize(**THREE), torch.zeros(1, 28, 28)),
        (transforms.Normalize(**THREE), torch.zeros(4, 8, 8)),
        (transforms.Normalize(**THREE), torch.zeros(8, 8)),
        (v2.Normalize(**THREE), PICTURE),
        (v2.Normalize(**THREE), torch.zeros(3, 8, 8, dtype=torch.uint8)),
        (transforms.ToTensor(), torch.zeros(3, 8, 8)),
        (transforms.Resize(4), ARRAY),
        (transforms.RandomHorizontalFlip(1.0), ARRAY),
    ],
)
def test_each_misfit_fails_with_a_signature(says, step, x):
    with pytest.raises((TypeError, RuntimeError, ValueError)) as error:
        step(x)
    says("DP13", str(error.value))


def test_v2_hands_numpy_arrays_on_untouched():
    assert v2.Resize(4)(ARRAY) is ARRAY and v2.Normalize(**THREE)(ARRAY) is ARRAY


def test_v2_normalize_makes_three_channels_of_a_gray_image():
    assert v2.Normalize(**THREE)(torch.zeros(1, 8, 8)).shape == (3, 8, 8)


@pytest.mark.parametrize("raw", [PICTURE, ARRAY])
def test_the_fix_works_for_pil_and_numpy_and_the_check_prints_every_step(raw):
    transform = v2.Compose(
        [
            v2.ToImage(),
            v2.RandomResizedCrop(4, antialias=True),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(**THREE),
        ]
    )
    assert transform(raw).shape == (3, 4, 4) and transform(raw).max().item() == pytest.approx(1)
    lines = shown(span("DP13", "transform.transforms"), raw=raw, transform=transform).splitlines()
    assert lines[2] == "ToDtype torch.float32 torch.Size([3, 4, 4])"


def test_the_check_names_what_comes_before_normalize_in_the_failing_orders():
    steps = [v2.Resize(4), v2.ToDtype(torch.float32, scale=True)]

    def check(raw, *steps):
        return shown(
            span("DP13", "transform.transforms"), raw=raw, transform=v2.Compose(steps)
        ).splitlines()[-1]

    assert check(PICTURE, *steps) == "ToDtype <class 'PIL.Image.Image'>"
    assert check(ARRAY, *steps) == "ToDtype uint8 (8, 8, 3)"
    gray = check(Image.new("L", (28, 28)), transforms.ToTensor())
    assert gray == "ToTensor torch.float32 torch.Size([1, 28, 28])"
