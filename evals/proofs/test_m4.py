"""M4: each remedy moves one part only. Counts bytes of a small Llama: model states, and what a batch keeps."""

import copy

import pytest
import torch
from check_code import span
from memory_counts import Card, gradients, kept_by, state, weights

pytest.importorskip("transformers")


@pytest.fixture
def llama():
    return make_llama()


def make_llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=6,
            num_attention_heads=4,
            num_key_value_heads=4,
        )
    ).train()


def batch(samples):
    return torch.randint(0, 64, (samples, 64), generator=torch.Generator().manual_seed(1))


def loss(model, ids):
    return model(ids, labels=ids).loss


def kept(model, samples):
    return kept_by(lambda: loss(model, batch(samples)), model)


def states(model, optimizer_class=torch.optim.AdamW):
    optimizer = optimizer_class([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    loss(model, batch(1)).backward()
    optimizer.step()
    return weights(model) + gradients(model) + state(optimizer)


def test_two_batch_sizes_tell_what_a_sample_costs_and_the_rest_stays(llama):
    a_sample = kept(llama, 2) - kept(llama, 1)
    assert kept(llama, 4) - kept(llama, 2) == pytest.approx(2 * a_sample, rel=0.05)


def test_half_the_batch_with_twice_the_accumulation_keeps_half_and_gives_the_same_gradient(llama):
    assert kept(llama, 2) < 0.6 * kept(llama, 4)
    whole, split = copy.deepcopy(llama), copy.deepcopy(llama)
    loss(whole, batch(4)).backward()
    for half in batch(4).split(2):
        (loss(split, half) / 2).backward()
    for a, b in zip(whole.parameters(), split.parameters()):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-6)


def test_recomputing_keeps_a_fraction_and_gives_the_same_gradient(llama):
    plain, again = copy.deepcopy(llama), copy.deepcopy(llama)
    again.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert kept(again, 2) < 0.5 * kept(plain, 2)
    loss(plain, batch(2)).backward()
    loss(again, batch(2)).backward()
    for a, b in zip(plain.parameters(), again.parameters()):
        torch.testing.assert_close(a.grad, b.grad)


def test_autocast_keeps_less_of_a_sample_and_a_bf16_copy_of_the_weights_beside_them(llama):
    def forward(samples):
        with torch.autocast("cpu", torch.bfloat16):
            return loss(llama, batch(samples))

    one, two = (kept_by(lambda: forward(samples), llama) for samples in (1, 2))
    assert 0.4 < (two - one) / (kept(llama, 2) - kept(llama, 1)) < 0.9
    assert 2 * one - two == pytest.approx(weights(llama) / 2, rel=0.05)


def test_a_batch_doesnt_change_the_states_and_an_optimizer_doesnt_change_the_batch(llama):
    adam, adafactor = (
        states(copy.deepcopy(llama)),
        states(copy.deepcopy(llama), torch.optim.Adafactor),
    )
    assert adam == pytest.approx(4 * weights(llama), rel=0.01)
    assert adafactor < 2.2 * weights(llama)


def test_adapters_take_gradients_and_moments_away_but_keep_most_of_what_a_batch_keeps(llama):
    peft = pytest.importorskip("peft")
    before = kept(llama, 2)
    model = peft.get_peft_model(llama, peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    assert states(model) < 1.2 * weights(model)
    assert kept(model, 2) > 0.6 * before


@pytest.mark.parametrize("length, larger", [(512, "a sample"), (4, "the states")])
def test_the_two_peaks_of_the_check_tell_a_sample_from_the_states(length, larger):
    def peak_at(samples):
        with Card():
            model = make_llama()
            optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
            ids = torch.zeros(samples, length, dtype=torch.long)
            for _ in range(2):
                loss(model, ids).backward()
                optimizer.step()
                optimizer.zero_grad()
            return eval(span("M4", "max_memory_allocated")) * 2**30, weights(model)

    (one, size), (two, _) = peak_at(1), peak_at(2)
    sample = two - one
    assert ("a sample" if sample > one - sample else "the states") == larger
    assert 3 * size < one - sample < 5 * size, "weights, two moments, and gradients as they come"
