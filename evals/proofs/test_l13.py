"""L13: tensors without numbers: where they come from, what they break, and that some training runs on them in silence."""

import ast
import tempfile

import pytest
import torch
from accelerate import cpu_offload, init_empty_weights
from accelerate.utils import set_module_tensor_to_device
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def empty() -> nn.Linear:
    with torch.device("meta"):
        return nn.Linear(2, 2)


@pytest.fixture
def left(printed):
    """left(model): the names that the check prints, five at most."""

    def names(model) -> list:
        return ast.literal_eval(printed("L13", model=model))

    return names


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m.to("cpu"),
        lambda m: m.weight.to("cpu"),
        lambda m: m(torch.ones(1, 2)),
        lambda m: nn.Linear(2, 2)(torch.ones(1, 2, device="meta")),
        lambda m: m.weight.sum().item(),
        lambda m: m.weight.detach().numpy(),
        lambda m: set_module_tensor_to_device(m, "weight", "cpu"),
        lambda m: cpu_offload(nn.Linear(2, 2), "cpu").to("cpu"),
    ],
)
def test_uses_that_fail(use, says):
    with pytest.raises((RuntimeError, ValueError, TypeError)) as stop:
        use(empty())
    says("L13", str(stop.value))


def test_loading_into_it_needs_assign(left):
    weights = nn.Linear(2, 2).state_dict()
    model = empty()
    with pytest.warns(UserWarning, match="no-op"):
        model.load_state_dict(weights)
    assert left(model) == ["weight", "bias"]
    model.load_state_dict(weights, assign=True)
    assert left(model) == [] and model.to("cpu").weight.equal(weights["weight"])


def test_a_buffer_outside_the_state_dict_stays(left):
    model = empty()
    model.register_buffer("table", torch.ones(1, device="meta"), persistent=False)
    model.load_state_dict(nn.Linear(2, 2).state_dict(), assign=True)
    assert left(model) == ["table"]


def test_to_empty_then_fill(left):
    model = empty().to_empty(device="cpu")
    model.reset_parameters()
    assert left(model) == [] and model(torch.ones(1, 2)).isfinite().all()


def test_an_optimizer_steps_over_it_in_silence(left):
    model = empty()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2, device="meta")).sum().backward()
    optimizer.step()
    assert left(model) == ["weight", "bias"]


@pytest.fixture(scope="module")
def folder():
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "vocab_size": 16}
    with tempfile.TemporaryDirectory() as place:
        LlamaForCausalLM(
            LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2)
        ).save_pretrained(place)
        yield place


class Drawn(LlamaForCausalLM):
    """As a model of the hub that reads a tensor while it is built."""

    def __init__(self, config):
        super().__init__(config)
        self.rates = [x.item() for x in self.make(3)]


def test_item_while_the_model_is_built(folder, says):
    Drawn.make = staticmethod(lambda n: torch.arange(n))
    with pytest.raises(RuntimeError) as stop:
        Drawn.from_pretrained(folder, low_cpu_mem_usage=False)
    says("L13", f"RuntimeError: {stop.value}")
    Drawn.make = staticmethod(
        lambda n: torch.linspace(0, 1, n)
    )  # the one that transformers spares since 5.5
    assert Drawn.from_pretrained(folder).rates == [0.0, 0.5, 1.0]


def test_from_pretrained_within_another_model(folder, says, left):
    with pytest.raises(RuntimeError) as stop, torch.device("meta"):
        LlamaForCausalLM.from_pretrained(folder)
    says("L13", str(stop.value))
    with init_empty_weights():
        assert left(LlamaForCausalLM.from_pretrained(folder))
    assert left(LlamaForCausalLM.from_pretrained(folder, low_cpu_mem_usage=True)) == []


def test_offloaded_weights_cannot_move_and_do_not_learn(folder, tmp_path, says, left):
    parts = [
        "model.embed_tokens",
        "model.layers.0",
        "model.layers.1",
        "model.norm",
        "model.rotary_emb",
        "lm_head",
    ]
    places = {part: "disk" if part == "model.layers.1" else "cpu" for part in parts}
    model = LlamaForCausalLM.from_pretrained(
        folder, device_map=places, offload_folder=str(tmp_path)
    )
    assert all("layers.1" in name for name in left(model)) and left(model)
    with pytest.raises(RuntimeError) as stop:
        model.to("cpu")
    says("L13", str(stop.value))
    Trainer(model, TrainingArguments(str(tmp_path / "out"), use_cpu=True))  # no objection
    ids = torch.ones(1, 4, dtype=torch.long)
    model(input_ids=ids, labels=ids).loss.backward()
    without_gradient = {n for n, p in model.named_parameters() if p.grad is None}
    assert without_gradient == {n for n, p in model.named_parameters() if p.is_meta}


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Tensor on device meta is not on the expected device cuda:0!",
        "RuntimeError: Tensor on device cuda:0 is not on the expected device meta!",
        "ValueError: weight is on the meta device, we need a `value` to put in on 0.",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and meta!",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, meta and cuda:0!",
        "NotImplementedError: Could not run 'aten::_local_scalar_dense' with arguments from the 'Meta' backend.",
        "NotImplementedError: aten::_local_scalar_dense: attempted to run this operator with Meta tensors, but there was",
        "RuntimeError: FSDP parameters should be materialized from meta device before training, but the following were",
    ],
)
def test_texts_of_the_card(text, says):
    says("L13", text)
