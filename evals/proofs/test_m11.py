"""M11: the matrix of attention scores, written out and in a fused kernel."""

import pytest
import torch
from memory_counts import kept
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, WIDTH = 4, 16


def written_out(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / WIDTH**0.5, dim=-1) @ v


def keeps(attention, length):
    q, k, v = (torch.randn(1, HEADS, length, WIDTH, requires_grad=True) for _ in range(3))
    return kept(lambda: attention(q, k, v), (q, k, v))


def test_written_out_twice_the_length_costs_four_times_the_memory():
    assert keeps(written_out, 256) >= 256 * 256 * HEADS * 4
    assert 3.5 < keeps(written_out, 1024) / keeps(written_out, 512) < 4.5


def test_an_image_of_twice_the_side_costs_sixteen_times():
    side = 16
    assert 14 < keeps(written_out, (2 * side) ** 2) / keeps(written_out, side**2) < 17


def test_the_fused_kernel_grows_in_step_with_the_length_and_gives_the_same_result():
    assert keeps(F.scaled_dot_product_attention, 1024) == pytest.approx(
        2 * keeps(F.scaled_dot_product_attention, 512), rel=0.1
    )
    assert keeps(F.scaled_dot_product_attention, 1024) < keeps(written_out, 1024) / 10
    q, k, v = (torch.randn(1, HEADS, 64, WIDTH) for _ in range(3))
    torch.testing.assert_close(
        F.scaled_dot_product_attention(q, k, v), written_out(q, k, v), atol=1e-5, rtol=1e-4
    )


def test_multihead_attention_builds_the_matrix_unless_told_that_nobody_wants_it():
    def of(length, **options):
        layer = nn.MultiheadAttention(HEADS * WIDTH, HEADS, batch_first=True)
        x = torch.randn(1, length, HEADS * WIDTH, requires_grad=True)
        return kept(lambda: layer(x, x, x, **options), layer.parameters())

    assert of(1024) > 3 * of(512)
    assert of(1024, need_weights=False) == pytest.approx(2 * of(512, need_weights=False), rel=0.1)


def test_the_math_backend_of_sdpa_builds_it_too():
    def backend(which, length):
        with sdpa_kernel(which):
            return keeps(F.scaled_dot_product_attention, length)

    assert backend(SDPBackend.MATH, 512) > 8 * backend(SDPBackend.FLASH_ATTENTION, 512)


def test_where_only_fused_kernels_are_allowed_an_unsuited_call_says_so():
    q = torch.randn(1, 2, 8, 8)
    with (
        sdpa_kernel([SDPBackend.FLASH_ATTENTION]),
        pytest.warns(UserWarning, match="kernel not used because"),
        pytest.raises(RuntimeError, match="No available kernel"),
    ):
        F.scaled_dot_product_attention(q, q, q, dropout_p=0.1)


@pytest.fixture
def llama(small_llama):
    transformers = pytest.importorskip("transformers")

    def of(implementation, length, **asked):
        model = transformers.AutoModelForCausalLM.from_config(
            small_llama, attn_implementation=implementation
        ).train()
        assert model.config._attn_implementation == implementation
        tokens = torch.zeros(1, length, dtype=torch.long)
        return kept(
            lambda: model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False, **asked),
            model.parameters(),
        )

    return of


def test_transformers_keeps_the_matrix_with_eager_and_not_with_sdpa(llama):
    assert llama("eager", 1024) > 3 * llama("eager", 512)
    assert llama("sdpa", 1024) == pytest.approx(2 * llama("sdpa", 512), rel=0.1)


def test_transformers_refuses_to_return_the_weights_with_sdpa(small_llama):
    small_llama._attn_implementation = "sdpa"
    with pytest.raises(ValueError, match="Please set it to 'eager' instead"):
        small_llama.output_attentions = True


def test_a_call_that_asks_for_them_keeps_no_matrix_with_sdpa(llama):
    pytest.importorskip("transformers", minversion="5.0")
    assert llama("sdpa", 512, output_attentions=True) == llama("sdpa", 512)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_the_line_of_the_check_prints_the_implementation(small_llama, implementation, printed):
    from transformers import LlamaForCausalLM

    small_llama._attn_implementation = implementation
    assert printed("M11", model=LlamaForCausalLM(small_llama)) == implementation
