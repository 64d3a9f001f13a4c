"""O4: zero_grad, backward and step in the wrong order."""

import ast

import pytest
import torch
from torch import nn


def new():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def loss_of(model):
    return (model(torch.ones(2, 3)) - 5).square().mean()


def norms_of(model) -> list:
    """The check of the entry: False where there is no gradient."""
    return [p.grad is not None and p.grad.norm().item() for p in model.parameters()]


def test_zero_grad_after_backward_leaves_nothing_to_step_on():
    model, optimizer = new()
    before = model.weight.detach().clone()
    for _ in range(5):
        loss_of(model).backward()
        optimizer.zero_grad()
        assert norms_of(model) == [False, False]
        optimizer.step()
    assert torch.equal(model.weight, before)


def test_without_zero_grad_the_gradient_of_one_batch_keeps_climbing():
    model, _ = new()
    norms = []
    for _ in range(4):
        loss_of(model).backward()
        norms.append(norms_of(model)[0])
    assert norms == pytest.approx([norms[0] * n for n in (1, 2, 3, 4)])


def test_the_right_order_keeps_the_norm_and_lowers_the_loss():
    model, optimizer = new()
    losses, norms = [], []
    for _ in range(20):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        norms.append(norms_of(model)[0])
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and norms[-1] <= norms[0]


def carry(detach: bool):
    cell, state = nn.Linear(3, 3), torch.zeros(2, 3)
    for _ in range(2):
        state = torch.tanh(cell(state.detach() if detach else state))
        state.sum().backward()


def test_a_carried_hidden_state_goes_backward_twice(says):
    with pytest.raises(RuntimeError) as error:
        carry(detach=False)
    says("O4", str(error.value))


def test_a_detached_hidden_state_does_not():
    carry(detach=True)


def two_losses(step_between: bool):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out = model(torch.ones(2, 3))
    out.sum().backward(retain_graph=True)
    if step_between:
        optimizer.step()
    out.square().sum().backward()
    optimizer.step()


def test_a_step_between_two_backward_calls_breaks_the_second(says):
    with pytest.raises(RuntimeError) as error:
        two_losses(step_between=True)
    says("O4", str(error.value))
    two_losses(step_between=False)


def scale_then(*calls):
    model, optimizer = new()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of(model)).backward()
    for call in calls:
        if call == "zero_grad":
            optimizer.zero_grad()
        elif call == "update":
            scaler.update()
        else:
            getattr(scaler, call)(optimizer)


@pytest.mark.parametrize(
    "calls",
    [
        ("zero_grad", "step"),
        ("step", "step"),
        ("step", "unscale_"),
        ("unscale_", "unscale_"),
        ("update",),
    ],
)
def test_scaler_calls_out_of_order_fail_with_a_signature(says, calls):
    with pytest.raises((RuntimeError, AssertionError)) as error:
        scale_then(*calls)
    says("O4", str(error.value))


@pytest.mark.parametrize("call", ["step", "unscale_"])
def test_a_loss_that_was_not_scaled_fails_with_a_signature(says, call):
    model, optimizer = new()
    loss_of(model).backward()
    with pytest.raises(AssertionError) as error:
        getattr(torch.amp.GradScaler("cpu"), call)(optimizer)
    says("O4", str(error.value))


def test_the_scaler_calls_in_order_pass():
    scale_then("unscale_", "step", "update")


@pytest.mark.parametrize("order", ["cleared too early", "never cleared", "right"])
def test_the_check_tells_the_three_orders_apart(printed, order):
    model, optimizer = new()
    seen = []
    for _ in range(3):
        if order == "right":
            optimizer.zero_grad()
        loss_of(model).backward()
        if order == "cleared too early":
            optimizer.zero_grad()
        seen.append(ast.literal_eval(printed("O4", model=model))[0])
        optimizer.step()
    if order == "cleared too early":
        assert seen == [False] * 3
    else:
        assert (seen[2] > 2 * seen[0]) == (order == "never cleared")
