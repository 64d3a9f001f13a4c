"""V1: training and evaluation prepare pixels differently."""

import re

import pytest
import torch
from torch import nn

MEAN, STD = (
    torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1),
    torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1),
)
COLOURS = torch.tensor(
    [[200, 60, 60], [60, 60, 200], [190, 120, 60], [60, 120, 190]]
)  # two pairs, red and blue swapped


def pictures(seed):
    """uint8 pictures of four colours, with noise, and their classes."""
    torch.manual_seed(seed)
    labels = torch.randint(0, 4, (80,))
    noise = torch.randint(-50, 50, (80, 3, 5, 5))
    return (COLOURS[labels][:, :, None, None] + noise).clamp(0, 255).to(torch.uint8), labels


def right(pixels):
    return (pixels / 255 - MEAN) / STD


@pytest.fixture(scope="module")
def accuracy():
    """accuracy(prepare): of a network trained on `right` pictures, on new ones that `prepare` prepared."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    pixels, labels = pictures(1)
    for _ in range(80):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(right(pixels)), labels).backward()
        optimizer.step()
    new, answers = pictures(2)
    return lambda prepare: (model(prepare(new)).argmax(1) == answers).float().mean().item()


def test_with_the_same_preparation_new_pictures_are_recognised(accuracy):
    assert accuracy(right) > 0.95


@pytest.mark.parametrize(
    "prepare",
    [
        lambda pixels: pixels / 255,  # evaluation forgot to normalise
        lambda pixels: (pixels / 255 / 255 - MEAN) / STD,  # scaled twice
        lambda pixels: (pixels.float() - MEAN) / STD,  # never scaled
        lambda pixels: (pixels / 255 - MEAN * 255) / (STD * 255),  # statistics of the other scale
    ],
    ids=["not normalised", "scaled twice", "not scaled", "statistics times 255"],
)
def test_each_other_preparation_costs_much_of_the_accuracy(accuracy, prepare):
    assert accuracy(prepare) < 0.6


def test_swapped_channels_mix_up_the_classes_that_differ_in_red_and_blue(accuracy):
    assert accuracy(lambda pixels: right(pixels.flip(1))) < 0.1


@pytest.mark.parametrize(
    "prepare, mean, std",
    [
        (right, 0.0, 1.0),
        (lambda pixels: (pixels / 255 / 255 - MEAN) / STD, -2.0, 0.0),
        (lambda pixels: (pixels.float() - MEAN) / STD, 480, 255),
        (lambda pixels: (pixels / 255 - MEAN * 255) / (STD * 255), -2.0, 0.0),
    ],
    ids=["right", "scaled twice", "not scaled", "statistics times 255"],
)
def test_mean_and_deviation_of_one_batch_name_the_mistake(prepare, mean, std):
    batch = prepare(
        torch.randint(0, 256, (8, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    )
    assert batch.mean().item() == pytest.approx(mean, abs=0.3 + abs(mean) * 0.2)
    assert batch.std().item() == pytest.approx(std, abs=0.35 + std * 0.4)


def test_the_check_gives_alike_numbers_near_0_and_1_only_where_both_loaders_prepare_alike(printed):
    def shown(prepare):
        pixels, labels = pictures(0)
        text = printed("V1", loader=[(prepare(pixels), labels)])
        means, deviations = re.findall(r"tensor\(\[([^\]]*)", text)
        return [sum(map(float, row.split(","))) / 3 for row in (means, deviations)]

    mean, std = shown(right)
    assert abs(mean) < 0.5 and 0.5 < std < 1.5
    mean, std = shown(lambda pixels: right((pixels / 255).float()))  # scaled twice
    assert mean < -1.5 and std < 0.2
    assert shown(lambda pixels: pixels.float())[0] > 50  # not scaled
