"""O12: softmax before a loss that has its own."""

import math
import re

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy


@pytest.mark.parametrize(
    "classes, floor", [(2, 0.313), (3, 0.551), (10, 1.461), (100, 3.622), (1000, 5.909)]
)
def test_perfect_answers_through_two_softmaxes_cost_a_floor(classes, floor):
    scores = torch.full((1, classes), -1e4)
    scores[0, 1] = 1e4
    target = torch.tensor([1])
    assert cross_entropy(scores.softmax(1), target).item() == pytest.approx(floor, abs=0.0006)
    assert cross_entropy(scores.softmax(1), target).item() == pytest.approx(
        math.log(math.e + classes - 1) - 1, abs=1e-4
    )
    assert cross_entropy(scores, target).item() == 0


def test_one_class_for_everything_costs_2_361_with_ten_classes():
    scores = torch.zeros(10, 10)
    scores[:, 4] = 1e4
    assert cross_entropy(scores.softmax(1), torch.arange(10)).item() == pytest.approx(
        2.361, abs=0.001
    )


def gradient(scores, double):
    scores = scores.clone().requires_grad_(True)
    cross_entropy(scores.softmax(1) if double else scores, torch.tensor([0])).backward()
    return scores.grad.norm().item()


@pytest.mark.parametrize("classes", [10, 1000])
def test_the_first_gradient_is_as_many_times_smaller_as_there_are_classes(classes):
    start = torch.zeros(1, classes)
    assert gradient(start, False) / gradient(start, True) == pytest.approx(classes, rel=1e-3)


def test_a_confidently_wrong_answer_gets_almost_no_gradient():
    wrong = torch.zeros(1, 10)
    wrong[0, 1] = 10.0
    assert gradient(wrong, False) > 1 and gradient(wrong, True) < 1e-3


def train(double: bool) -> tuple[float, float]:
    torch.manual_seed(0)
    x = torch.randn(40, 20)
    y = torch.arange(40) % 10
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        out = model(x)
        loss = cross_entropy(out.softmax(1) if double else out, y)
        loss.backward()
        optimizer.step()
    return loss.item(), (out.argmax(1) == y).float().mean().item()


def test_training_ends_at_the_floor_with_every_answer_right_and_at_zero_without_the_softmax():
    loss, accuracy = train(double=True)
    assert accuracy == 1 and loss == pytest.approx(1.461, abs=0.01)
    loss, accuracy = train(double=False)
    assert accuracy == 1 and loss < 0.01


def test_log_softmax_before_cross_entropy_changes_nothing():
    scores, target = torch.randn(5, 10), torch.arange(5)
    torch.testing.assert_close(
        cross_entropy(scores.log_softmax(1), target), cross_entropy(scores, target)
    )


def test_the_check_sees_probabilities():
    out = torch.randn(8, 10)
    assert out.min() < 0
    assert 0 <= out.softmax(1).min() and out.softmax(1).max() <= 1
    torch.testing.assert_close(out.softmax(1).sum(1), torch.ones(8))


def test_a_double_sigmoid_has_floors_of_its_own():
    perfect, target = torch.tensor([1e4, -1e4]).sigmoid(), torch.tensor([1.0, 0.0])
    each = binary_cross_entropy_with_logits(perfect, target, reduction="none")
    assert each.tolist() == pytest.approx([0.313, 0.693], abs=0.0006)
    assert each.mean().item() == pytest.approx(0.503, abs=0.0006)
    assert perfect.sigmoid().min() >= 0.5


def test_the_check_sees_probabilities_and_passes_raw_scores(printed):
    scores = torch.randn(8, 10, generator=torch.Generator().manual_seed(0))

    def checked(out):
        low, high, *sums = map(float, re.findall(r"-?\d+\.\d*(?:e-\d+)?", printed("O12", out=out)))
        return low >= 0 and high <= 1 and sums == pytest.approx([1.0] * 3, abs=1e-3)

    assert checked(scores.softmax(1)) and checked((50 * scores).softmax(1))
    assert not checked(scores) and not checked(scores.log_softmax(1))
