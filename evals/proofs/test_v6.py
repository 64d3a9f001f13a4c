"""V6: rare classes that are never predicted."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import WeightedRandomSampler

COUNTS = torch.tensor([980, 20])


def data(seed=0):
    """Two overlapping classes, 98 to 2."""
    torch.manual_seed(seed)
    labels = torch.cat([torch.zeros(COUNTS[0]), torch.ones(COUNTS[1])]).long()
    return torch.randn(1000, 2) + 1.5 * labels[:, None], labels


X, Y = data()
NEW_X, NEW_Y = data(1)


def recalls(weight=None, rows=None):
    """Recall of each class after training with class weights, or on these rows."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    x, y = (X, Y) if rows is None else (X[rows], Y[rows])
    for _ in range(80):
        optimizer.zero_grad()
        cross_entropy(model(x), y, weight=weight).backward()
        optimizer.step()
    predicted = model(NEW_X).argmax(1)
    return [(predicted[NEW_Y == c] == c).float().mean().item() for c in (0, 1)], (
        predicted == NEW_Y
    ).float().mean().item()


BALANCED = COUNTS.sum() / (len(COUNTS) * COUNTS)


def test_plain_cross_entropy_reads_98_percent_and_finds_hardly_any_of_the_rare_class():
    (common, rare), accuracy = recalls()
    assert accuracy > 0.97 and common > 0.99 and rare < 0.4


@pytest.mark.parametrize("inputs, learns", [(X, True), (torch.zeros_like(X), False)])
def test_the_loss_falls_below_that_of_the_shares_only_where_something_is_learned(inputs, learns):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    for _ in range(300):
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), Y)
        loss.backward()
        optimizer.step()
    shares = COUNTS / COUNTS.sum()
    assert (loss < 0.9 * -(shares * shares.log()).sum()) == learns


def test_always_saying_the_common_class_reads_98_percent_too():
    assert (NEW_Y == 0).float().mean().item() == pytest.approx(0.98)


def test_class_weights_find_the_rare_class_and_cost_some_of_the_common_one():
    (common, rare), accuracy = recalls(BALANCED)
    assert rare >= 0.75 and common > 0.7
    assert accuracy < 0.97  # the headline number falls, and that is right


def test_drawing_rare_rows_more_often_does_the_same():
    torch.manual_seed(0)
    rows = list(WeightedRandomSampler(BALANCED[Y].tolist(), 1000))
    assert 0.4 < Y[rows].float().mean() < 0.6
    (common, rare), _ = recalls(rows=rows)
    assert rare >= 0.75 and common > 0.7


def test_both_at_once_correct_twice_and_lose_the_common_class():
    torch.manual_seed(0)
    rows = list(WeightedRandomSampler(BALANCED[Y].tolist(), 1000))
    (common, rare), _ = recalls(BALANCED, rows)
    assert rare > 0.95 and common < 0.4


def test_the_mean_of_a_weighted_loss_is_divided_by_the_weights_so_their_common_factor_does_nothing():
    logits = torch.randn(1000, 2)
    torch.testing.assert_close(
        cross_entropy(logits, Y, weight=BALANCED), cross_entropy(logits, Y, weight=100 * BALANCED)
    )


def test_the_confusion_matrix_shows_an_empty_column():
    predicted = torch.zeros(1000).long()
    matrix = torch.bincount(2 * NEW_Y + predicted, minlength=4).view(2, 2)
    assert matrix.sum(0).tolist() == [1000, 0]
    recall = matrix.diag() / matrix.sum(1)
    assert recall.mean() == 0.5  # balanced accuracy: chance


def test_a_prior_in_the_last_bias_starts_a_rare_class_at_its_true_share():
    share = 0.01
    bias = -torch.log(torch.tensor((1 - share) / share))
    assert bias.item() == pytest.approx(-4.595, abs=1e-3)
    assert torch.sigmoid(bias).item() == pytest.approx(share)


def test_the_check_has_a_zero_where_a_class_is_never_predicted(printed):
    def shown(predictions):
        return printed("V6", torch=torch, labels=NEW_Y, predictions=predictions, C=2)

    assert shown(torch.zeros_like(NEW_Y)) == "tensor([980,  20]) tensor([1000,    0])"
    assert shown(NEW_Y) == "tensor([980,  20]) tensor([980,  20])"
