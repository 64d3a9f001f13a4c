"""C24: bare weights have no key 'state_dict'; a look at the names tells which form it is."""

import pytest
import torch
from check_code import span, typed


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


@pytest.mark.parametrize("name", ["state_dict", "model", None])
def test_the_usual_three_forms_are_taken(name):
    model = torch.nn.Linear(2, 1)
    weights = model.state_dict()
    ckpt = weights if name is None else {name: weights, "epoch": 3}
    state = ckpt.get("state_dict", ckpt.get("model", ckpt))
    assert set(state) == {"weight", "bias"}
