"""M5: one large batch, and the same batch in parts with accumulated gradients."""

import pytest
import torch
from check_code import span
from memory_counts import Card, peak
from torch import nn
from torch.nn import functional as F

SAMPLES, PARTS = 4096, 8


@pytest.fixture
def task():
    torch.manual_seed(0)
    model = nn.Sequential(
        *[layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())], nn.Linear(64, 1)
    )
    return model, torch.randn(SAMPLES, 64), torch.randn(SAMPLES, 1)


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def whole(model, x, y):
    model.zero_grad()
    F.mse_loss(model(x), y).backward()


def in_parts(model, x, y, divisor=PARTS):
    model.zero_grad()
    for a, b in zip(x.chunk(PARTS), y.chunk(PARTS), strict=True):
        (F.mse_loss(model(a), b) / divisor).backward()


def test_parts_need_a_quarter_of_the_memory_at_most_and_give_the_same_gradient(task):
    large = peak(lambda: whole(*task))
    expected = gradient(task[0])
    small = peak(lambda: in_parts(*task))
    assert small < large / 4
    torch.testing.assert_close(gradient(task[0]), expected)


@pytest.mark.parametrize("width, positions, too_many", [(8, 512, True), (512, 1, False)])
def test_the_quarter_of_the_check_explains_the_peak_only_where_the_batch_is_too_large(
    width, positions, too_many
):
    """`too_many`: samples make the peak. Otherwise the weights do, and fewer samples free next to nothing."""
    with Card():
        model = nn.Sequential(*[nn.Linear(width, width) for _ in range(4)])
        peaks = []
        for samples in (4, 8):
            model.zero_grad()
            model(torch.randn(samples, positions, width)).square().mean().backward()
            peaks.append(eval(span("M5", "max_memory_allocated")) * 2**30)
            eval(span("M5", "reset_peak"))
    four, eight = peaks
    share = 8 * (eight - four) / 4 / eight
    assert share > 0.8 if too_many else share < 0.2


def test_accumulating_whole_batches_frees_nothing(task):
    model, x, y = task

    def accumulate():
        model.zero_grad()
        for _ in range(PARTS):
            (F.mse_loss(model(x), y) / PARTS).backward()

    assert peak(accumulate) >= peak(lambda: whole(*task))


def test_without_the_division_the_gradient_is_as_many_times_larger_as_there_are_parts(task):
    whole(*task)
    expected = gradient(task[0])
    in_parts(*task, divisor=1)
    torch.testing.assert_close(gradient(task[0]), PARTS * expected)


def test_a_mean_of_means_is_wrong_where_the_parts_differ_in_tokens():
    torch.manual_seed(0)
    head = nn.Linear(8, 5, bias=False)
    parts = [(torch.randn(n, 8), torch.randint(5, (n,))) for n in (2, 30)]
    tokens = sum(len(x) for x, _ in parts)

    def of(losses):
        head.zero_grad()
        for loss in losses:
            loss.backward()
        return gradient(head)

    x, y = (torch.cat(t) for t in zip(*parts, strict=True))
    expected = of([F.cross_entropy(head(x), y)])
    by_tokens = of(F.cross_entropy(head(a), b, reduction="sum") / tokens for a, b in parts)
    by_means = of(F.cross_entropy(head(a), b) / len(parts) for a, b in parts)
    torch.testing.assert_close(by_tokens, expected)
    assert (by_means - expected).norm() > 0.1 * expected.norm()


def test_batch_norm_sees_a_part_only():
    seen = nn.BatchNorm1d(1, momentum=1.0)
    x = torch.arange(8.0).view(8, 1)
    for part in x.chunk(2):
        seen(part)
    assert seen.running_mean.item() == 5.5 != x.mean().item()


def test_auto_find_batch_size_lowers_the_batch_by_a_tenth_and_leaves_accumulation_alone():
    memory = pytest.importorskip("accelerate.utils.memory")
    tried = []

    @memory.find_executable_batch_size(starting_batch_size=32)
    def train(batch_size):
        tried.append(batch_size)
        if batch_size > 25:
            raise RuntimeError("CUDA out of memory.")

    train()
    assert tried == [32, 28, 25]
