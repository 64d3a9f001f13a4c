"""M7: what a deep network keeps for backward, without and with checkpointing."""

import warnings

import pytest
import torch
from check_code import span
from memory_counts import Card, kept, peak
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 32


class Deep(nn.Module):
    def __init__(self, depth, checkpointing=False):
        super().__init__()
        block = lambda: nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.blocks, self.checkpointing = (
            nn.ModuleList(block() for _ in range(depth)),
            checkpointing,
        )

    def forward(self, x):
        for block in self.blocks:
            x = x + (checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x))
        return x


def keeps(depth, length, checkpointing=False):
    model = Deep(depth, checkpointing)
    return kept(lambda: model(torch.randn(length, WIDTH)), model.parameters())


def test_what_is_kept_grows_in_step_with_depth_and_length():
    assert keeps(8, 256) == pytest.approx(2 * keeps(4, 256), rel=0.05)
    assert keeps(4, 512) == pytest.approx(2 * keeps(4, 256), rel=0.05)


class Attention(nn.Module):
    """Keeps a number for each pair of positions."""

    def forward(self, x):
        return (x @ x.T).softmax(-1) @ x


@pytest.mark.parametrize("model, share", [(Deep(8), 1 / 2), (Attention(), 1 / 4)])
def test_the_numbers_of_the_check_halve_with_the_length_or_fall_to_a_quarter_with_attention(
    model, share
):
    def difference(length):
        x = torch.randn(length, WIDTH, requires_grad=True)
        with Card():
            before = eval(span("M7", "memory_allocated"))
            out = model(x)
            after = eval(span("M7", "memory_allocated"))
        assert out.requires_grad
        return after - before

    assert difference(1024) / difference(2048) == pytest.approx(share, rel=0.1)


def test_checkpointing_keeps_the_inputs_of_the_blocks_and_gives_the_same_gradient():
    assert keeps(8, 256, checkpointing=True) < keeps(8, 256) / 5
    torch.manual_seed(0)
    model, x = Deep(8), torch.randn(2048, WIDTH)

    def step():
        model.zero_grad()
        model(x).square().mean().backward()

    peak_before, gradients = peak(step), [p.grad for p in model.parameters()]
    model.checkpointing = True
    assert peak(step) < peak_before / 2
    for new, old in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(new.grad, old)


def test_frozen_layers_keep_much_of_it_behind_a_trainable_one_and_nothing_before_the_first():
    def keeps_with(trainable):
        model = Deep(8).requires_grad_(False)
        model.blocks[trainable].requires_grad_(True)
        return kept(lambda: model(torch.randn(256, WIDTH)), model.parameters())

    assert keeps_with(0) > keeps(8, 256) / 3
    assert keeps_with(7) < keeps(8, 256) / 5


def test_checkpointing_costs_a_second_forward_pass():
    calls = []
    for checkpointing in (False, True):
        model = Deep(4, checkpointing)
        model.blocks[0][0].register_forward_hook(lambda *_: calls.append(1))
        model(torch.randn(2, WIDTH)).sum().backward()
    assert len(calls) == 1 + 2


def test_left_unset_use_reentrant_is_still_true_and_only_warns():
    layer = nn.Linear(4, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = checkpoint(
            layer, torch.ones(1, 4)
        )  # no input needs a gradient, as with frozen embeddings
    assert "use_reentrant parameter should be passed explicitly" in str(caught[0].message)
    assert not out.requires_grad
    assert checkpoint(layer, torch.ones(1, 4), use_reentrant=False).requires_grad


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_batch_norm_in_a_checkpointed_part_is_updated_twice_a_step(use_reentrant):
    norm = nn.BatchNorm1d(4)
    checkpoint(
        norm, torch.randn(8, 4, requires_grad=True), use_reentrant=use_reentrant
    ).sum().backward()
    assert norm.num_batches_tracked == 2


def test_in_transformers_it_works_in_train_mode_only_and_the_cache_is_switched_off(small_llama):
    transformers = pytest.importorskip("transformers")
    small_llama.num_hidden_layers = 4
    model = transformers.LlamaForCausalLM(small_llama)
    ids = torch.zeros(1, 256, dtype=torch.long)

    def keeps():
        return kept(lambda: model(ids, use_cache=True), model.parameters())

    model.train()
    plain = keeps()
    model.gradient_checkpointing_enable()
    assert keeps() < plain / 3
    assert model(ids, use_cache=True).past_key_values is None
    model.eval()
    assert keeps() == plain


def test_transformers_passes_false_until_other_options_are_given(small_llama):
    transformers = pytest.importorskip("transformers", minversion="5")
    model = transformers.LlamaForCausalLM(small_llama).train()

    def options(given):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=given)
        return model.model.layers[0]._gradient_checkpointing_func.keywords

    assert options(None) == {"use_reentrant": False}
    assert "use_reentrant" not in options({"preserve_rng_state": False})


def test_the_trainer_takes_both_names():
    transformers = pytest.importorskip("transformers", minversion="5.23")
    with pytest.warns(FutureWarning, match="Use `activation_checkpointing` instead"):
        old = transformers.TrainingArguments(
            output_dir="unused", report_to=[], gradient_checkpointing=True
        )
    new = transformers.TrainingArguments(
        output_dir="unused", report_to=[], activation_checkpointing=True
    )
    assert old.activation_checkpointing and new.activation_checkpointing
