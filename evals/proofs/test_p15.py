"""P15: the level of the logits, which cross entropy never corrects."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy


def shifted_loss(shift: float, dtype) -> float:
    torch.manual_seed(0)
    logits = torch.randn(4, 10) + shift
    return cross_entropy(logits.to(dtype).float(), torch.arange(4)).item()


def test_the_loss_is_the_same_at_any_level_in_fp32_and_wrong_in_half_precision():
    fp32 = shifted_loss(0, torch.float32)
    assert shifted_loss(1000, torch.float32) == pytest.approx(fp32, abs=1e-3)
    assert shifted_loss(1000, torch.bfloat16) == pytest.approx(
        2.28, abs=0.01
    ) and fp32 == pytest.approx(2.88, abs=0.01)
    for dtype in (torch.bfloat16, torch.float16):
        assert shifted_loss(10000, dtype) == pytest.approx(
            torch.tensor(10.0).log().item(), abs=1e-3
        )


def test_neighbours_in_bf16_lie_4_apart_just_below_1000():
    assert torch.tensor([996.0, 998.1, 1000.0]).bfloat16().tolist() == [996, 1000, 1000]


def test_cross_entropy_does_not_pull_the_level_and_the_z_loss_does():
    logits = (torch.randn(4, 10) + 50).requires_grad_()
    cross_entropy(logits, torch.arange(4)).backward()
    assert logits.grad.sum(1).abs().max() < 1e-6
    logits.grad = None
    (1e-4 * logits.float().logsumexp(-1).square().mean()).backward()
    assert (logits.grad.sum(1) > 1e-3).all()


def level_after(z_loss: float) -> float:
    """One number that is added to all logits alike, trained with them. It starts at 60."""
    torch.manual_seed(0)
    level = nn.Parameter(torch.tensor(60.0))
    optimizer = torch.optim.SGD([level], lr=200)
    for _ in range(50):
        logits = torch.randn(16, 5) + level
        loss = (
            cross_entropy(logits, torch.arange(16) % 5)
            + z_loss * logits.float().logsumexp(-1).square().mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return level.item()


def test_without_the_penalty_the_level_stays_where_it_is_and_with_it_it_comes_down():
    assert level_after(0.0) == pytest.approx(60, abs=0.1)
    assert level_after(1e-4) < 10


def test_the_check_shows_a_level_that_the_loss_does_not_and_passes_a_large_one_that_stays(printed):
    def levels(shifts):
        torch.manual_seed(0)
        base = torch.randn(4, 10)
        seen = [printed("P15", logits=base + shift).split() for shift in shifts]
        return [float(level) for level, _ in seen]

    growing, settled = levels([10, 100, 1000]), levels([100, 100.5, 100])
    assert growing[2] > 5 * growing[1] > 5 * growing[0]
    assert max(settled) < 1.1 * min(settled)
    assert abs(shifted_loss(10, torch.float32) - shifted_loss(1000, torch.float32)) < 1e-3
