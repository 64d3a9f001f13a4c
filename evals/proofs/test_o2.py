"""O2: the optimizer holds other tensors than the model uses."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def not_held(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """The check of the entry."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return [n for n, p in model.named_parameters() if p.requires_grad and id(p) not in held]


def moved(model: nn.Module, optimizer: torch.optim.Optimizer) -> set[str]:
    """Names of the parameters that one step changes; every one of them has a gradient."""
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer.zero_grad()
    model(torch.ones(4, 3, dtype=next(model.parameters()).dtype)).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    optimizer.step()
    return {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}


def new_head(model):
    model.head = nn.Linear(3, 2)


def assigned(model):
    model.load_state_dict(Net().state_dict(), assign=True)


def normed(model):
    weight_norm(model.head)


@pytest.mark.parametrize("change", [new_head, assigned, normed])
def test_parameters_made_after_the_optimizer_never_move(change):
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    change(model)
    lost = not_held(model, optimizer)
    assert lost and not moved(model, optimizer) & set(lost)
    rebuilt = torch.optim.SGD(model.parameters(), lr=0.1)
    assert not_held(model, rebuilt) == [] and moved(model, rebuilt) >= set(lost)


def test_a_copied_model_stands_still_altogether():
    torch.manual_seed(0)
    original = Net()
    optimizer = torch.optim.SGD(original.parameters(), lr=0.1)
    model = copy.deepcopy(original)
    assert len(not_held(model, optimizer)) == 4 and moved(model, optimizer) == set()


def test_layers_in_a_python_list_are_not_parameters():
    class Listed(nn.Module):
        def __init__(self, container):
            super().__init__()
            self.layers = container([nn.Linear(2, 2)])

    assert list(Listed(list).parameters()) == []
    assert len(list(Listed(nn.ModuleList).parameters())) == 2


def test_an_optimizer_without_parameters_says_so(says):
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(ValueError) as error:
        torch.optim.SGD((p for p in frozen.parameters() if p.requires_grad), lr=0.1)
    says("O2", str(error.value))


def test_a_generator_of_parameters_serves_only_once(says):
    parameters = nn.Linear(2, 2).parameters()
    torch.optim.SGD(parameters, lr=0.1)
    with pytest.raises(ValueError) as error:
        torch.optim.SGD(parameters, lr=0.1)
    says("O2", str(error.value))


def test_a_parameter_converted_by_hand_is_no_leaf(says):
    with pytest.raises(ValueError) as error:
        torch.optim.SGD([nn.Parameter(torch.ones(2)).double()], lr=0.1)
    says("O2", str(error.value))


def test_weights_unfrozen_later_move_once_they_are_added():
    torch.manual_seed(0)
    model = Net()
    model.body.requires_grad_(False)
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)
    model.body.requires_grad_(True)
    assert moved(model, optimizer) == {"head.weight", "head.bias"}
    optimizer.add_param_group({"params": list(model.body.parameters())})
    assert moved(model, optimizer) == {n for n, _ in model.named_parameters()}


def test_converting_a_module_keeps_its_parameters_unless_overwriting_is_on():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.double()
    assert not_held(model, optimizer) == [] and len(moved(model, optimizer)) == 4
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        model.float()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    assert len(not_held(model, optimizer)) == 4


def test_leaving_the_meta_device_makes_new_parameters():
    model = Net().to("meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to_empty(device="cpu")
    assert len(not_held(model, optimizer)) == 4


@pytest.mark.parametrize("change", [new_head, assigned, normed])
def test_the_check_names_what_is_lost_and_nothing_once_the_optimizer_is_built_last(printed, change):
    model = Net()
    early = torch.optim.SGD(model.parameters(), lr=0.1)
    change(model)
    late = torch.optim.SGD(model.parameters(), lr=0.1)
    names = printed("O2", model=model, optimizer=early)
    assert names == str(not_held(model, early)) != "[]"
    assert printed("O2", model=model, optimizer=late) == "[]"


def test_the_check_is_silent_where_the_gradient_was_cleared_too_early(printed):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(4, 3)).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    assert printed("O2", model=model, optimizer=optimizer) == "[]"


@pytest.mark.parametrize(
    "make, error",
    [
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 1.0), ValueError),
        (lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10), KeyError),
    ],
)
def test_a_group_added_under_a_scheduler_stops_it_and_weights_held_from_the_start_do_not(
    make, error
):
    head, base = (torch.nn.Linear(2, 2) for _ in "ab")
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.1)
    scheduler = make(optimizer)
    optimizer.add_param_group({"params": list(base.parameters())})
    optimizer.step()
    with pytest.raises(error):
        scheduler.step()

    base.requires_grad_(False)
    before = base.weight.detach().clone()
    optimizer = torch.optim.AdamW([*head.parameters(), *base.parameters()], lr=0.1)
    scheduler = make(optimizer)
    for unfrozen in (False, True):
        base.requires_grad_(unfrozen)
        optimizer.zero_grad()
        head(base(torch.ones(1, 2))).sum().backward()
        optimizer.step()
        scheduler.step()
        assert torch.equal(base.weight, before) != unfrozen
