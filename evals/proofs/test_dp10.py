"""DP10: what a batch looks like after a wrong normalisation."""

import re

import pytest
import torch

TENSOR = re.compile(r"tensor\([^)]*\)")
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


@pytest.fixture
def images():
    """0 to 1, with ImageNet's mean and std."""
    torch.manual_seed(0)
    return (torch.randn(500, 3, 8, 8) * STD + MEAN).clamp(0, 1)


def statistics(x):
    """Mean and std of each channel."""
    return x.mean((0, 2, 3)), x.std((0, 2, 3))


@pytest.fixture
def suits_imagenet(printed):
    """suits_imagenet(x): what the check prints for a batch lies in the bounds that it names."""

    def judge(x):
        told = printed("DP10", val_loader=[(x, None)])
        *channels, low, high = (
            eval(part, {"tensor": torch.tensor}) for part in TENSOR.findall(told)
        )
        mean, std = channels
        return (
            mean.abs().max() <= 0.5
            and (std - 1).abs().max() < 0.3
            and low >= -2.12
            and high <= 2.65
        )

    return judge


WRONG = {
    "not normalised": (lambda x: x, [0.49, 0.46, 0.41], 0.22),
    "0.5 instead": (lambda x: (x - 0.5) / 0.5, [-0.03, -0.09, -0.18], 0.44),
    "red and blue swapped": (lambda x: (x.flip(1) - MEAN) / STD, [-0.34, 0.0, 0.35], 0.97),
    "images to 255": (lambda x: (255 * x - MEAN) / STD, [538, 517, 461], 248),
    "numbers for 255": (lambda x: (x - 255 * MEAN) / (255 * STD), [-2.11, -2.03, -1.80], 0.004),
    "divided twice": (lambda x: (x / 255 - MEAN) / STD, [-2.11, -2.03, -1.80], 0.004),
    "normalised twice": (lambda x: ((x - MEAN) / STD - MEAN) / STD, [-2.11, -2.03, -1.76], 4.3),
}


def test_the_right_numbers_give_mean_0_std_1_and_the_range_of_the_check(images):
    x = (images - MEAN) / STD
    mean, std = statistics(x)
    assert mean.abs().max() < 0.02 and (std - 1).abs().max() < 0.05
    assert x.min().item() == pytest.approx(-2.12, abs=0.01) and x.max().item() == pytest.approx(
        2.64, abs=0.01
    )


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_leaves_the_statistics_of_the_table(images, name):
    normalise, mean, std = WRONG[name]
    found_mean, found_std = statistics(normalise(images))
    assert found_mean.tolist() == pytest.approx(mean, rel=0.02, abs=0.03)
    assert found_std.mean().item() == pytest.approx(std, rel=0.1)


# The colours of swapped channels stay within the bounds: DP11 has a check of its own for them.
@pytest.mark.parametrize("name", [name for name in WRONG if name != "red and blue swapped"])
def test_the_line_of_the_check_refuses_each_mistake_and_accepts_the_right_numbers(
    images, suits_imagenet, name
):
    assert suits_imagenet((images - MEAN) / STD)
    assert not suits_imagenet(WRONG[name][0](images))


def test_the_line_of_the_check_takes_bytes_that_nobody_scaled(images, suits_imagenet):
    assert not suits_imagenet((255 * images).to(torch.uint8))


def test_the_average_of_per_image_stds_is_too_small():
    torch.manual_seed(0)
    x = torch.rand(200, 1, 1, 1) + 0.1 * torch.randn(200, 3, 8, 8)
    assert x.std().item() == pytest.approx(0.31, abs=0.03)
    assert x.flatten(1).std(1).mean().item() == pytest.approx(0.10, abs=0.01)
