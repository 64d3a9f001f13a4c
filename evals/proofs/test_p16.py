"""P16: attention scores that grow with the weights."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm


def attention(growth: float, norm) -> tuple[float, float]:
    """Largest score and mean entropy of one head of width 64 whose queries and keys grew by `growth`."""
    torch.manual_seed(0)
    q, k = growth * torch.randn(128, 64), growth * torch.randn(128, 64)
    if norm:
        q, k = norm(q), norm(k)
    scores = q @ k.T / 8
    weights = scores.softmax(-1)
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean()
    return scores.abs().max().item(), entropy.item()


def test_scores_grow_with_the_square_and_attention_narrows_to_one_position():
    (small, wide), (large, narrow) = attention(1, None), attention(10, None)
    assert large == pytest.approx(100 * small, rel=0.01)
    assert wide > 4 and narrow < 0.1


@pytest.mark.parametrize(
    "norm", [nn.RMSNorm(64), lambda x: layer_norm(x, (64,))], ids=["RMSNorm", "LayerNorm"]
)
def test_normalised_queries_and_keys_keep_both_where_they_were(norm):
    first, last = attention(1, norm), attention(100, norm)
    assert last == pytest.approx(first, rel=0.01)
    assert last[0] <= math.sqrt(64) and last[1] > 4


@pytest.mark.parametrize("norm", [None, nn.RMSNorm(64)])
def test_the_check_reads_hundreds_for_grown_weights_and_single_digits_with_the_norm(printed, norm):
    torch.manual_seed(0)
    q, k = 10 * torch.randn(1, 2, 128, 64), 10 * torch.randn(1, 2, 128, 64)
    if norm:
        q, k = norm(q).detach(), norm(k).detach()
    largest = float(printed("P16", q=q, k=k, head_dim=64))
    assert largest <= 8 if norm else largest > 100
