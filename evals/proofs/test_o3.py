"""O3: a loss cut off from autograd."""

import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def test_a_loss_made_under_no_grad_fails_with_the_signature(says):
    model = torch.nn.Linear(3, 1)
    with torch.no_grad():
        loss = model(torch.ones(2, 3)).sum()
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    says("O3", str(error.value))


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(lambda out: out.argmax(1).float().mean(), id="argmax"),
        pytest.param(lambda out: (out > 0).float().mean(), id="threshold"),
        pytest.param(lambda out: out.detach().sum(), id="detach"),
        pytest.param(lambda out: torch.tensor(out.sum().item()), id="new tensor"),
        pytest.param(lambda out: out.sum().item(), id="item"),
        pytest.param(lambda out: out.sum().detach().numpy(), id="numpy"),
        pytest.param(lambda out: out.detach().numpy().mean(), id="numpy mean"),
    ],
)
def test_each_call_that_leaves_autograd_fails_with_a_signature(says, cut):
    loss = cut(torch.nn.Linear(3, 2)(torch.ones(2, 3)))
    with pytest.raises((RuntimeError, AttributeError)) as error:
        loss.backward()
    says("O3", str(error.value))


def test_features_made_in_inference_mode_cannot_be_trained_on(says):
    with torch.inference_mode():
        features = torch.ones(2, 3)
    with pytest.raises(RuntimeError) as error:
        torch.nn.Linear(3, 1)(features).sum().backward()
    says("O3", str(error.value))


def test_switching_requires_grad_on_hides_the_error_and_teaches_nothing():
    model = torch.nn.Linear(3, 1)
    loss = model(torch.ones(2, 3)).sum().detach().requires_grad_(True)
    assert (loss.requires_grad, loss.grad_fn) == (True, None)
    loss.backward()
    assert model.weight.grad is None


def test_reentrant_checkpointing_cuts_adapters_behind_frozen_layers(says):
    frozen = torch.nn.Linear(3, 3).requires_grad_(False)
    adapter = torch.nn.Linear(3, 3)
    x = frozen(torch.ones(2, 3))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        loss = checkpoint(adapter, x, use_reentrant=True).sum()
    assert not loss.requires_grad
    says("O3", "\n".join(str(w.message) for w in seen))
    for fixed in (
        checkpoint(adapter, x, use_reentrant=False),
        checkpoint(
            adapter, x.clone().requires_grad_(True), use_reentrant=True
        ),  # what enable_input_require_grads does
    ):
        adapter.zero_grad()
        fixed.sum().backward()
        assert adapter.weight.grad.any()


def test_the_fix_gives_every_parameter_a_gradient():
    model = torch.nn.Linear(3, 1)
    loss = model(torch.ones(2, 3)).sum()
    assert loss.requires_grad and loss.grad_fn is not None
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())


def test_the_check_tells_cut_silenced_and_whole_apart(printed):
    whole = torch.nn.Linear(3, 1)(torch.ones(2, 3)).sum()
    assert printed("O3", loss=whole.detach()) == "False None"
    assert printed("O3", loss=whole.detach().requires_grad_(True)) == "True None"
    assert printed("O3", loss=whole).startswith("True <SumBackward0")


def test_the_check_is_healthy_where_the_optimizer_holds_other_weights(printed):
    model = torch.nn.Linear(3, 1)
    torch.optim.SGD(torch.nn.Linear(3, 1).parameters(), lr=0.1)
    assert printed("O3", loss=model(torch.ones(2, 3)).sum()).startswith("True <")


def test_a_trained_head_hides_that_reentrant_checkpointing_cut_the_adapter_and_the_check_names_it(
    value_of,
):
    model = torch.nn.ModuleDict({"adapter": torch.nn.Linear(3, 3), "head": torch.nn.Linear(3, 1)})
    for reentrant, cut in ((True, ["adapter.weight", "adapter.bias"]), (False, [])):
        model.zero_grad()
        hidden = checkpoint(model["adapter"], torch.ones(2, 3), use_reentrant=reentrant)
        loss = model["head"](hidden).sum()
        assert loss.requires_grad and loss.grad_fn is not None
        loss.backward()
        assert value_of("O3", "[n for n, p in", model=model) == cut


def test_the_warning_about_inputs_also_stands_in_a_run_that_learns():
    """So it is no evidence by itself: a frozen part in front of a head needs no gradient."""
    frozen, head = torch.nn.Linear(3, 3).requires_grad_(False), torch.nn.Linear(3, 1)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        hidden = checkpoint(frozen, torch.ones(2, 3), use_reentrant=True)
    head(hidden).sum().backward()
    assert head.weight.grad.any()


def test_without_the_argument_torch_warns_and_checkpoints_reentrantly():
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        out = checkpoint(torch.nn.Linear(3, 3), torch.ones(2, 3))
    assert not out.requires_grad  # the non-reentrant variant would keep the graph
