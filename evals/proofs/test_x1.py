"""X1: which part of a vision-language model is trainable."""

import collections
import re
from types import SimpleNamespace

import pytest
import torch
from check_code import block


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_tower, self.mm_projector = torch.nn.Linear(6, 8), torch.nn.Linear(8, 4)
        self.language_model = torch.nn.Sequential(
            torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 10)
        )

    def forward(self, pixels, language=None):
        return (language or self.language_model)(self.mm_projector(self.vision_tower(pixels)))


def trainable(model):
    return {name.split(".")[0] for name, p in model.named_parameters() if p.requires_grad}


def set_stage(model, *parts):
    model.requires_grad_(False)
    for part in parts:
        getattr(model, part).requires_grad_(True)


def moved(model, forward=None):
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    pixels, labels = torch.randn(8, 6), torch.randint(0, 10, (8,))
    loss = torch.nn.functional.cross_entropy((forward or model)(pixels), labels)
    if loss.requires_grad:
        loss.backward()
        optimizer.step()
    return {n.split(".")[0] for n, p in model.named_parameters() if not torch.equal(p, before[n])}


def test_stage_one_moves_the_projector_alone_through_a_frozen_language_model():
    model = Model()
    set_stage(model, "mm_projector")
    assert moved(model) == {"mm_projector"}


def test_stage_two_moves_projector_and_language_model():
    model = Model()
    set_stage(model, "mm_projector", "language_model")
    assert moved(model) == {"mm_projector", "language_model"}


def test_no_grad_around_the_frozen_language_model_cuts_the_projector_off():
    model = Model()
    set_stage(model, "mm_projector")

    def language(x):
        with torch.no_grad():
            return model.language_model(x)

    assert moved(model, lambda pixels: model(pixels, language)) == set()


def test_freezing_everything_after_the_projector_was_released_undoes_it():
    model = Model()
    model.mm_projector.requires_grad_(True)
    model.requires_grad_(False)
    assert trainable(model) == set()


NAMES = [
    "vision_tower.encoder.layers.0.self_attn.q_proj",
    "multi_modal_projector.linear_1",
    "language_model.layers.0.self_attn.q_proj",
    "language_model.layers.0.mlp.up_proj",
]


def adapted(targets):
    """A list goes by the end of a name, a string must match all of it: the rule of peft."""
    if isinstance(targets, str):
        return [n for n in NAMES if re.fullmatch(targets, n)]
    return [n for n in NAMES if any(n == t or n.endswith("." + t) for t in targets)]


def test_a_list_of_lora_targets_adapts_the_vision_tower_too_and_leaves_the_projector_frozen():
    found = adapted(["q_proj", "up_proj"])
    assert any("vision_tower" in n for n in found) and not any("projector" in n for n in found)


def test_a_pattern_keeps_to_the_language_model():
    assert adapted(r".*language_model.*\.(q_proj|up_proj)") == NAMES[2:]


def test_the_check_counts_what_is_released_part_by_part(printed):
    def counted():
        text = printed("X1", collections=collections, model=model)
        return eval(text, {"Counter": collections.Counter})

    model = Model()
    set_stage(model, "mm_projector")
    assert set(counted()) == {"mm_projector.weight", "mm_projector.bias"}
    set_stage(model, "mm_projector", "vision_tower")
    assert {n.split(".")[0] for n in counted()} == {
        "mm_projector",
        "vision_tower",
    }


def test_the_loop_of_the_fix_trains_a_connector_that_lies_within_the_tower():
    names = {
        "model.visual.merger.mlp.0.weight": True,
        "model.visual.blocks.0.attn.qkv.weight": False,
        "model.visual.blocks.0.attn.qkv.lora_A.default.weight": False,
        "model.language_model.layers.0.self_attn.q_proj.lora_A.default.weight": True,
        "model.language_model.layers.0.self_attn.q_proj.weight": False,
        "model.visual.merger.original_module.mlp.0.weight": False,
    }
    parameters = [(name, torch.nn.Parameter(torch.zeros(1))) for name in names]
    exec(block("X1", "fix"), {"model": SimpleNamespace(named_parameters=lambda: parameters)})
    assert {name: p.requires_grad for name, p in parameters} == names


def test_the_loop_of_the_fix_leaves_the_vision_tower_and_the_frozen_copy_of_peft_alone():
    peft = pytest.importorskip("peft")
    parts = {
        "vision_tower": torch.nn.ModuleDict({"q_proj": torch.nn.Linear(4, 4)}),
        "multi_modal_projector": torch.nn.Linear(4, 4),
        "language_model": torch.nn.ModuleDict({"q_proj": torch.nn.Linear(4, 4)}),
    }
    config = peft.LoraConfig(target_modules=["q_proj"], modules_to_save=["multi_modal_projector"])
    model = peft.get_peft_model(torch.nn.ModuleDict(parts), config)
    exec(block("X1", "fix"), {"model": model})
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    assert len(names) == 4
    assert all("language_model" in n or "projector.modules_to_save" in n for n in names)
