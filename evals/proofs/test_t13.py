"""T13: the number format in which a model's products are computed, by default, under autocast, and where autocast doesn't reach."""

import ast
from collections import Counter

import pytest
import torch
from check_code import block, shown
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

PRODUCTS = ("aten.mm.default", "aten.addmm.default", "aten.bmm.default")


class Formats(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.n = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if str(function) in PRODUCTS:
            self.n[out.dtype] += 1
        return out


def formats(model, autocast, dtype=torch.float32):
    x = torch.randn(4, 8, dtype=dtype)
    with Formats() as seen:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = model(x).float().pow(2).mean()
        loss.backward()
    return seen.n


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))


def test_by_default_every_product_is_fp32(model):
    assert set(formats(model, autocast=False)) == {torch.float32}


def test_under_autocast_every_product_is_bf16_in_the_backward_pass_as_well(model):
    plain, cast = formats(model, autocast=False), formats(model, autocast=True)
    assert set(cast) == {torch.bfloat16} and cast.total() == plain.total()
    assert model[0].weight.dtype == torch.float32


def test_a_block_that_switches_autocast_off_stays_in_fp32(model):
    class Island(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return self.layer(x.float())

    model[2] = Island(model[2])
    assert set(formats(model, autocast=True)) == {torch.float32, torch.bfloat16}


def test_the_same_model_is_near_in_bf16(model):
    x = torch.randn(64, 8)
    exact = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = model(x).float()
    assert torch.nn.functional.cosine_similarity(exact, near).min() > 0.99


@pytest.mark.parametrize("bf16", [False, True])
def test_the_trainer_computes_as_the_model_was_loaded_unless_told(tmp_path, small_llama, bf16):
    from transformers import LlamaForCausalLM, Trainer, TrainingArguments

    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        use_cpu=True,
        max_steps=1,
        report_to="none",
        save_strategy="no",
        bf16=bf16,
    )
    rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 8
    with Formats() as seen:
        Trainer(LlamaForCausalLM(small_llama), arguments, train_dataset=rows).train()
    layers = {f for f, n in seen.n.items() if n > 3}
    assert (torch.bfloat16 in layers) is bf16


def test_transformers_5_loads_the_format_of_the_checkpoint(tmp_path, small_llama):
    from transformers import LlamaForCausalLM

    LlamaForCausalLM(small_llama).to(torch.bfloat16).save_pretrained(tmp_path)
    assert LlamaForCausalLM.from_pretrained(tmp_path).dtype == torch.bfloat16
    assert LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).dtype == torch.float32


def test_accelerate_runs_without_mixed_precision_unless_told(run_apart):
    code = "from accelerate import Accelerator; print(Accelerator(cpu=True{}).mixed_precision)"
    assert run_apart(code.format("")).stdout.split() == ["no"]
    assert run_apart(code.format(", mixed_precision='bf16'")).stdout.split() == ["bf16"]


def test_the_lines_of_the_check_list_what_ran_by_the_time_it_took(model):
    names = ast.literal_eval(
        shown(block("T13"), torch=torch, training_step=model, batch=torch.randn(4, 8))
    )
    assert "aten::addmm" in names and len(names) <= 12
