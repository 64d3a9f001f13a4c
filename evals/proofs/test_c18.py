"""C18: names that a wrapper changed."""

import ast
import re

import pytest
import torch
from check_code import block, shown, span
from remote_gpu_trainer.catalogue import bundle
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


def load(state: dict, model) -> dict:
    """The lines of the entry, run; gives what they define."""
    scope = {"state": state, "model": model}
    exec(block("C18", "fix"), scope)
    return scope


def inner_compiled():
    model = Net()
    model.submodule = torch.compile(model.submodule)
    return model


MADE = [
    Net,
    lambda: nn.DataParallel(Net()),
    lambda: torch.compile(Net()),
    inner_compiled,
    lambda: torch.compile(nn.DataParallel(Net())),
]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("into", MADE)
def test_the_lines_load_from_each_form_into_each_other(made, into):
    saved, model = made(), into()
    load(saved.state_dict(), model)
    assert all(map(torch.equal, saved.state_dict().values(), model.state_dict().values()))


def test_a_part_of_the_models_own_of_that_name_stays():
    saved, model = (torch.optim.swa_utils.AveragedModel(Net()) for _ in "ab")
    load(torch.compile(saved).state_dict(), model)
    assert all(map(torch.equal, saved.state_dict().values(), model.state_dict().values()))


def test_a_file_with_wrappers_in_its_names_gets_plain_ones(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(torch.compile(Net()).state_dict(), tmp_path / "a.safetensors")
    scope = load(Net().state_dict(), Net()) | vars(safetensors)
    scope |= {"path": tmp_path / "a.safetensors", "new": tmp_path / "b.safetensors"}
    text = re.sub(r"```.*?```", "", bundle.load().get("C18").fix, flags=re.S)
    exec(next(code for code in re.findall(r"`([^`]+)`", text) if "save_file(" in code), scope)
    assert names(safetensors.load_file(tmp_path / "b.safetensors")) == PLAIN


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


def test_accelerates_unwrap_keeps_the_compiled_names_unless_told():
    accelerate = pytest.importorskip("accelerate")
    model = torch.compile(Net())
    accelerator = accelerate.Accelerator(cpu=True)
    assert names(accelerator.unwrap_model(model).state_dict()) != PLAIN
    assert names(accelerator.unwrap_model(model, keep_torch_compile=False).state_dict()) == PLAIN


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile, lambda model: model])
def test_the_check_names_nothing_for_wrappers_alone(wrap):
    state, model = wrap(Net()).state_dict(), Net()
    scope = {"bare": load(state, Net())["bare"], "model": model}
    line = span("C18", "bare(n) for n in state")
    assert shown(line, **scope, state=state) == "[]"
    whole = {"epoch": 3, "state_dict": state, "optimizer": {}}
    assert ast.literal_eval(shown(line, **scope, state=whole))
    assert ast.literal_eval(shown(span("C18", "list(state)"), state=whole)) == list(whole)
    result = model.load_state_dict(state, strict=False)
    missing = shown(span("C18", "missing_keys"), result=result)
    assert (missing == "[]") == (set(state) == PLAIN)
