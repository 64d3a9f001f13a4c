"""L17: names in target_modules that hit more than linear layers."""

import ast

import pytest
import torch
from check_code import shown, span
from torch import nn

peft = pytest.importorskip("peft")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.o_proj(self.q_proj(x))


class Wrapped(nn.Module):
    """A projection that hides its matrix one level below."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(9))
        self.visual = nn.ModuleDict({"q_proj": Wrapped(), "act": nn.GELU()})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.visual["act"](self.visual["q_proj"](x))


def adapted(**config):
    return peft.get_peft_model(Net(), peft.LoraConfig(**config))


def classes(name: str, model=None) -> set[str]:
    """The classes that the line of the check prints for this name."""
    code = span("L17", "named_modules").replace("q_proj", name)
    return {kind for _, kind in ast.literal_eval(shown(code, model=model or Net()))}


@pytest.mark.parametrize(
    ("name", "kind"), [("8", "Attention"), ("act", "GELU"), ("q_proj", "Wrapped")]
)
def test_a_name_that_hits_something_else_is_refused_and_the_check_shows_its_class(name, kind, says):
    with pytest.raises(ValueError) as error:
        adapted(target_modules=[name])
    says("L17", str(error.value))
    assert kind in classes(name)


def test_a_name_of_linear_layers_alone_is_taken():
    assert classes("o_proj") == {"Linear"}
    adapted(target_modules=["o_proj"])


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": ["q_proj"], "exclude_modules": r".*(visual|vision_tower|audio).*"},
        {"target_modules": r".*layers.*\.(q|o)_proj"},
        {"target_modules": r".*\.q_proj\.linear"},
        {"target_modules": "all-linear"},
    ],
)
def test_each_cure_of_the_entry_leaves_something_to_train(config):
    model = adapted(**config)
    assert any(p.requires_grad for p in model.parameters())
    assert torch.isfinite(model(torch.ones(1, 4))).all()
