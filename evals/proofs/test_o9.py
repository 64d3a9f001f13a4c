"""O9: accumulated gradients that are not averaged."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

N = 8


def setting():
    torch.manual_seed(0)
    return nn.Linear(6, 3), torch.randn(N * 4, 6), torch.randint(3, (N * 4,))


def norm(model) -> float:
    return nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()


def whole(model, x, y) -> float:
    model.zero_grad()
    cross_entropy(model(x), y).backward()
    return norm(model)


def parts(model, x, y, divide: int) -> float:
    model.zero_grad()
    for xs, ys in zip(x.chunk(N), y.chunk(N)):
        (cross_entropy(model(xs), ys) / divide).backward()
    return norm(model)


def test_undivided_micro_batches_give_n_times_the_gradient():
    model, x, y = setting()
    full = whole(model, x, y)
    assert parts(model, x, y, divide=1) / full == pytest.approx(N, rel=1e-4)
    assert parts(model, x, y, divide=N) / full == pytest.approx(1, rel=1e-4)
    assert parts(model, x, y, divide=N * N) / full == pytest.approx(1 / N, rel=1e-4)


@pytest.mark.parametrize("make, factor", [(torch.optim.SGD, N), (torch.optim.AdamW, 1)])
def test_sgd_steps_n_times_too_far_and_adam_cancels_the_factor(make, factor):
    model, x, y = setting()
    steps = []
    for divide in (N, 1):
        trial = copy.deepcopy(model)
        optimizer = make(trial.parameters(), lr=1e-3)
        parts(trial, x, y, divide)
        optimizer.step()
        steps.append((trial.weight - model.weight).norm().item())
    assert steps[1] / steps[0] == pytest.approx(factor, rel=1e-2)


def test_clipping_fires_only_on_the_undivided_gradient():
    model, x, y = setting()
    limit = 1.5 * whole(model, x, y)
    assert parts(model, x, y, divide=1) > limit > parts(model, x, y, divide=N)


def test_a_mean_of_means_is_wrong_for_unequal_lengths_and_a_token_count_is_right():
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    texts = [(torch.randn(n, 6), torch.randint(3, (n,))) for n in (2, 30)]
    model.zero_grad()
    cross_entropy(
        model(torch.cat([x for x, _ in texts])), torch.cat([y for _, y in texts])
    ).backward()
    right = model.weight.grad.clone()

    model.zero_grad()
    for x, y in texts:
        (cross_entropy(model(x), y) / len(texts)).backward()
    assert (model.weight.grad - right).norm() > 0.1 * right.norm()

    model.zero_grad()
    tokens = sum((y != -100).sum() for _, y in texts)
    for x, y in texts:
        (cross_entropy(model(x), y, reduction="sum") / tokens).backward()
    torch.testing.assert_close(model.weight.grad, right)


@pytest.mark.parametrize("divide, ratio", [(1, N), (N, 1.0), (N * N, 1 / N)])
def test_the_check_gives_n_one_or_one_nth(printed, divide, ratio):
    model, x, y = setting()
    names = {"torch": torch, "model": model}
    whole(model, x, y)
    first = float(printed("O9", **names))
    parts(model, x, y, divide)
    assert float(printed("O9", **names)) / first == pytest.approx(ratio, rel=1e-4)
