"""O13: sigmoid and the logarithm taken apart."""

import math
import mmap
from pathlib import Path

import pytest
import torch
from torch.nn import BCELoss, BCEWithLogitsLoss

ZERO = torch.tensor([0.0])


@pytest.mark.parametrize(
    "dtype, limit", [(torch.float32, 17.0), (torch.float16, 8.5), (torch.bfloat16, 6.3)]
)
def test_sigmoid_is_exactly_one_from_a_moderate_score(dtype, limit):
    scores = torch.arange(0, 30, 0.25)
    first = scores[(torch.sigmoid(scores.to(dtype)) == 1).nonzero()[0]].item()
    assert first == pytest.approx(limit, abs=0.3)


def loss_and_gradient(loss, score):
    score = torch.tensor([score], requires_grad=True)
    value = loss(score)
    value.backward()
    return value.item(), score.grad.item()


def test_a_saturated_wrong_answer_costs_exactly_100_and_gets_no_gradient():
    assert loss_and_gradient(lambda z: BCELoss()(torch.sigmoid(z), ZERO), 20.0) == (100.0, 0.0)


def test_a_formula_written_by_hand_gives_inf_and_nan():
    value, gradient = loss_and_gradient(lambda z: -torch.log(1 - torch.sigmoid(z)).mean(), 20.0)
    assert value == math.inf and math.isnan(gradient)
    good = lambda z: -(1 * torch.log(torch.sigmoid(z)) + 0 * torch.log(1 - torch.sigmoid(z))).mean()
    assert math.isnan(
        loss_and_gradient(good, 20.0)[0]
    )  # even where the answer is right: 0 times inf


def test_raw_scores_give_a_finite_loss_and_a_gradient():
    value, gradient = loss_and_gradient(lambda z: BCEWithLogitsLoss()(z, ZERO), 20.0)
    assert value == pytest.approx(20) and gradient == pytest.approx(1)


def recover(with_logits: bool) -> float:
    """The score of an example that began saturated on the wrong side, after training on it."""
    score = torch.tensor([20.0], requires_grad=True)
    optimizer = torch.optim.SGD([score], lr=1.0)
    for _ in range(60):
        optimizer.zero_grad()
        loss = (
            BCEWithLogitsLoss()(score, ZERO)
            if with_logits
            else BCELoss()(torch.sigmoid(score), ZERO)
        )
        loss.backward()
        optimizer.step()
    return score.item()


def test_a_saturated_example_never_recovers_and_with_raw_scores_it_does():
    assert recover(with_logits=False) == 20
    assert recover(with_logits=True) < 0


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan])
def test_values_outside_zero_to_one_fail_with_a_signature(says, value):
    with pytest.raises(RuntimeError) as error:
        BCELoss()(torch.tensor([value]), ZERO)
    says("O13", str(error.value))


def test_targets_outside_zero_to_one_fail_with_a_signature(says):
    with pytest.raises(RuntimeError) as error:
        BCELoss()(torch.tensor([0.5]), torch.tensor([2.0]))
    says("O13", str(error.value))


def test_the_text_of_autocast_on_cuda_is_in_the_library(says):
    """The refusal itself needs a GPU: on the CPU autocast runs `BCELoss` in float32."""
    [library] = (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as binary:
        start = binary.find(
            b"torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe"
        )
        assert start > 0
        says("O13", binary[start : start + 100].split(b"\n")[0].decode())


def test_the_check_counts_saturated_and_broken_scores():
    p = torch.sigmoid(torch.tensor([0.3, 40.0, -200.0, math.nan]))
    assert ((p == 0) | (p == 1)).sum().item() == 2 and p.isnan().sum().item() == 1


def test_pos_weight_lifts_rare_positives_out_of_the_all_negative_answer():
    torch.manual_seed(0)
    target = torch.zeros(1000, 1)
    target[:10] = 1  # 1 %
    for weight, negative in ((None, True), (torch.tensor(990 / 10), False)):
        bias = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.SGD([bias], lr=0.5)
        for _ in range(300):
            optimizer.zero_grad()
            BCEWithLogitsLoss(pos_weight=weight)(bias.expand(1000, 1), target).backward()
            optimizer.step()
        assert (bias.item() < -2) == negative


def test_the_check_counts_saturated_answers_and_passes_raw_scores_that_are_just_as_sure(printed):
    scores = torch.tensor([0.3, 40.0, -200.0])
    target = torch.tensor([1.0, 0.0, 1.0])

    def checked(p):
        low, high, cut, broken = map(float, printed("O13", p=p, target=target).split())
        return 0 <= low and high <= 1 and cut > 0, broken

    assert checked(torch.sigmoid(scores)) == (True, 0)
    assert checked(torch.sigmoid(-scores)) == (False, 0)  # as sure, and right
    assert checked(scores) == (False, 0)  # right for BCEWithLogitsLoss, an error of BCELoss
    assert BCEWithLogitsLoss()(scores, torch.zeros(3)).isfinite()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        BCELoss()(scores, torch.zeros(3))
    assert checked(torch.sigmoid(scores / 100)) == (False, 0)  # apart, but not saturated yet
    low = torch.sigmoid(
        torch.tensor([0.3, -7.0, -7.0]).bfloat16()
    )  # wrong, and its logarithm exact
    assert checked(low) == (False, 0)
    assert checked(torch.sigmoid(torch.tensor([0.3, math.nan, 0.1])))[1] == 1
