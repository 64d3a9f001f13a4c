"""M13: what adapters save and what they don't. Counts bytes of a small Llama."""

import pytest
import torch
from memory_counts import gradients, kept_by, state, weights

pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

IDS = torch.arange(64).reshape(2, 32)


@pytest.fixture
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
    )


def trained(model):
    """Bytes of gradients and of Adam's state after one step."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    model(IDS, labels=IDS).loss.backward()
    optimizer.step()
    return gradients(model) + state(optimizer)


def lora(model, **options):
    return peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear", **options))


def test_gradients_and_moments_shrink_to_those_of_the_adapters(llama):
    assert trained(llama) == pytest.approx(3 * weights(llama), rel=0.01)
    llama.zero_grad()
    model = lora(llama)
    assert trained(model) < 0.3 * weights(model)


def test_what_a_batch_keeps_doesnt_shrink_with_the_adapters_but_with_recomputing(llama):
    def forward():
        return llama(IDS, labels=IDS).loss

    full = kept_by(forward, llama)
    lora(llama)
    adapters = kept_by(forward, llama)
    assert adapters > 0.6 * full
    llama.train()
    llama.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert kept_by(forward, llama) < 0.6 * adapters


def test_modules_to_save_are_trained_whole_and_bring_most_of_it_back(llama):
    model = lora(llama, modules_to_save=["embed_tokens", "lm_head"])
    tables = 2 * 512 * 64 * 4
    assert trained(model) > 3 * tables


def test_preparing_a_model_that_isnt_quantized_doubles_its_weights(llama):
    llama.bfloat16()
    before = weights(llama)
    assert weights(peft.prepare_model_for_kbit_training(llama)) == 2 * before


def test_training_the_last_layer_alone_keeps_little_of_a_batch(llama):
    def forward():
        return llama(IDS, labels=IDS).loss

    full = kept_by(forward, llama)
    for name, parameter in llama.named_parameters():
        parameter.requires_grad_("layers.3" in name or "lm_head" in name)
    assert kept_by(forward, llama) < 0.6 * full


def test_the_line_of_the_check_prints_100_and_with_adapters_a_few_per_cent(llama, printed):
    assert float(printed("M13", model=llama)) == 100
    assert 0 < float(printed("M13", model=lora(llama))) < 5
