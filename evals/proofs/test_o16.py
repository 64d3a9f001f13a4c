"""O16: NLLLoss on scores that are no log probabilities."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    log_softmax,
    nll_loss,
)

CLASSES = 10


def train(loss_of) -> tuple[list[float], float]:
    """Losses of 200 steps, and the accuracy afterwards, on ten separable clusters."""
    torch.manual_seed(0)
    centres = torch.randn(CLASSES, 20)
    labels = torch.arange(CLASSES).repeat(20)
    inputs = centres[labels] + 0.8 * torch.randn(len(labels), 20)
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, (model(inputs).argmax(1) == labels).float().mean().item()


def test_raw_scores_give_a_loss_that_falls_without_limit_and_a_poor_model():
    losses, accuracy = train(nll_loss)
    assert losses[-1] < -1e6 and accuracy < 0.5


def test_probabilities_give_a_loss_between_minus_one_and_zero_that_learns_slowly():
    losses, accuracy = train(lambda scores, labels: nll_loss(scores.softmax(1), labels))
    assert all(-1 <= loss < 0 for loss in losses) and accuracy < 0.9


def test_log_probabilities_give_a_positive_loss_near_ln_of_the_classes_and_learn():
    losses, accuracy = train(lambda scores, labels: nll_loss(log_softmax(scores, dim=1), labels))
    assert abs(losses[0] - math.log(CLASSES)) < 0.3
    assert min(losses) > 0 and accuracy > 0.99


def test_cross_entropy_on_raw_scores_is_the_same_fix():
    assert train(cross_entropy) == train(
        lambda scores, labels: nll_loss(log_softmax(scores, dim=1), labels)
    )


def test_the_check_tells_the_three_inputs_apart():
    scores = torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(0))
    ones = torch.ones(4)
    torch.testing.assert_close(log_softmax(scores, dim=1).exp().sum(1), ones)
    torch.testing.assert_close(scores.softmax(1).sum(1), ones)
    assert not torch.allclose(scores.exp().sum(1), ones) and not torch.allclose(
        scores.softmax(1).exp().sum(1), ones
    )


@pytest.mark.parametrize("low, high", [(0, 255), (1, 2), (-1, 1)])
def test_binary_targets_outside_zero_to_one_take_the_floor_away_and_nothing_is_raised(low, high):
    mask = torch.tensor([low, high] * 8).float()

    def last_loss(target):
        scores = torch.zeros(16, requires_grad=True)
        optimizer = torch.optim.SGD([scores], 100.0)
        for _ in range(50):
            optimizer.zero_grad()
            loss = binary_cross_entropy_with_logits(scores, target)
            loss.backward()
            optimizer.step()
        return loss.item()

    assert last_loss(mask) < -10
    assert 0 <= last_loss(mask - 1 if low == 1 else (mask > 0).float()) < 0.1


def test_the_check_prints_ones_first_for_log_probabilities_and_second_for_probabilities(printed):
    scores = torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(0))

    def ones(out):
        sums = [float(v) for v in re.findall(r"-?\d+\.\d*(?:e[-+]\d+)?", printed("O16", out=out))]
        return [part == pytest.approx([1.0] * 3, abs=1e-3) for part in (sums[:3], sums[3:])]

    assert ones(log_softmax(scores, dim=1)) == [True, False]
    assert ones(scores.softmax(1)) == [False, True]
    assert ones(scores) == [False, False]
