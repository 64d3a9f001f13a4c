"""O31: a saved tensor, or a weight, is overwritten before backward needs it."""

import pytest
import torch
from check_code import span


def test_an_operation_in_place_on_a_saved_output_is_refused_and_a_new_tensor_is_not(says):
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    y += 1
    with pytest.raises(RuntimeError) as error:
        y.sum().backward()
    says("O31", str(error.value))
    y = w.exp()
    y = y + 1
    y.sum().backward()
    assert torch.equal(w.grad, w.exp())


def two_losses(step_between):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    out = net(torch.ones(1, 2))
    first, second = out.sum(), (out**2).sum()
    first.backward(retain_graph=True)
    if step_between:
        optimizer.step()
    second.backward()
    optimizer.step()


def test_a_step_between_two_losses_of_one_graph_is_refused_and_after_both_it_is_not(says):
    with pytest.raises(RuntimeError) as error:
        two_losses(step_between=True)
    says("O31", str(error.value))
    two_losses(step_between=False)


def test_a_leaf_in_place_has_the_second_signature(says):
    with pytest.raises(RuntimeError) as error:
        torch.ones(2, requires_grad=True).add_(1)
    says("O31", str(error.value))
    with torch.no_grad():
        torch.ones(2, requires_grad=True).add_(1)


@pytest.mark.parametrize("in_place", [True, False])
def test_the_check_names_the_forward_line_that_needs_the_value_and_nothing_in_a_sound_step(
    in_place, recwarn
):
    w = torch.ones(3, requires_grad=True)
    before = torch.is_anomaly_enabled()
    exec(span("O31", "set_detect_anomaly"), {"torch": torch})
    try:
        y = w.exp()  # saves its own result
        if in_place:
            y += 1
            with pytest.raises(RuntimeError):
                y.sum().backward()
        else:
            (y + 1).sum().backward()
        y = w * 2  # saves nothing of y
        loss = (y**2).sum()  # saves its input
        if in_place:
            y += 1
            with pytest.raises(RuntimeError):
                loss.backward()
        else:
            loss.backward()
    finally:
        torch.autograd.set_detect_anomaly(before)
    told = "".join(str(warning.message) for warning in recwarn)
    assert ("# saves its own result" in told) == in_place
    assert ("# saves its input" in told) == in_place
    assert "# saves nothing of y" not in told
