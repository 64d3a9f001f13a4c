"""C24: bare weights have no key 'state_dict'; a look at the names tells which form it is."""

import argparse
import re

import pytest
import torch
from check_code import span, typed
from remote_gpu_trainer.catalogue import bundle


def test_bare_weights_fail_by_the_key_and_load_without_it(says, tmp_path):
    model = torch.nn.Linear(2, 1)
    torch.save(model.state_dict(), tmp_path / "model.pth")
    checkpoint = torch.load(tmp_path / "model.pth", map_location="cpu", weights_only=True)
    assert list(checkpoint) == ["weight", "bias"]
    with pytest.raises(KeyError) as error:
        model.load_state_dict(checkpoint["state_dict"])
    says("C24", f"KeyError: {error.value}")
    told = typed(span("C24", "import torch, sys"), tmp_path / "model.pth")
    assert told == "<class 'collections.OrderedDict'> ['weight', 'bias']"
    torch.save({"state_dict": model.state_dict()}, tmp_path / "whole.pth")
    told = typed(span("C24", "import torch, sys"), tmp_path / "whole.pth")
    assert told == "<class 'dict'> ['state_dict']"
    model.load_state_dict(checkpoint)


def test_a_file_with_objects_stops_the_check_with_the_text_of_another_entry(says, tmp_path):
    torch.save({"model": {}, "args": argparse.Namespace(lr=0.1)}, tmp_path / "objects.pth")
    with pytest.raises(Exception) as error:
        typed(span("C24", "import torch, sys"), tmp_path / "objects.pth")
    says("ENV3", str(error.value))


@pytest.mark.parametrize("name", ["state_dict", "model_state_dict", "model", None])
def test_the_usual_forms_are_taken(name):
    model = torch.nn.Linear(2, 1)
    weights = model.state_dict()
    ckpt = weights if name is None else {name: weights, "epoch": 3}
    fix = bundle.load().get("C24").fix
    [line] = re.findall(r"`(state = [^`]*)`", fix)
    exec(line, names := {"ckpt": ckpt})
    state = names["state"]
    assert set(state) == {"weight", "bias"}
