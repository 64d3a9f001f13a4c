"""O28: a layer that does something else when activation checkpointing runs it again, and what hides that."""

import functools
import importlib.metadata
import importlib.util
import logging
import random
from pathlib import Path

import pytest
import torch
from check_code import span
from packaging.version import Version
from torch import nn
from torch.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)


@pytest.fixture(autouse=True)
def torchs_logger_as_it_was():
    """The debug mode leaves it cut off from the root, and pytest then reads its lines, which can't be formatted."""
    yield
    logging.getLogger("LoggingTensor").propagate = True


class Cached(nn.Module):
    """Attends to all that it has seen, as a decoder with a KV cache."""

    def __init__(self, use_cache: bool = True):
        super().__init__()
        self.seen, self.use_cache = [], use_cache

    def forward(self, x):
        past = self.seen if self.use_cache else []
        past.append(x.detach())
        return (x @ torch.cat(past).T).sum()


def gradient(layer, **kwargs) -> float:
    x = torch.ones(2, 2, requires_grad=True)
    loss = checkpoint(layer, x, **kwargs) if kwargs else layer(x)
    loss.backward()
    return x.grad[0, 0].item()


def test_a_cache_that_grows(says):
    with pytest.raises(CheckpointError) as stop:
        gradient(Cached(), use_reentrant=False)
    text = f"torch.utils.checkpoint.CheckpointError: {stop.value}"
    says("O28", text)
    assert "[2, 2]" in text and "[2, 4]" in text  # one length doubled
    assert gradient(Cached(use_cache=False), use_reentrant=False) == gradient(Cached()) == 2.0


def test_the_reentrant_variant_says_nothing_and_is_wrong():
    assert gradient(Cached(), use_reentrant=True) == 4.0


def test_a_real_cache_of_transformers(says):
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 16}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=2))
    x = torch.ones(1, 4, 8, requires_grad=True)

    def forward(x, cache):
        return model(
            inputs_embeds=x, past_key_values=cache, use_cache=cache is not None
        ).logits.sum()

    with pytest.raises(CheckpointError) as stop:
        checkpoint(forward, x, DynamicCache(), use_reentrant=False).backward()
    says("O28", str(stop.value))
    checkpoint(forward, x, None, use_reentrant=False).backward()


def chance(draw, layers):
    def forward(x):
        for layer in layers:
            if draw() < 0.5:
                x = layer(x).relu()
        return x.sum()

    return forward


def test_dropped_layers_by_pythons_random_numbers(says):
    layers = [nn.Linear(2, 2) for _ in range(6)]
    random.seed(0)
    with pytest.raises(CheckpointError) as stop:
        for _ in range(20):
            checkpoint(
                chance(random.random, layers), torch.ones(1, 2), use_reentrant=False
            ).backward()
    says("O28", str(stop.value))
    for _ in range(20):  # torch's numbers come again
        x = torch.ones(1, 2, requires_grad=True)
        checkpoint(chance(lambda: torch.rand(()).item(), layers), x, use_reentrant=False).backward()


def test_another_mode_in_backward(says):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
    loss = checkpoint(model, torch.ones(4, 4), use_reentrant=False).sum()
    model.eval()
    with pytest.raises(CheckpointError) as stop:
        loss.backward()
    says("O28", str(stop.value))


def test_more_tensors_the_second_time(says):
    runs = []

    def forward(x):
        runs.append(x)
        return x.exp().sin().exp().sum() if len(runs) > 1 else x.exp().sum()

    with set_checkpoint_early_stop(False):
        loss = checkpoint(forward, torch.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(CheckpointError) as stop:
        loss.backward()
    says("O28", str(stop.value))


def test_the_debug_mode_lists_both_runs(says):
    with pytest.raises(CheckpointError) as stop, set_checkpoint_debug_enabled(True):
        gradient(Cached(), use_reentrant=False)
    text = str(stop.value)
    says("O28", text)
    assert (
        "Operations executed during the original forward" in text and "during recomputation" in text
    )


def test_without_the_comparison_it_fails_later_or_not_at_all():
    with pytest.raises(RuntimeError, match="must match|size"):
        gradient(lambda x, layer=Grown(): layer(x), use_reentrant=False, determinism_check="none")
    runs = []

    def forward(x):  # equal shapes, other values: nobody notices
        runs.append(x)
        return (x * x * torch.tensor(float(len(runs)))).sum()

    assert gradient(forward, use_reentrant=False) == 4.0 and len(runs) == 2  # 2.0 is right


class Grown(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x)
        return torch.cat(self.seen).exp().sum()


def test_dropout_without_the_random_state():
    def agreement(keep: bool) -> float:
        x = torch.ones(1000, requires_grad=True)
        y = checkpoint(
            lambda v: nn.functional.dropout(v * v) * 1.0,
            x,
            use_reentrant=False,
            preserve_rng_state=keep,
        )
        y.sum().backward()
        return ((x.grad != 0) == (y != 0)).float().mean().item()

    assert agreement(True) == 1.0
    assert agreement(False) < 0.7


def test_autograd_grad_wants_the_other_variant(says):
    layer, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
    with pytest.raises(RuntimeError) as stop:
        torch.autograd.grad(checkpoint(layer, x, use_reentrant=True).sum(), x)
    says("O28", str(stop.value))
    assert torch.autograd.grad(checkpoint(layer, x, use_reentrant=False).sum(), x)


def test_selective_checkpointing_and_autocasts_cache_of_weights(says):
    def policy(ctx, op, *args, **kwargs):
        cast = op == torch.ops.aten._to_copy.default
        return CheckpointPolicy.MUST_SAVE if cast else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def run(cache: bool):
        layer, x = nn.Linear(2, 2), torch.ones(1, 2, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache):
            first = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
            second = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
        (first + second).sum().backward()

    with pytest.raises(RuntimeError) as stop:
        run(cache=True)
    says("O28", str(stop.value))
    run(cache=False)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Checkpointing is not compatible with .grad() or when an `inputs` parameter is passed to .backward()",
        "Checkpointing is not compatible with .grad(), please use .backward() if possible",
        "CheckpointError: torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once.",
        "RuntimeError: Attempt to retrieve a tensor saved by autograd multiple times without checkpoint recomputation",
        "[rank3]: torch.utils.checkpoint.CheckpointError: torch.utils.checkpoint: Recomputed values for the following",
    ],
)
def test_texts_of_reports(text, says):
    says("O28", text)


@pytest.mark.parametrize("sound", [False, True])
def test_the_debug_mode_around_the_forward_pass_alone_lists_both_runs_and_passes_a_sound_layer(
    sound,
):
    x = torch.ones(2, 2, requires_grad=True)
    with set_checkpoint_debug_enabled(True):
        loss = checkpoint(Cached(use_cache=not sound), x, use_reentrant=False)
    if sound:
        loss.backward()
        assert x.grad[0, 0] == 2
    else:
        with pytest.raises(CheckpointError, match="Operations executed during the original"):
            loss.backward()


def test_deepspeed_keeps_frozen_weights_whole_during_recomputation_since_0_19_3():
    folder = importlib.util.find_spec("deepspeed").submodule_search_locations[0]
    text = Path(folder, "runtime", "zero", "parameter_offload.py").read_text()
    new = Version(importlib.metadata.version("deepspeed")) >= Version("0.19.3")
    assert ("ds_recompute_parameters" in text) == new


def test_the_two_steps_of_the_check_run_without_checkpointing_and_list_both_runs_with_it():
    def told(layer, **kwargs):
        code = span("O28", "set_checkpoint_debug_enabled")
        step = f"{code} loss = checkpoint(layer, x, use_reentrant=False)\nloss.backward()"
        x = torch.ones(2, 2, requires_grad=True)
        exec(step, {"torch": torch, "checkpoint": checkpoint, "layer": layer, "x": x})

    assert gradient(Cached()) == 2.0
    with pytest.raises(CheckpointError, match="Operations executed during the original"):
        told(Cached())
    told(Cached(use_cache=False))
