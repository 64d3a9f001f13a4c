"""ENV3: what `torch.load` refuses since 2.6, what lets it in, and which refusal means a damaged file instead."""

import argparse
import pickle
import random
import zipfile

import numpy as np
import pytest
import torch
from check_code import span, typed

SAVED = {
    "arguments": lambda: {"args": argparse.Namespace(lr=0.1)},
    "numpy's random state": lambda: {"numpy": np.random.get_state(), "python": random.getstate()},
    "a best score from numpy": lambda: {"best": np.float64(0.9)},
    "a whole model": lambda: torch.nn.Linear(1, 1),
}
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", raising=False)
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    return tmp_path / "last.pt"


def refusal(file, **arguments) -> str:
    with pytest.raises(pickle.UnpicklingError) as refused:
        torch.load(file, **arguments)
    return str(refused.value)


@pytest.mark.parametrize("name", SAVED)
def test_it_is_refused_with_the_signature_and_loads_with_false(file, says, name):
    torch.save(SAVED[name](), file)
    says("ENV3", refusal(file))
    torch.load(file, weights_only=False)


def test_trainers_list_lets_a_random_state_in_but_not_one_of_the_other_numpy(file, says):
    core = np._core if hasattr(np, "_core") else np.core
    trainers = [core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    torch.save(SAVED["numpy's random state"](), file)
    with torch.serialization.safe_globals(trainers):
        assert torch.load(file)["numpy"][0] == "MT19937"
        with zipfile.ZipFile(file) as whole:
            parts = {name: whole.read(name) for name in whole.namelist()}
        here, other = b"numpy._core.", b"numpy.core."
        if not any(here in part for part in parts.values()):
            here, other = other, here
        with zipfile.ZipFile(file, "w") as changed:
            for name, part in parts.items():
                changed.writestr(name, part.replace(here, other))
        says("ENV3", refusal(file))


def test_plain_weights_and_the_optimizer_load_as_before(file):
    model = torch.nn.Linear(1, 1)
    torch.save(
        {
            "model": model.state_dict(),
            "optimizer": torch.optim.AdamW(model.parameters()).state_dict(),
            "step": 7,
        },
        file,
    )
    assert torch.load(file)["step"] == 7


def test_the_check_names_the_classes_without_running_them_and_allowing_them_is_enough(file):
    torch.save(SAVED["arguments"](), file)
    foreign = span("ENV3", "get_unsafe_globals")
    assert typed(foreign.removesuffix(" last.pt"), file) == "['argparse.Namespace']"
    with torch.serialization.safe_globals([argparse.Namespace]):
        assert torch.load(file)["args"].lr == 0.1


def test_the_variable_helps_only_a_call_that_leaves_the_argument_out(file, monkeypatch, says):
    torch.save(SAVED["arguments"](), file)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        torch.load(file)
    says("ENV3", refusal(file, weights_only=True))


@pytest.mark.parametrize("content", [POINTER, "<html>404", ""])
def test_a_pointer_or_a_web_page_says_unsupported_operand_and_true_weights_would_not_help(
    file, says, content
):
    file.write_text(content)
    if not content:
        with pytest.raises(EOFError):
            torch.load(file)
        return
    text = refusal(file)
    assert "Unsupported operand" in text
    with pytest.raises(AssertionError):
        says("ENV3", text)
    with pytest.raises(pickle.UnpicklingError, match="invalid load key"):
        torch.load(file, weights_only=False)


def test_a_copy_with_tensors_and_plain_values_needs_no_allowance(file):
    torch.save({"args": vars(argparse.Namespace(lr=0.1)), "best": float(np.float64(0.9))}, file)
    assert typed(span("ENV3", "get_unsafe_globals").removesuffix(" last.pt"), file) == "[]"
    assert torch.load(file) == {"args": {"lr": 0.1}, "best": 0.9}
