"""O38: codes that start far from every encoder output are never chosen, so they never move."""

import torch
from check_code import shown, span


def told(indices: torch.Tensor, size: int = 512) -> list[float]:
    """Codes used, and perplexity, as the line of the check prints them."""
    line = shown(span("O38", "torch.bincount"), torch=torch, indices=indices, codebook_size=size)
    return [float(x) for x in line.split()]


def codes_after(start: torch.Tensor, outputs: torch.Tensor, steps: int = 20) -> torch.Tensor:
    """Which code each output takes after some updates: a chosen code moves to the mean of its outputs."""
    codes = start.clone()
    for _ in range(steps):
        indices = torch.cdist(outputs, codes).argmin(1)
        for code in indices.unique():
            codes[code] = outputs[indices == code].mean(0)
    return indices


def test_the_line_counts_codes_and_perplexity():
    assert told(torch.tensor([3, 3, 7, 7, 7])) == [2, told(torch.tensor([3, 3, 7, 7, 7]))[1]]
    assert round(told(torch.tensor([3, 3, 7, 7, 7]))[1], 2) == 1.96
    used, perplexity = told(torch.arange(512).repeat(4))
    assert used == 512 and abs(perplexity - 512) < 0.1


def test_codes_far_from_the_outputs_stay_dead_and_codes_taken_from_them_live():
    torch.manual_seed(0)
    outputs = torch.randn(4096, 8) + 10
    far = torch.randn(64, 8)
    used, _ = told(codes_after(far, outputs), 64)
    assert used < 16
    used, perplexity = told(codes_after(outputs[:64], outputs), 64)
    assert used == 64 and perplexity > 32
