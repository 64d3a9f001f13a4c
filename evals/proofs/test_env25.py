"""ENV25: flash_attention_2 without the package flash-attn is refused when the model is made, SDPA isn't."""

import importlib.util

import pytest

transformers = pytest.importorskip("transformers")


@pytest.mark.skipif(
    importlib.util.find_spec("flash_attn") is not None, reason="flash-attn is installed"
)
def test_flash_attention_is_refused(says, small_llama):
    with pytest.raises(ImportError) as error:
        transformers.AutoModelForCausalLM.from_config(
            small_llama, attn_implementation="flash_attention_2"
        )
    says("ENV25", str(error.value))


def test_sdpa_trains(small_llama):
    import torch

    made = transformers.AutoModelForCausalLM.from_config(small_llama, attn_implementation="sdpa")
    assert made.config._attn_implementation == "sdpa"
    tokens = torch.tensor([[1, 2, 3]])
    made(input_ids=tokens, labels=tokens).loss.backward()
    assert all(p.grad is not None for p in made.parameters())
