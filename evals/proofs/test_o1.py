"""O1: a loop that cannot memorise one batch, and the floors that look like it."""

import math

import pytest
import torch
from check_code import block
from torch import nn
from torch.nn.functional import cross_entropy


def memorise(broken: bool, steps: int = 300) -> list[float]:
    """Losses over one kept batch of eight; `broken` deals the labels out anew at each step, as a faulty collate does."""
    torch.manual_seed(0)
    x, y = torch.randn(8, 20), torch.arange(8)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    losses = []
    for _ in range(steps):
        labels = y[torch.randperm(8)] if broken else y
        optimizer.zero_grad()
        loss = cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_sound_loop_takes_one_batch_to_almost_zero():
    assert memorise(broken=False)[-1] < 0.05


def test_a_broken_loop_hovers_near_the_logarithm_of_the_classes_it_sees():
    losses = memorise(broken=True)
    assert min(losses[-50:]) > 1.5
    assert sum(losses[-50:]) / 50 == pytest.approx(math.log(8), abs=0.35)


@pytest.mark.parametrize(
    "classes, start", [(2, 0.693), (10, 2.303), (1000, 6.908), (32000, 10.37), (262144, 12.48)]
)
def test_equal_scores_cost_the_logarithm_of_the_classes(classes, start):
    loss = cross_entropy(torch.zeros(4, classes), torch.tensor([0, 1, 1, 0]))
    assert loss.item() == pytest.approx(start, abs=0.005)


@pytest.mark.parametrize("rate, parked", [(3.0, True), (0.3, False)])
def test_far_too_large_a_rate_parks_a_sound_loop_at_the_same_number(rate, parked):
    torch.manual_seed(0)
    x, y = torch.randn(8, 20), torch.arange(8)
    hidden = [layer for _ in range(4) for layer in (nn.Linear(20, 20), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(20, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(300):
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    assert (loss.item() == pytest.approx(math.log(8), abs=0.01)) == parked and (
        loss.item() < 0.05
    ) != parked


def test_unequal_classes_are_stuck_at_the_entropy_of_their_shares():
    always = torch.tensor([[math.log(0.9), math.log(0.1)]]).repeat(10, 1)
    assert cross_entropy(always, torch.tensor([0] * 9 + [1])).item() == pytest.approx(
        0.325, abs=0.001
    )


def test_inputs_without_information_stay_at_chance_and_real_ones_do_not():
    torch.manual_seed(0)
    x = torch.randn(64, 5)
    y = (x[:, 0] > 0).long()
    ends = []
    for inputs in (x, torch.zeros_like(x)):
        model = nn.Linear(5, 2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        for _ in range(200):
            optimizer.zero_grad()
            loss = cross_entropy(model(inputs), y)
            loss.backward()
            optimizer.step()
        ends.append(loss.item())
    assert ends[0] < 0.2 and ends[1] > 0.68


def test_label_smoothing_ends_at_a_half_and_not_at_zero():
    perfect = torch.full((1, 10), math.log(0.01))
    perfect[0, 3] = math.log(0.91)
    assert cross_entropy(perfect, torch.tensor([3]), label_smoothing=0.1).item() == pytest.approx(
        0.50, abs=0.005
    )


@pytest.mark.parametrize("broken", [True, False])
def test_the_check_puts_the_last_loss_beside_the_logarithm_of_the_classes(printed, broken):
    loss = torch.tensor(sum(memorise(broken)[-50:]) / 50)
    last, chance = map(float, printed("O1", loss=loss, math=math, classes=8).split())
    assert (last > chance - 0.4) == broken == (last > 0.05)


def test_the_code_of_the_fix_memorises_one_batch_through_dropout(capsys):
    code = block("O1", "fix")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10))
    batch = (torch.randn(8, 20), torch.arange(8))
    exec(code, {"torch": torch, "loader": [batch], "model": model, "loss_fn": cross_entropy})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [int(step) for step, _ in lines] == [0, 50, 100, 150, 200, 250]
    assert float(lines[0][1]) > 2 and float(lines[-1][1]) < 0.05
