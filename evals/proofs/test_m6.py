"""M6: what a network keeps for backward in float32 and under bf16 autocast."""

import pytest
import torch
from check_code import block, shown
from memory_counts import kept, kept_by_dtype, peak
from torch import nn

WIDTH = 64


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(
        *[layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH), nn.GELU())]
    )


def forward(model, x, bf16):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        return model(x)


def test_without_autocast_all_that_is_kept_is_float32(model):
    x = torch.randn(4096, WIDTH)
    assert set(kept_by_dtype(lambda: forward(model, x, False), model.parameters())) == {
        torch.float32
    }


def test_under_bf16_autocast_the_kept_activations_and_the_peak_are_about_half(model):
    x = torch.randn(4096, WIDTH)
    weights = list(model.parameters())
    assert kept(lambda: forward(model, x, True), [*weights, x]) < 0.6 * kept(
        lambda: forward(model, x, False), [*weights, x]
    )

    def step(bf16):
        model.zero_grad()
        forward(model, x, bf16).float().mean().backward()

    assert peak(lambda: step(True)) < 0.65 * peak(lambda: step(False))


def test_with_autocast_on_norms_and_the_stream_are_still_kept_in_float32():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return x + self.linear(self.norm(x))

    model, x = nn.Sequential(*[Block() for _ in range(4)]), torch.randn(4096, WIDTH)
    but = [*model.parameters(), x]
    assert set(kept_by_dtype(lambda: forward(model, x, False), but)) == {torch.float32}
    both = kept_by_dtype(lambda: forward(model, x, True), but)
    assert both[torch.bfloat16] > 0 and both[torch.float32] > both[torch.bfloat16] / 2


def test_weights_and_gradients_stay_float32(model):
    forward(model, torch.randn(4, WIDTH), True).float().mean().backward()
    assert {t.dtype for p in model.parameters() for t in (p, p.grad)} == {torch.float32}


def test_with_few_samples_the_copies_of_the_weights_cost_more_than_bf16_saves(model):
    x = torch.randn(1, WIDTH)
    weights = list(model.parameters())
    assert kept(lambda: forward(model, x, True), weights) > kept(
        lambda: forward(model, x, False), weights
    )


def test_a_part_with_autocast_off_stays_float32(model):
    x = torch.randn(4096, WIDTH)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model[0](x)
        with torch.autocast("cpu", enabled=False):
            full = model[1](half.float())
    assert (half.dtype, full.dtype) == (torch.bfloat16, torch.float32)


def test_the_trainer_trains_without_bf16_unless_told():
    transformers = pytest.importorskip("transformers")
    assert not transformers.TrainingArguments(output_dir="unused", report_to=[]).bf16


def test_the_lines_of_the_check_list_the_dtypes_of_what_is_kept(model):
    def told(bf16):
        return shown(
            block("M6"),
            torch=torch,
            compute_loss=lambda x: forward(model, x, bf16).float().mean(),
            batch=torch.randn(64, WIDTH),
        )

    assert "torch.float32" in told(False) and "bfloat16" not in told(False)
    assert "torch.bfloat16" in told(True)
