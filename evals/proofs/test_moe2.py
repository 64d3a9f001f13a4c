"""MOE2: a router that nothing balances sends its tokens to few experts, and what does balance it."""

from types import SimpleNamespace

import pytest
import torch
from check_code import block, shown

transformers = pytest.importorskip("transformers")
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

EXPERTS, TOP = 8, 2


def counts(logits) -> torch.Tensor:
    """Tokens of each expert, by the line of the entry's Check."""
    return torch.bincount(
        logits.topk(TOP, -1).indices.flatten().cpu(), minlength=logits.shape[-1]
    ).float()


def hottest(logits) -> float:
    """Load of the busiest expert over the mean: 1 is even, EXPERTS / TOP is a collapse."""
    n = counts(logits)
    return (n.max() / n.mean()).item()


def trained(steps: int = 60, **options):
    """A small Mixtral whose first two experts start a little ahead, after some steps on one batch."""
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, num_local_experts=EXPERTS, num_experts_per_tok=TOP, **options,
    )  # fmt: skip
    model = transformers.MixtralForCausalLM(config).train()
    gate = next(p for n, p in model.named_parameters() if n.endswith("gate.weight"))
    with torch.no_grad():
        model.model.embed_tokens.weight.add_(0.05)
        gate[0] += 1.0
        gate[1] += 0.9
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    batch = torch.randint(0, 16, (8, 16))
    for _ in range(steps):
        last = model(input_ids=batch, labels=batch)
        last.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return last, model(input_ids=batch, labels=batch, output_router_logits=True)


def test_by_default_nothing_balances_although_the_coefficient_is_not_zero():
    config = transformers.MixtralConfig()
    assert config.router_aux_loss_coef > 0 and config.output_router_logits is False
    last, after = trained(router_aux_loss_coef=0.1)
    assert last.aux_loss is None
    assert hottest(after.router_logits[0]) > 2.5
    assert after.aux_loss > 1.5 * TOP


def test_with_the_routers_logits_the_loss_spreads_the_tokens():
    last, after = trained(router_aux_loss_coef=0.1, output_router_logits=True)
    assert last.aux_loss is not None
    assert hottest(after.router_logits[0]) < 1.6
    assert after.aux_loss.item() == pytest.approx(TOP, abs=0.2)


def test_a_coefficient_of_zero_is_no_balancing():
    _, none = trained()
    last, zero = trained(router_aux_loss_coef=0.0, output_router_logits=True)
    assert last.aux_loss is not None
    assert torch.equal(counts(none.router_logits[0]), counts(zero.router_logits[0]))


def test_the_loss_lies_between_top_k_and_the_number_of_experts():
    even = torch.eye(EXPERTS).repeat(4, 1) + torch.eye(EXPERTS).roll(1, 1).repeat(4, 1)
    collapsed = torch.zeros(32, EXPERTS)
    collapsed[:, :TOP] = 50.0
    assert load_balancing_loss_func((even,), EXPERTS, TOP).item() == pytest.approx(TOP)
    assert load_balancing_loss_func((collapsed,), EXPERTS, TOP).item() == pytest.approx(EXPERTS)


def test_layers_that_collapse_onto_different_experts_look_balanced_in_one_number():
    layers = []
    for first in range(0, EXPERTS, TOP):
        logits = torch.zeros(32, EXPERTS)
        logits[:, first : first + TOP] = 50.0
        layers.append(logits)
    assert load_balancing_loss_func(tuple(layers), EXPERTS, TOP).item() == pytest.approx(TOP)
    assert all(hottest(layer) == EXPERTS / TOP for layer in layers)


def test_a_bias_moved_against_the_load_balances_without_a_loss():
    torch.manual_seed(0)
    scores = torch.sigmoid(torch.randn(512, EXPERTS) * 0.3 + torch.linspace(1, -1, EXPERTS))
    bias = torch.zeros(EXPERTS)
    before = hottest(scores + bias)
    for _ in range(400):
        n = counts(scores + bias)
        bias += 1e-2 * torch.sign(n.mean() - n)
    assert before > 2.0 and hottest(scores + bias) < 1.2


def test_a_frozen_router_keeps_its_weights():
    config = transformers.MixtralConfig(
        vocab_size=16,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    model = transformers.MixtralForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("gate.weight"):
            parameter.requires_grad_(False)
    gate = model.get_parameter("model.layers.0.mlp.gate.weight")
    batch = torch.randint(0, 16, (2, 8))
    model(input_ids=batch, labels=batch).loss.backward()
    assert gate.grad is None and model.lm_head.weight.grad is not None


def test_a_detectors_line_is_recognised(says):
    says(
        "MOE2",
        "WARNING [MoE] \u26a0\ufe0f Routing collapse detected at epoch 12: layers ['model.6'] have max_usage > 0.8.",
    )
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("MOE2", "[MoE] Routing collapse detector initialized (threshold=0.8)")


def test_the_lines_of_the_check_tell_a_collapse_from_an_even_load():
    def told(logits):
        out = SimpleNamespace(router_logits=(logits,))
        model = lambda **given: out
        model.config = SimpleNamespace(num_experts_per_tok=TOP)
        number, busiest, idle = shown(block("MOE2"), model=model, batch={}).split()
        return float(busiest), int(idle)

    even = torch.eye(EXPERTS).repeat(TOP, 1) + torch.eye(EXPERTS).roll(1, 1).repeat(TOP, 1)
    assert told(even) == (1.0, 0)
    collapsed = torch.zeros(64, EXPERTS)
    collapsed[:, :TOP] = 5
    assert told(collapsed) == (EXPERTS / TOP, EXPERTS - TOP)
