"""P8: operations that turn an edge value into nan or inf, and the forms that don't."""

import math

import pytest
import torch
from torch.nn.functional import log_softmax, normalize, scaled_dot_product_attention


def gradient(function, start) -> torch.Tensor:
    x = torch.tensor(start, requires_grad=True)
    function(x).sum().backward()
    return x.grad


BAD = {
    "a root of 0": (lambda x: x.sqrt(), [0.0]),
    "a power of one half": (lambda x: x**0.5, [0.0]),
    "a norm written by hand": (lambda x: x.square().sum().sqrt(), [0.0, 0.0]),
    "where after the root": (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [0.0]),
    "log of a softmax": (lambda x: torch.log(torch.softmax(x, 0)), [200.0, 0.0]),
    "arccosine of 1": (lambda x: torch.acos(x), [1.0]),
    "0 / 0": (lambda x: x / x.sum(), [0.0, 0.0]),
    "deviation of one number": (lambda x: x.std(), [1.0]),
    "softmax of a masked row": (
        lambda x: torch.softmax(x + torch.tensor(-math.inf), 0),
        [1.0, 2.0],
    ),
}
GOOD = {
    "a root of a clamped number": (lambda x: x.clamp_min(1e-6).sqrt(), [0.0]),
    "a root of a clamped negative": (lambda x: x.clamp_min(1e-6).sqrt(), [-1e-3]),
    "the norm of the library": (lambda x: torch.linalg.vector_norm(x), [0.0, 0.0]),
    "where before the root": (
        lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.0).sqrt(), 0.0),
        [0.0],
    ),
    "log_softmax": (lambda x: log_softmax(x, 0), [200.0, 0.0]),
    "arccosine of a clamped number": (
        lambda x: torch.acos(x.float().clamp(-1 + 1e-6, 1 - 1e-6)),
        [1.0],
    ),
    "a divisor with a floor": (lambda x: x / x.sum().clamp_min(1e-6), [0.0, 0.0]),
    "deviation with correction 0": (lambda x: x.std(correction=0), [1.0]),
}


@pytest.mark.parametrize("name", BAD)
def test_the_gradient_is_not_finite(name):
    assert not gradient(*BAD[name]).isfinite().all()


@pytest.mark.parametrize("name", GOOD)
def test_the_stable_form_has_a_finite_gradient(name):
    assert gradient(*GOOD[name]).isfinite().all()


def test_a_finite_loss_can_have_a_nan_gradient():
    x = torch.zeros(1, requires_grad=True)
    loss = (x.sqrt() * 0).sum()
    loss.backward()
    assert loss == 0 and x.grad.isnan().all()


def test_exp_ends_at_88_in_fp32_and_at_11_in_fp16():
    assert torch.tensor(88.0).exp().isfinite() and torch.tensor(89.0).exp().isinf()
    assert torch.tensor(11.0).half().exp().isfinite() and torch.tensor(12.0).half().exp().isinf()


def test_an_epsilon_of_1e_minus_8_is_nothing_in_fp16():
    assert torch.log(torch.zeros(1).half() + 1e-8).isinf()
    assert torch.log(torch.zeros(1).half() + 1e-6).isfinite()
    assert torch.log(torch.zeros(1).bfloat16() + 1e-8).isfinite()


def test_a_normalised_zero_vector_is_finite_but_its_gradient_is_1e12():
    assert gradient(lambda x: normalize(x, dim=0), [0.0, 0.0]).max() == pytest.approx(1e12)


def test_attention_of_a_fully_masked_row_is_zero_in_the_library_function():
    q = torch.randn(1, 1, 2, 4)
    assert not scaled_dot_product_attention(
        q, q, q, attn_mask=torch.zeros(2, 2, dtype=torch.bool)
    ).any()


def checked(printed, x) -> tuple[float, float, bool, bool]:
    low, high, zero, finite = printed("P8", x=torch.tensor(x)).split()
    return float(low), float(high), zero == "True", finite == "True"


@pytest.mark.parametrize(
    "operation, edge, x, safe",
    [
        ("log", lambda low, high, zero: low <= 0, [0.0, 2.0], [1e-6, 2.0]),
        ("sqrt", lambda low, high, zero: low <= 0, [0.0, 2.0], [1e-6, 2.0]),
        ("reciprocal", lambda low, high, zero: zero, [-1.0, 0.0], [-1.0, 2.0]),
        ("exp", lambda low, high, zero: high > 88, [-5.0, 89.0], [-5.0, 87.0]),
    ],
)
def test_the_check_finds_the_edge_of_each_operation_and_passes_values_away_from_it(
    printed, operation, edge, x, safe
):
    for values, bad in ((x, True), (safe, False)):
        *seen, finite = checked(printed, values)
        assert finite and edge(*seen) == bad
        assert gradient(getattr(torch, operation), values).isfinite().all() != bad


def test_the_check_says_that_a_nan_came_from_further_up(printed):
    assert checked(printed, [math.nan, 1.0])[3] is False
