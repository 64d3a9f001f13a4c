"""C25: an optimizer matches a state by group and position, so other groups refuse it."""

import pytest
import torch
from check_code import shown, span


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))


def lists(state, optimizer) -> str:
    return shown(span("C25", "saved = "), state=state, optimizer=optimizer)


def test_frozen_layers_and_split_groups_are_refused_with_the_signatures(model, says):
    state = torch.optim.AdamW(model.parameters()).state_dict()
    frozen = torch.optim.AdamW(model[1].parameters())
    with pytest.raises(ValueError) as error:
        frozen.load_state_dict(state)
    says("C25", str(error.value))
    assert lists(state, frozen) == "[4] [2]"
    split = torch.optim.AdamW([{"params": list(layer.parameters())} for layer in model])
    with pytest.raises(ValueError) as error:
        split.load_state_dict(state)
    says("C25", str(error.value))
    assert lists(state, split) == "[4] [2, 2]"


def test_the_same_groups_load(model):
    state = torch.optim.AdamW(model.parameters()).state_dict()
    again = torch.optim.AdamW(model.parameters())
    again.load_state_dict(state)
    assert lists(state, again) == "[4] [4]"


def test_another_order_loads_without_an_error_and_gives_each_the_averages_of_another():
    first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.AdamW([first, second])
    first.grad, second.grad = torch.ones(2), torch.full((2,), 5.0)
    optimizer.step()
    swapped = torch.optim.AdamW([second, first])
    swapped.load_state_dict(optimizer.state_dict())
    assert torch.equal(swapped.state[second]["exp_avg"], optimizer.state[first]["exp_avg"])


def test_a_group_that_is_thawed_after_loading_keeps_the_state(model):
    saved = torch.optim.AdamW(model[1].parameters())
    optimizer = torch.optim.AdamW(model[1].parameters())
    optimizer.load_state_dict(saved.state_dict())
    optimizer.add_param_group({"params": list(model[0].parameters())})
    assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]
