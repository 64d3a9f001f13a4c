"""ENV25: flash_attention_2 without the package flash-attn is refused when the model is made, SDPA isn't."""

import importlib.util

import pytest

transformers = pytest.importorskip("transformers")


def model(attention):
    config = transformers.LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)


@pytest.mark.skipif(importlib.util.find_spec("flash_attn") is not None, reason="flash-attn is installed")
def test_flash_attention_is_refused(says):
    with pytest.raises(ImportError) as error:
        model("flash_attention_2")
    says("ENV25", str(error.value))


def test_sdpa_trains():
    import torch

    made = model("sdpa")
    assert made.config._attn_implementation == "sdpa"
    tokens = torch.tensor([[1, 2, 3]])
    made(input_ids=tokens, labels=tokens).loss.backward()
    assert all(p.grad is not None for p in made.parameters())
