"""P19: what a seed doesn't fix."""

import warnings

import pytest
import torch


@pytest.fixture(autouse=True)
def undone_afterwards():
    threads = torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def put_twice():
    """Two writes to one place: which one wins is not defined."""
    return torch.zeros(4).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))


def test_the_order_of_a_sum_changes_its_result():
    a, b, c = torch.tensor([1e8, 1.0, -1e8])
    assert (a + b) + c == 0 and (a + c) + b == 1


def test_a_row_computed_alone_differs_from_the_same_row_in_a_batch_in_the_last_digits_at_most():
    torch.manual_seed(0)
    x, weight = torch.randn(64, 512), torch.randn(512, 512)
    difference = ((x @ weight)[0] - (x[:1] @ weight)[0]).abs().max()
    assert difference < 1e-3


def test_an_operation_without_a_deterministic_form_stops_with_the_signature(says):
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError) as error:
        put_twice()
    says("P19", str(error.value))


def test_or_only_warns_with_the_signature(says):
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        put_twice()
    says("P19", str(caught[0].message))


def test_without_the_switch_nothing_is_said(recwarn):
    put_twice()
    assert not recwarn.list


def test_deterministic_mode_fills_fresh_memory_with_nan_unless_told_not_to():
    torch.use_deterministic_algorithms(True)
    assert torch.empty(1000).isnan().all()
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        torch.full((1000,), 3.0)
        assert not torch.empty(1000).isnan().all()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True


def test_the_demand_of_torch_before_2_10_is_recognised(says):
    says("P19", "RuntimeError: Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
                "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic because it uses "
                "CuBLAS and you have CUDA >= 10.2.")  # fmt: skip


def draws(shift: int) -> list[float]:
    """A seed is only as good as the order of what draws from it."""
    torch.manual_seed(0)
    torch.rand(shift)
    return torch.rand(3).tolist()


def test_one_extra_random_number_before_shifts_everything_after():
    assert draws(0) == draws(0) != draws(1)


@pytest.mark.parametrize("seeded", [True, False])
def test_the_check_differs_at_step_0_without_a_seed_and_repeats_with_one(printed, seeded):
    def run():
        if seeded:
            torch.manual_seed(0)
        weight = torch.randn(8, requires_grad=True)
        seen = []
        for _ in range(20):
            loss = (weight * torch.randn(8)).sum().square()
            (gradient,) = torch.autograd.grad(loss, weight)
            weight = (weight - 1e-3 * gradient).detach().requires_grad_()
            seen.append(printed("P19", loss=loss))
        return seen

    first, second = run(), run()
    assert (first == second) == seeded == (first[0] == second[0])


def test_the_check_agrees_at_first_and_differs_later_where_one_sum_has_another_order(printed):
    def run(turned):
        torch.manual_seed(0)
        weight, data = torch.randn(1000), torch.randn(20, 1000)
        seen = []
        for step, row in enumerate(data):
            parts = weight * row
            total = parts.flip(0).sum() if turned and step > 3 else parts.sum()
            seen.append(printed("P19", loss=total))
            weight = weight + 1e-3 * total.tanh()
        return seen

    one, other = run(False), run(True)
    assert one[:4] == other[:4] and one != other
