"""T14: which attention runs, by the operator that the profiler names, and what turns the slow one into the fast one.
Which inputs a fused kernel refuses differs between CPU and GPU; that the refusal is silent, and how it is seen, does not."""

import ast
import warnings

import pytest
import torch
from check_code import block, shown
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention
from torch.profiler import ProfilerActivity, profile

MATH = "aten::_scaled_dot_product_attention_math"
FLASH = "aten::_scaled_dot_product_flash_attention_for_cpu"
SINCE_2_14 = torch.__version__ >= (2, 14)


def ran(call):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    return {event.key for event in profiler.key_averages() if "_scaled_dot_product" in event.key}


@pytest.fixture
def q():
    return torch.randn(1, 2, 16, 8, requires_grad=True)


def test_plain_attention_takes_a_fused_kernel(q):
    assert ran(lambda: attention(q, q, q, is_causal=True)) == {FLASH}


@pytest.mark.parametrize("learned", [True, False])
def test_a_mask_that_learns_takes_the_slow_way_and_a_fixed_one_not(q, learned):
    bias = torch.zeros(16, 16, requires_grad=learned)
    assert ran(lambda: attention(q, q, q, attn_mask=bias)) == {MATH if learned else FLASH}


def test_three_dimensions_take_the_slow_way_below_2_14_and_four_do_not(q):
    three = q[0]
    assert ran(lambda: attention(three, three, three)) == {FLASH if SINCE_2_14 else MATH}
    assert ran(lambda: attention(three[None], three[None], three[None])) == {FLASH}


def test_a_forced_kernel_says_why_it_cannot_run(q, says):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(RuntimeError, match="No available kernel") as caught:
            attention(q, q, q, dropout_p=0.1)
    text = "\n".join([*(str(w.message) for w in told), f"RuntimeError: {caught.value}"])
    says("T14", text)
    says("T14", f"RuntimeError: {caught.value}")
    assert "do not support non-zero dropout" in text
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
        assert attention(q, q, q, dropout_p=0.1).shape == q.shape


def test_multihead_attention_that_returns_its_weights_never_reaches_a_fused_kernel():
    layer, x = nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(2, 8, 16)
    assert ran(lambda: layer(x, x, x)) == set()
    assert ran(lambda: layer(x, x, x, need_weights=False)) == {FLASH}


def squares(model, length):
    """How many tensors of length times length the forward pass keeps for the backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (kept.append(t.shape), t)[1], lambda t: t
    ):
        model(torch.ones(1, length, dtype=torch.long))
    return sum(shape[-2:] == (length, length) for shape in kept)


def test_eager_attention_keeps_the_whole_matrix_and_sdpa_none(small_llama):
    from transformers import LlamaForCausalLM

    eager = LlamaForCausalLM._from_config(small_llama, attn_implementation="eager")
    assert (
        squares(eager, 64) > 0 and ran(lambda: eager(torch.ones(1, 64, dtype=torch.long))) == set()
    )
    eager.set_attn_implementation("sdpa")
    assert eager.config._attn_implementation == "sdpa"
    assert squares(eager, 64) == 0 and ran(lambda: eager(torch.ones(1, 64, dtype=torch.long))) == {
        FLASH
    }


def test_repeated_heads_can_be_asked_of_transformers(monkeypatch, small_llama):
    from transformers import LlamaForCausalLM
    from transformers.integrations import sdpa_attention

    small_llama.num_attention_heads, small_llama.num_key_value_heads = 2, 1
    model = LlamaForCausalLM._from_config(small_llama, attn_implementation="sdpa")
    asked = []
    plain = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda *a, **k: (asked.append(k.get("enable_gqa", False)), plain(*a, **k))[1],
    )
    first = model(torch.ones(1, 8, dtype=torch.long)).logits
    monkeypatch.setattr(sdpa_attention, "use_gqa_in_sdpa", lambda *a: False)
    assert torch.allclose(first, model(torch.ones(1, 8, dtype=torch.long)).logits, atol=1e-5)
    assert asked[0] is True and asked[-1] is False


def test_a_causal_flag_counts_from_the_upper_left():
    q, k = torch.randn(1, 1, 2, 8), torch.randn(1, 1, 4, 8)
    lower_right = torch.ones(2, 4, dtype=torch.bool).tril(diagonal=2)
    assert not torch.allclose(
        attention(q, k, k, is_causal=True), attention(q, k, k, attn_mask=lower_right)
    )
    assert torch.allclose(
        attention(q, k, k, is_causal=True),
        attention(q, k, k, attn_mask=torch.ones(2, 4, dtype=torch.bool).tril()),
        atol=1e-6,
    )


def test_the_lines_of_the_check_name_the_kernel_that_ran(q):
    def seen(step):
        return ast.literal_eval(
            shown(block("T14"), torch=torch, training_step=step, batch=q).replace("set()", "{None}")
        )

    bias = torch.zeros(16, 16, requires_grad=True)
    assert MATH in seen(lambda q: attention(q, q, q, attn_mask=bias))
    assert seen(lambda q: torch.softmax(q @ q.transpose(-2, -1), -1) @ q) == {None}
    fused = seen(lambda q: attention(q, q, q))
    assert FLASH in fused and MATH not in fused
