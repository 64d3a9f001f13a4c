"""C21: tensors that share memory, and safetensors."""

import ast
import os

import pytest
import torch
from check_code import block, shown, span, typed
from torch import nn

safetensors = pytest.importorskip("safetensors")
from safetensors.torch import load_file, load_model, save_file, save_model


class Tied(nn.Module):
    def __init__(self, tie=True):
        super().__init__()
        self.embed = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        if tie:
            self.head.weight = self.embed.weight

    def forward(self, x):
        return self.head(self.embed(x))


def test_save_file_stops_at_tied_weights_with_the_signature(tmp_path, says):
    with pytest.raises(RuntimeError) as error:
        save_file(Tied().state_dict(), tmp_path / "m.safetensors")
    says("C21", str(error.value))


def test_save_model_stores_one_name_and_load_model_fills_both(tmp_path):
    model, path = Tied(), tmp_path / "m.safetensors"
    save_model(model, path)
    with safetensors.safe_open(path, "pt") as file:
        assert list(file.keys()) == ["embed.weight"] and file.metadata() == {
            "head.weight": "embed.weight"
        }
    fresh = Tied()
    load_model(fresh, path)
    assert (
        torch.equal(fresh.head.weight, model.embed.weight)
        and fresh.head.weight is fresh.embed.weight
    )
    with pytest.raises(RuntimeError, match="Missing key"):
        Tied().load_state_dict(load_file(path))


def test_cloning_everything_stores_the_tied_weight_twice(tmp_path):
    model = nn.ModuleDict(
        {"embed": nn.Embedding(1000, 64), "head": nn.Linear(64, 1000, bias=False)}
    )
    model["head"].weight = model["embed"].weight
    save_model(model, tmp_path / "one.safetensors")
    save_file({k: v.clone() for k, v in model.state_dict().items()}, tmp_path / "two.safetensors")
    one, two = (os.path.getsize(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    assert 1.9 < two / one < 2.1


def test_overlapping_views_stop_and_a_clone_of_one_is_saved(tmp_path, says):
    buffer = torch.arange(10.0)
    state = {"a": buffer[:6], "b": buffer[5:]}
    with pytest.raises(RuntimeError) as error:
        save_file(state, tmp_path / "m.safetensors")
    says("C21", str(error.value))
    state["b"] = state["b"].clone()
    save_file(state, tmp_path / "m.safetensors")
    assert torch.equal(load_file(tmp_path / "m.safetensors")["b"], buffer[5:])
    save_file({"a": buffer[:5], "b": buffer[5:]}, tmp_path / "apart.safetensors")


def test_a_transposed_tensor_stops_and_contiguous_is_saved(tmp_path, says):
    model = nn.Linear(3, 4)
    model.weight.data = model.weight.data.t()
    with pytest.raises(ValueError) as error:
        save_file(model.state_dict(), tmp_path / "m.safetensors")
    says("C21", str(error.value))
    save_file(
        {k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "m.safetensors"
    )
    save_model(model, tmp_path / "n.safetensors")


def test_save_model_refuses_views_of_which_none_is_the_whole(tmp_path, says):
    model, buffer = nn.Module(), torch.zeros(6, 4)
    model.register_buffer("a", buffer[:4])
    model.register_buffer("b", buffer[2:])
    with pytest.raises(RuntimeError) as error:
        save_model(model, tmp_path / "m.safetensors")
    says("C21", str(error.value))


def test_save_file_takes_slices_that_do_not_overlap_where_save_model_stops(tmp_path, says):
    model, buffer = nn.Module(), torch.arange(10.0)
    model.register_buffer("a", buffer[:5])
    model.register_buffer("b", buffer[5:])
    with pytest.raises(RuntimeError) as error:
        save_model(model, tmp_path / "m.safetensors")
    says("C21", str(error.value))
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    model.load_state_dict(load_file(tmp_path / "m.safetensors"))
    assert torch.equal(model.b, buffer[5:])


def test_contiguous_parameters_are_saved(tmp_path):
    model = nn.Linear(3, 4)
    model.weight.data = model.weight.data.t()
    for p in model.parameters():
        p.data = p.data.contiguous()
    save_file(model.state_dict(), tmp_path / "m.safetensors")


@pytest.fixture
def own_class():
    from transformers import PretrainedConfig, PreTrainedModel

    class Config(PretrainedConfig):
        model_type = "proof"

    class Model(PreTrainedModel):
        config_class = Config

        def __init__(self, config):
            super().__init__(config)
            self.embed = nn.Embedding(8, 4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight
            self.post_init()

    class Declared(Model):
        _tied_weights_keys = {"head.weight": "embed.weight"}

        def get_input_embeddings(self):  # version 4 asks for the two at loading
            return self.embed

        def get_output_embeddings(self):
            return self.head

    class Listed(Model):
        _tied_weights_keys = ["head.weight"]

    return Config, Model, Declared, Listed


def test_transformers_stops_at_an_undeclared_tie_with_the_signature_also_without_safe_serialization(
    tmp_path, says, own_class
):
    pytest.importorskip("transformers", minversion="5")  # version 4 saves with the second option
    config, model, _, _ = own_class
    for options in ({}, {"safe_serialization": False}):
        with pytest.raises(RuntimeError) as error:
            model(config()).save_pretrained(tmp_path, **options)
        says("C21", str(error.value))
    assert not list(tmp_path.glob("*.bin"))


def test_a_declared_tie_is_saved_once_and_comes_back(tmp_path, own_class):
    config, _, declared, _ = own_class
    model = declared(config(tie_word_embeddings=True))
    model.save_pretrained(tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == {"embed.weight"}
    fresh = declared.from_pretrained(tmp_path)
    assert fresh.head.weight is fresh.embed.weight and torch.equal(
        fresh.head.weight, model.head.weight
    )


def test_a_list_of_names_stops_in_version_5(tmp_path, own_class):
    pytest.importorskip("transformers", minversion="5")
    config, _, _, listed = own_class
    with pytest.raises(AttributeError, match="'list' object has no attribute 'keys'"):
        listed(config()).save_pretrained(tmp_path)


@pytest.mark.parametrize("told", [False, True])
def test_a_tie_by_hand_against_the_config_loses_the_head_unless_the_config_is_told(
    tmp_path, small_llama, told
):
    from transformers import LlamaForCausalLM

    small_llama.tie_word_embeddings = False
    model = LlamaForCausalLM(small_llama)
    model.lm_head.weight = model.model.embed_tokens.weight
    if told:
        model.config.tie_word_embeddings = True
    model.save_pretrained(tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    fresh = LlamaForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(fresh.lm_head.weight, model.lm_head.weight) == told


@pytest.fixture
def arguments(tmp_path):
    from transformers import TrainingArguments

    return lambda **more: TrainingArguments(
        output_dir=str(tmp_path / "out"), report_to="none", use_cpu=True, **more
    )


def test_the_trainer_stops_at_a_plain_tied_module_and_a_save_of_ones_own_works(
    tmp_path, says, arguments
):
    from transformers import Trainer

    with pytest.raises(RuntimeError) as error:
        Trainer(model=Tied(), args=arguments()).save_model(tmp_path / "plain")
    says("C21", str(error.value))

    class Own(Trainer):
        def _save(self, output_dir=None, state_dict=None):
            os.makedirs(output_dir, exist_ok=True)
            save_model(self.model, f"{output_dir}/model.safetensors")

    Own(model=Tied(), args=arguments()).save_model(str(tmp_path / "own"))
    load_model(Tied(), tmp_path / "own" / "model.safetensors")


def test_save_safetensors_is_gone_in_version_5(arguments):
    pytest.importorskip("transformers", minversion="5")
    with pytest.raises(TypeError, match="save_safetensors"):
        arguments(save_safetensors=False)


def test_accelerate_takes_the_copy_off_by_itself(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerate.Accelerator(cpu=True).save_model(Tied(), tmp_path)
    assert set(load_file(tmp_path / "model.safetensors")) == {"embed.weight"}


def test_the_check_before_saving_names_the_pairs_and_tells_ties_from_views():
    def pairs(model):
        return [ast.literal_eval(line) for line in shown(block("C21"), model=model).splitlines()]

    assert pairs(Tied(tie=False)) == [[], []]
    assert pairs(Tied()) == [[[("embed.weight", (8, 4), 0), ("head.weight", (8, 4), 0)]], []]
    turned = Tied(tie=False)
    turned.head.weight.data = torch.randn(4, 8).t()
    assert pairs(turned) == [[], ["head.weight"]]
    model, buffer = nn.Module(), torch.arange(10.0)
    model.register_buffer("a", buffer[:6])
    model.register_buffer("b", buffer[5:])
    assert pairs(model) == [[[("a", (6,), 0), ("b", (5,), 5)]], []]


def test_the_check_of_a_file_shows_one_name_of_the_pair_or_two_copies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = span("C21", "safe_open")
    save_model(Tied(), "model.safetensors")
    assert typed(code) == "['embed.weight'] {'head.weight': 'embed.weight'}"
    save_file({k: v.clone() for k, v in Tied().state_dict().items()}, "model.safetensors")
    assert typed(code) == "['embed.weight', 'head.weight'] None"
