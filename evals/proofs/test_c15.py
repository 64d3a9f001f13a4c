"""C15: fp16 loss scaling after a resume. The scaler works on the CPU as well."""

import copy

import pytest
import torch
from check_code import shown, span
from torch import nn

BATCH = torch.ones(2, 3)


def build():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    return model, torch.optim.AdamW(model.parameters())


def scaler(**options):
    return torch.amp.GradScaler("cpu", **options)


def step(model, optimizer, scale, magnitude=1.0):
    optimizer.zero_grad()
    scale.scale(model(BATCH).sum() * magnitude).backward()
    scale.step(optimizer)
    scale.update()


@pytest.fixture
def saved():
    model, optimizer = build()
    scale = scaler(init_scale=256.0)
    for _ in range(3):
        step(model, optimizer, scale)
    parts = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scale.state_dict(),
    }
    return copy.deepcopy(parts)


def test_a_forgotten_scaler_state_does_not_raise(saved):
    model, optimizer = build()
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step(model, optimizer, scaler())


def test_it_costs_skipped_steps_until_the_scale_has_come_down(saved):
    large = 1e34  # the scaled loss is finite at 256 and overflows float32 at 65536
    for state, expected in ((None, 1), (saved["scaler"], 0)):
        model, optimizer = build()
        scale = scaler()
        if state:
            scale.load_state_dict(state)
        start = scale.get_scale()
        skipped = 0
        for _ in range(10):
            before = model.weight.detach().clone()
            step(model, optimizer, scale, large)
            skipped += torch.equal(model.weight, before)
        assert (skipped > 0) == bool(expected)
        assert (scale.get_scale() < start) == bool(expected)


def stale_model(saved):
    _, optimizer = build()
    model, _ = build()  # made again after the optimizer
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return model, optimizer


def assigned(saved):
    model, optimizer = build()
    model.load_state_dict(saved["model"], assign=True)
    return model, optimizer


def frozen(saved):
    model, optimizer = build()
    model.load_state_dict(saved["model"])
    model.requires_grad_(False)  # as an adapter loaded for inference
    return nn.Sequential(model, nn.Linear(1, 1)), optimizer


def check(model, optimizer):
    """What the two lines print: weights with a gradient, and whether they are another model's."""
    lines = (span("C15", "grad is not None"), span("C15", "isdisjoint"))
    return tuple(shown(line, model=model, optimizer=optimizer) for line in lines)


@pytest.mark.parametrize("resume", [stale_model, assigned, frozen])
def test_an_optimizer_whose_weights_got_no_gradient_stops_with_the_signature(saved, resume, says):
    model, optimizer = resume(saved)
    scale = scaler()
    scale.load_state_dict(saved["scaler"])
    with pytest.raises(AssertionError) as error:
        step(model, optimizer, scale)
    says("C15", str(error.value))
    assert check(model, optimizer) == ("0", str(resume is not frozen))


def test_built_after_loading_the_optimizer_holds_the_weights_that_train(saved):
    model, _ = build()
    model.load_state_dict(saved["model"], assign=True)
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(saved["optimizer"])
    step(model, optimizer, scaler())
    assert check(model, optimizer) == ("2", "False")


def test_the_state_of_a_bf16_run_is_empty_and_stops_with_the_signature(says):
    state = scaler(enabled=False).state_dict()
    assert state == {}
    with pytest.raises(RuntimeError) as error:
        scaler().load_state_dict(state)
    says("C15", str(error.value))
