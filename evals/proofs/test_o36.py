"""O36: `strict=False` takes what has the same name, which may be nothing, and doesn't raise."""

import torch
from check_code import shown, span


def net():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))


class Wrapped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = net()


def told(model, state) -> str:
    return shown(span("O36", "strict=False); print"), model=model, state=state)


def test_another_prefix_loads_nothing_and_raises_nothing():
    model, state = Wrapped(), net().state_dict()
    before = [p.clone() for p in model.parameters()]
    assert told(model, state).startswith("4 of 4 ['model.0.weight'")
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))


def test_with_the_prefix_all_is_loaded_and_a_new_head_is_all_that_may_be_missing():
    model, pretrained = Wrapped(), net()
    state = {"model." + k: v for k, v in pretrained.state_dict().items()}
    assert told(model, state) == "0 of 4 [] []"
    assert torch.equal(model.model[0].weight, pretrained[0].weight)
    backbone = {k: v for k, v in state.items() if ".0." in k}
    assert told(Wrapped(), backbone) == "2 of 4 ['model.1.weight', 'model.1.bias'] []"


def test_a_surplus_prefix_is_taken_off():
    state = {"backbone." + k: v for k, v in net().state_dict().items()}
    state = {k.removeprefix("backbone."): v for k, v in state.items()}
    net().load_state_dict(state, strict=True)
