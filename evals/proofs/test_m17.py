"""M17: Adam's buffers come with its first update and stay."""

import traceback

import pytest
import torch
from check_code import span
from memory_counts import Card
from torch import nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)])


def state_bytes(optimizer) -> int:
    return sum(
        t.nbytes
        for state in optimizer.state.values()
        for t in state.values()
        if torch.is_tensor(t) and t.dim()
    )


def parameters(model) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def backward(model):
    model(torch.randn(8, 64)).square().mean().backward()


def test_the_first_update_adds_8_bytes_a_parameter_and_the_second_none():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    seen = []
    for _ in range(3):
        backward(model)
        seen.append(state_bytes(optimizer))
        optimizer.step()
        optimizer.zero_grad()
    assert [*seen, state_bytes(optimizer)] == [0, *3 * [8 * parameters(model)]]


def test_it_is_4_bytes_where_parameters_are_bf16():
    model = net().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert state_bytes(optimizer) == 4 * parameters(model)


def test_sgd_without_momentum_keeps_nothing():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0)
    backward(model)
    optimizer.step()
    assert state_bytes(optimizer) == 0


@pytest.mark.parametrize("sgd", [False, True])
def test_the_lines_of_the_check_rise_by_8_bytes_a_parameter_with_adam_and_not_with_sgd(sgd):
    told = []
    with Card():
        model = net()
        names = {"torch": torch, "model": model}
        adam = torch.optim.AdamW(model.parameters())
        optimizer = eval(span("M17", "SGD"), names) if sgd else adam
        for _ in range(2):
            backward(model)
            told.append(eval(span("M17", "memory_allocated"), names))
            optimizer.step()
            told.append(eval(span("M17", "memory_allocated"), names))
            optimizer.zero_grad(set_to_none=False)
    count = eval(span("M17", "sum(p.numel()"), names)
    first, after, before_second, after_second = (round(number * 2**30) for number in told)
    rise = 0 if sgd else 8 * count
    assert after - first == pytest.approx(rise, abs=64)
    assert after == before_second == after_second


def test_with_accumulation_it_comes_after_the_last_micro_batch():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    seen = []
    for micro in range(1, 9):
        backward(model)
        if micro % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        seen.append(bool(state_bytes(optimizer)))
    assert seen == 3 * [False] + 5 * [True]


def test_layers_that_are_unfrozen_bring_theirs_later():
    model = net()
    model[:3].requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters())
    sizes = []
    for _ in range(2):
        backward(model)
        optimizer.step()
        sizes.append(state_bytes(optimizer))
        model.requires_grad_(True)
    assert sizes[1] == 4 * sizes[0]


def test_the_scaler_leaves_out_updates_so_it_comes_late():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    scaler.scale(1e3 * model(torch.randn(8, 64)).square().mean()).backward()
    scaler.step(optimizer)
    assert state_bytes(optimizer) == 0


def test_a_resumed_run_has_it_before_the_first_forward():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    backward(model)
    optimizer.step()
    resumed = torch.optim.AdamW(net().parameters())
    resumed.load_state_dict(optimizer.state_dict())
    assert state_bytes(resumed) == 8 * parameters(model)


def test_saving_before_the_first_step_makes_it():
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    get_optimizer_state_dict(model, optimizer)
    assert state_bytes(optimizer) == 8 * parameters(model)


def test_a_dummy_update_moves_the_count_of_steps():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert {int(state["step"]) for state in optimizer.state.values()} == {1}


def peak_of_the_update(**form) -> float:
    """Most bytes during a later update, in sizes of the parameters: weights, gradients and state are 4 of them."""
    from torch.distributed._tools.mem_tracker import MemTracker

    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), **form)
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for _ in range(2):
            backward(model)
            tracker.reset_mod_stats()
            optimizer.step()
            optimizer.zero_grad()
    [peak] = tracker.get_tracker_snapshot("peak").values()
    return peak["Total"] / (4 * parameters(model))


def test_foreach_needs_the_size_of_the_parameters_once_more_and_the_others_less():
    loop, foreach, fused = (
        peak_of_the_update(**form)
        for form in ({"foreach": False}, {"foreach": True}, {"fused": True})
    )
    assert foreach == pytest.approx(5, abs=0.3)
    assert fused < loop < foreach - 0.2


def full(*args, **kwargs):
    """Stands in for a card without room."""
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB.")


def test_the_traceback_ends_in_a_line_of_the_entry(says, monkeypatch):
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    backward(model)
    monkeypatch.setattr(torch, "zeros_like", full)
    with pytest.raises(torch.OutOfMemoryError) as error:
        optimizer.step()
    says("M17", "".join(traceback.format_exception(error.value)))


def test_a_pasted_optimizer_is_not_this(says):
    with pytest.raises(AssertionError, match="none of the signatures"):
        says(
            "M17",
            "state['exp_avg'] = torch.zeros_like(p.data)\n        state['exp_avg_sq'] = torch.zeros_like(p.data)",
        )
