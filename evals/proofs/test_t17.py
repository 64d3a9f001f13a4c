"""T17: what recomputing costs, counted in arithmetic, and that switching it off takes the cost away."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

IDS = torch.arange(64).reshape(2, 32) % 8


def step(model):
    """(forward calls of the layers, arithmetic) of one training step."""
    calls = []
    layers = [m for name, m in model.named_modules() if name.endswith(".mlp")]
    for layer in layers:
        layer.register_forward_pre_hook(lambda *_: calls.append(1))
    with FlopCounterMode(display=False) as counter:
        model(input_ids=IDS, labels=IDS).loss.backward()
    return len(calls) / len(layers), counter.get_total_flops()


@pytest.fixture
def llama(small_llama):
    transformers = pytest.importorskip("transformers")
    small_llama.hidden_size, small_llama.intermediate_size, small_llama.num_hidden_layers = (
        64,
        256,
        4,
    )

    def make(**switch):
        model = transformers.LlamaForCausalLM(small_llama).train()
        if switch.pop("on", False):
            model.activation_checkpointing_enable(**switch)
        return model

    return make


@pytest.mark.parametrize("trained, factor", [(True, 4 / 3), (False, 3 / 2)])
def test_recomputing_adds_a_third_to_full_training_and_half_where_the_weights_are_frozen(
    trained, factor
):
    def arithmetic(recompute):
        layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4)).requires_grad_(
            trained
        )
        rows = torch.ones(8, 64, requires_grad=True)
        with set_checkpoint_early_stop(False), FlopCounterMode(display=False) as counter:
            out = rows
            for layer in layers:
                out = checkpoint(layer, out, use_reentrant=False) if recompute else layer(out)
            out.sum().backward()
        return counter.get_total_flops()

    assert arithmetic(True) / arithmetic(False) == pytest.approx(factor)


def test_each_layer_runs_twice_a_step_until_it_is_switched_off(llama):
    calls, plain = step(llama())
    assert calls == 1
    model = llama(on=True)
    calls, arithmetic = step(model)
    assert (
        calls == 2 and 1.15 < arithmetic / plain < 1.34
    )  # embedding, head and each block's last product aren't repeated
    model.activation_checkpointing_disable()
    with FlopCounterMode(display=False) as counter:
        model(input_ids=IDS, labels=IDS).loss.backward()
    assert counter.get_total_flops() == plain


def test_with_lora_it_costs_half_of_a_step(llama):
    peft = pytest.importorskip("peft")

    def arithmetic(on):
        config = peft.LoraConfig(r=2, target_modules="all-linear")
        model = peft.get_peft_model(llama(), config).train()
        if on:
            model.base_model.model.activation_checkpointing_enable()
            model.enable_input_require_grads()
        return step(model)[1]

    assert arithmetic(True) / arithmetic(False) == pytest.approx(1.5, abs=0.03)


@pytest.mark.parametrize("switch, found", [({}, 0), ({"on": True}, 1)])
def test_the_check_counts_modules_only_where_it_is_on(llama, switch, found, printed):
    assert min(1, int(printed("T17", model=llama(**switch)))) == found


def test_every_second_layer_costs_half_as_much(llama):
    plain, full, half = step(llama()), step(llama(on=True)), step(llama(on=True, every_n_layers=2))
    assert half[0] == 1.5
    assert (half[1] - plain[1]) / (full[1] - plain[1]) == pytest.approx(0.5)


def test_the_gradients_are_the_same(llama):
    model = llama()
    step(model)
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.activation_checkpointing_enable()
    step(model)
    assert all(torch.allclose(a, p.grad) for a, p in zip(plain, model.parameters(), strict=True))


def test_a_model_in_eval_mode_does_not_recompute(llama):
    assert step(llama(on=True).eval())[0] == 1


def test_the_trainer_knows_both_names_and_is_off_by_default(tmp_path):
    TrainingArguments = pytest.importorskip("transformers").TrainingArguments
    assert (
        TrainingArguments(output_dir=str(tmp_path), use_cpu=True).activation_checkpointing is False
    )
    with pytest.warns(FutureWarning, match="gradient_checkpointing"):
        assert TrainingArguments(
            output_dir=str(tmp_path), use_cpu=True, gradient_checkpointing=True
        ).activation_checkpointing


def test_peft_switches_it_on_for_a_quantised_base(llama):
    peft = pytest.importorskip("peft")
    model = llama()
    model.is_loaded_in_4bit = True  # what bitsandbytes would leave behind
    assert peft.prepare_model_for_kbit_training(model).is_activation_checkpointing
    model = llama()
    model.is_loaded_in_4bit = True
    assert not peft.prepare_model_for_kbit_training(
        model, use_gradient_checkpointing=False
    ).is_activation_checkpointing
