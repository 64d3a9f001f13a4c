"""M1: what training holds beside the weights that inference needs. Counts bytes of a small Llama."""

import pytest
import torch
from memory_counts import gradients, kept_by, size, state, weights

pytest.importorskip("transformers")


@pytest.fixture
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
    )


def ids(batch):
    return torch.arange(batch * 32).reshape(batch, 32) % 64


def step(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained)
    model(ids(1), labels=ids(1)).loss.backward()
    optimizer.step()
    return optimizer


def test_inference_keeps_nothing_and_training_keeps_every_layers_intermediates(llama):
    def forward():
        return llama(ids(2), labels=ids(2)).loss

    with torch.no_grad():
        assert kept_by(forward, llama) == 0
    assert (
        kept_by(forward, llama) > 30 * ids(2).numel() * 64 * 4
    )  # 30 tensors as large as a hidden state, and more


def test_after_one_step_of_adam_gradients_and_moments_are_three_more_copies_of_the_weights(llama):
    optimizer = step(llama)
    assert gradients(llama) == weights(llama)
    assert state(optimizer) == pytest.approx(2 * weights(llama), rel=0.01)


def test_mixed_precision_keeps_the_weights_their_gradients_and_adams_state_in_fp32(llama):
    optimizer = torch.optim.AdamW(llama.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        llama(ids(1), labels=ids(1)).loss.backward()
    optimizer.step()
    kinds = {t.dtype for t in llama.parameters()} | {p.grad.dtype for p in llama.parameters()}
    assert kinds == {torch.float32}
    assert gradients(llama) + state(optimizer) > 2.9 * weights(llama)


def test_freezing_the_base_leaves_hardly_more_than_the_weights(llama):
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(llama, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    optimizer = step(model)
    assert gradients(model) + state(optimizer) < 0.2 * size(model.parameters())


def test_the_line_of_the_check_multiplies_what_is_trained(llama, printed):
    def needed(model):
        return float(printed("M1", model=model).split()[0]) * 2**30

    fp32 = 16 * llama.num_parameters()
    assert needed(llama) == pytest.approx(fp32)
    for parameter in llama.parameters():
        parameter.requires_grad_(False)
    assert needed(llama) == pytest.approx(fp32 / 4)  # a frozen base has no gradient and no moments
    llama.lm_head.weight.requires_grad_(True)
    assert needed(llama) == pytest.approx(fp32 / 4 + 12 * llama.lm_head.weight.numel())
    assert needed(llama.requires_grad_(True).bfloat16()) == pytest.approx(fp32 / 2)
