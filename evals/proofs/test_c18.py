"""C18: names that a wrapper changed."""

import ast

import pytest
import torch
from check_code import shown, span
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.submodule = nn.Linear(2, 2)
        self.head = nn.Linear(2, 1)

    def forward(self, x):
        return self.head(self.submodule(x))


def names(state) -> set[str]:
    return set(state)


PLAIN = names(Net().state_dict())


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_a_wrapped_state_does_not_fit_a_plain_model_and_stops_with_the_signature(wrap, says):
    state = wrap(Net()).state_dict()
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict(state)
    says("C18", str(error.value))


def test_a_plain_state_does_not_fit_a_wrapped_model_and_stops_with_the_signature(says):
    with pytest.raises(RuntimeError) as error:
        nn.DataParallel(Net()).load_state_dict(Net().state_dict())
    says("C18", str(error.value))


def test_strict_false_loads_nothing_at_all_and_raises_nothing():
    model = Net()
    before = model.head.weight.clone()
    result = model.load_state_dict(nn.DataParallel(Net()).state_dict(), strict=False)
    assert torch.equal(model.head.weight, before)
    assert names(result.missing_keys) == PLAIN


def test_replacing_the_text_everywhere_breaks_names_that_hold_it():
    state = nn.DataParallel(Net()).state_dict()
    assert "subweight" in {name.replace("module.", "") for name in state}


def clean(state: dict) -> dict:
    """As in the entry: whole parts of the dotted name, wherever they stand."""
    wrappers = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
    return {
        ".".join(part for part in name.split(".") if part not in wrappers): value
        for name, value in state.items()
    }


def inner_compiled():
    model = Net()
    model.submodule = torch.compile(model.submodule)
    return model


@pytest.mark.parametrize(
    "made",
    [
        lambda: nn.DataParallel(Net()),
        lambda: torch.compile(Net()),
        inner_compiled,
        lambda: torch.compile(nn.DataParallel(Net())),
    ],
)
def test_taking_whole_parts_out_gives_the_plain_names(made):
    state = clean(made().state_dict())
    assert names(state) == PLAIN
    Net().load_state_dict(state)


def test_torchs_own_helper_takes_one_leading_prefix_off():
    state = nn.DataParallel(Net()).state_dict()
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert names(state) == PLAIN


def test_get_model_state_dict_gives_plain_names_of_a_compiled_model_and_model_compile_never_changes_them():
    assert names(get_model_state_dict(torch.compile(Net()))) == PLAIN
    assert names(get_model_state_dict(inner_compiled())) == PLAIN
    model = Net()
    model.compile()
    assert names(model.state_dict()) == PLAIN


def test_the_whole_checkpoint_instead_of_its_part_stops_with_the_signature(says):
    model = Net()
    with pytest.raises(RuntimeError) as error:
        model.load_state_dict({"model": model.state_dict(), "optimizer": {}, "epoch": 3})
    says("C18", str(error.value))


def test_an_optimizer_over_other_parameters_stops_with_the_signature(says):
    model = Net()
    saved = torch.optim.AdamW(model.head.parameters()).state_dict()
    with pytest.raises(ValueError) as error:
        torch.optim.AdamW(model.parameters()).load_state_dict(saved)
    says("C18", str(error.value))
    with pytest.raises(ValueError) as error:
        torch.optim.AdamW([{"params": [p]} for p in model.parameters()]).load_state_dict(saved)
    says("C18", str(error.value))


def test_accelerates_unwrap_keeps_the_compiled_names_unless_told():
    accelerate = pytest.importorskip("accelerate")
    model = torch.compile(Net())
    accelerator = accelerate.Accelerator(cpu=True)
    assert names(accelerator.unwrap_model(model).state_dict()) != PLAIN
    assert names(accelerator.unwrap_model(model, keep_torch_compile=False).state_dict()) == PLAIN


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile, lambda model: model])
def test_the_check_shows_a_prefix_or_the_same_names(wrap):
    state, model = wrap(Net()).state_dict(), Net()
    saved, wanted = ast.literal_eval(
        f"({shown(span('C18', 'list(state)'), state=state, model=model).replace('] [', '], [')})"
    )
    result = model.load_state_dict(state, strict=False)
    missing = shown(span("C18", "missing_keys"), result=result)
    assert (saved == wanted) == (missing == "[]") == (set(state) == PLAIN)
    assert all(name.endswith(plain) for name, plain in zip(saved, wanted))
