"""T12: what each switch left over from debugging adds to a step, counted in operations, and that it goes away."""

import os

import pytest
import torch
import torchvision_operators
from operation_counts import operations
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule


@pytest.fixture
def model():
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)])


def step(model):
    model.zero_grad()
    model(torch.ones(2, 4)).sum().backward()


def test_anomaly_detection_reads_a_value_back_after_each_backward_operation(model):
    plain = operations(lambda: step(model))
    with (
        pytest.warns(UserWarning, match="This mode will increase the runtime"),
        torch.autograd.detect_anomaly(),
    ):
        slow = operations(lambda: step(model))
    assert plain["aten._local_scalar_dense.default"] == 0
    assert slow["aten._local_scalar_dense.default"] >= 40  # on a GPU each one waits
    assert operations(lambda: step(model)) == plain


def test_set_detect_anomaly_stays_on_and_warns_of_nothing(model, recwarn):
    torch.autograd.set_detect_anomaly(True)
    try:
        assert (
            torch.is_anomaly_enabled()
            and operations(lambda: step(model))["aten.isnan.default"] >= 40
        )
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert not recwarn and not torch.is_anomaly_enabled()


def test_zeroing_costs_an_operation_per_parameter_and_keeps_the_memory(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step(model)
    assert operations(lambda: optimizer.zero_grad(set_to_none=False))["aten.zero_.default"] == 40
    assert model[0].weight.grad is not None
    assert operations(optimizer.zero_grad)["aten.zero_.default"] == 0
    assert model[0].weight.grad is None


def test_item_and_a_printed_loss_read_back_one_value_each(model):
    loss = model(torch.ones(2, 4)).sum()
    assert operations(loss.item)["aten._local_scalar_dense.default"] == 1
    assert operations(lambda: f"{loss}")["aten._local_scalar_dense.default"] >= 1
    total = torch.zeros(())
    assert operations(lambda: total.add_(loss.detach()))["aten._local_scalar_dense.default"] == 0


def fresh():
    """The beginning of memory that comes zeroed from the system: too large to be a piece that was used before."""
    return torch.empty(1 << 24)[:1000]


def test_deterministic_mode_fills_empty_memory():
    torch.use_deterministic_algorithms(True)
    try:
        assert fresh().isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert not fresh().isnan().any()
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    assert not fresh().isnan().any()


@pytest.mark.parametrize("to_none, moves", [(True, False), (False, True)])
def test_a_parameter_without_a_gradient_is_left_alone_only_with_none(to_none, moves):
    used, unused = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = torch.optim.AdamW([used, unused], lr=0.1, weight_decay=0.1)
    (used.sum() + unused.sum()).backward()
    optimizer.step()
    before = unused.detach().clone()
    optimizer.zero_grad(set_to_none=to_none)
    used.sum().backward()
    optimizer.step()
    assert (not torch.equal(before, unused)) is moves


def test_full_determinism_of_transformers_switches_blocking_launches_on(run_apart):
    done = run_apart(f"""
{torchvision_operators.CODE}
import os
import transformers
transformers.set_seed(1)
print(os.environ.get("CUDA_LAUNCH_BLOCKING"))
transformers.enable_full_determinism(1)
print(os.environ.get("CUDA_LAUNCH_BLOCKING"), torch.are_deterministic_algorithms_enabled())
""")
    assert done.stdout.split() == ["None", "1", "True"], done.stderr


def events(model, steps, plan):
    with profile(activities=[ProfilerActivity.CPU], schedule=plan) as profiler:
        for _ in range(steps):
            step(model)
            profiler.step()
    return len(profiler.events())


def test_a_profiler_without_a_schedule_keeps_every_step(model):
    assert events(model, 16, None) > 1.8 * events(model, 8, None)
    plan = schedule(wait=1, warmup=1, active=2, repeat=1)
    assert events(model, 16, plan) < 1.2 * events(model, 8, plan)


def test_the_line_of_the_check_shows_what_is_switched_on_and_nothing_in_a_clean_job(
    printed, monkeypatch
):
    for name in [n for n in os.environ if "BLOCKING" in n or n.startswith("TORCH")]:
        monkeypatch.delenv(name)
    assert printed("T12", torch=torch, os=os) == "False False False {}"
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        told = printed("T12", torch=torch, os=os)
    assert told == "True False False {'CUDA_LAUNCH_BLOCKING': '1'}"
