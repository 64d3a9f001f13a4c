"""C14: the learning rate after a resume."""

import re

import pytest
import torch
from remote_gpu_trainer.catalogue import bundle
from torch import nn
from torch.optim.lr_scheduler import (
    ChainedScheduler,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    OneCycleLR,
    PolynomialLR,
    ReduceLROnPlateau,
    SequentialLR,
)

WEIGHT = nn.Parameter(torch.zeros(1))


def build(lr=0.1, length=10):
    optimizer = torch.optim.SGD([WEIGHT], lr=lr)
    return optimizer, CosineAnnealingLR(optimizer, T_max=length)


def rates(optimizer, scheduler, steps: int) -> list[float]:
    used = []
    for _ in range(steps):
        used.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step(*[1.0] * isinstance(scheduler, ReduceLROnPlateau))
    return used


@pytest.fixture
def halfway():
    """(state of the optimizer, state of the scheduler, the five rates that should come)."""
    optimizer, scheduler = build()
    rates(optimizer, scheduler, 5)
    saved = optimizer.state_dict(), scheduler.state_dict()
    return *saved, rates(optimizer, scheduler, 5)


def test_neither_restored_starts_the_whole_curve_again(halfway):
    assert rates(*build(), 5)[0] == 0.1 > halfway[2][0]


def test_the_optimizer_alone_brings_one_right_rate_and_then_a_wrong_curve(halfway):
    optimizer, scheduler = build()
    optimizer.load_state_dict(halfway[0])
    came = rates(optimizer, scheduler, 5)
    assert came[0] == pytest.approx(halfway[2][0])
    assert came[-1] > 10 * halfway[2][-1]


def test_the_scheduler_alone_starts_at_the_full_rate_and_ends_too_high(halfway):
    optimizer, scheduler = build()
    scheduler.load_state_dict(halfway[1])
    came = rates(optimizer, scheduler, 5)
    assert came[0] == 0.1 and came[-1] > 1.5 * halfway[2][-1]


def test_both_continue_the_curve(halfway):
    optimizer, scheduler = build()
    optimizer.load_state_dict(halfway[0])
    scheduler.load_state_dict(halfway[1])
    assert rates(optimizer, scheduler, 5) == pytest.approx(halfway[2])


def test_a_new_rate_on_the_command_line_is_overwritten_by_the_loaded_state(halfway):
    optimizer, scheduler = build(lr=0.01)
    optimizer.load_state_dict(halfway[0])
    scheduler.load_state_dict(halfway[1])
    assert rates(optimizer, scheduler, 5) == pytest.approx(halfway[2])


def test_setting_group_and_base_rate_after_loading_changes_it(halfway):
    optimizer, scheduler = build()
    optimizer.load_state_dict(halfway[0])
    scheduler.load_state_dict(halfway[1])
    factor = 0.01 / 0.1
    for group in optimizer.param_groups:
        group["lr"] *= factor
        group["initial_lr"] *= factor
    scheduler.base_lrs = [base * factor for base in scheduler.base_lrs]
    assert rates(optimizer, scheduler, 5) == pytest.approx([rate * factor for rate in halfway[2]])


def warm_up_then_cosine(optimizer):
    parts = [LinearLR(optimizer, 0.1, total_iters=3), CosineAnnealingLR(optimizer, 10)]
    return SequentialLR(optimizer, parts, [3])


def one_upon_the_other(optimizer):
    return ChainedScheduler(
        [LinearLR(optimizer, 0.1, total_iters=3), ExponentialLR(optimizer, 0.9)]
    )


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda optimizer: OneCycleLR(optimizer, 0.1, total_steps=20), ["max_lr", "min_lr"]),
        (warm_up_then_cosine, []),
        (one_upon_the_other, []),
        (lambda optimizer: ReduceLROnPlateau(optimizer, patience=1), []),
    ],
    ids=["one cycle", "sequence", "chain", "plateau"],
)
def test_schedules_without_base_rates_of_their_own_are_changed_where_they_keep_them(make, names):
    def after_five(factor: float) -> list[float]:
        optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
        scheduler = make(optimizer)
        rates(optimizer, scheduler, 5)
        for group in optimizer.param_groups:
            for name in ["lr", "initial_lr", *names]:
                if name in group:
                    group[name] *= factor
        for part in getattr(scheduler, "_schedulers", [scheduler] if names else []):
            part.base_lrs = [base * factor for base in part.base_lrs]
        return rates(optimizer, scheduler, 6)

    assert after_five(0.1) == pytest.approx([rate * 0.1 for rate in after_five(1)])


def test_one_cycle_begins_at_a_25th_of_its_peak_which_is_what_base_lrs_holds():
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    scheduler = OneCycleLR(optimizer, 0.1, total_steps=20)
    factor = 0.02 / optimizer.param_groups[0]["max_lr"]  # the new peak
    assert scheduler.base_lrs == [pytest.approx(0.1 / 25)]
    for name in ["lr", "initial_lr", "max_lr", "min_lr"]:
        optimizer.param_groups[0][name] *= factor
    assert max(rates(optimizer, scheduler, 19)) == pytest.approx(0.02)


def test_a_longer_run_keeps_the_old_length_and_climbs_back_up(halfway):
    optimizer, scheduler = build(length=20)
    optimizer.load_state_dict(halfway[0])
    scheduler.load_state_dict(halfway[1])
    assert scheduler.T_max == 10
    came = rates(optimizer, scheduler, 15)
    assert min(came) < 1e-6 and came[-1] > 0.09


def test_an_extended_polynomial_schedule_stays_at_zero():
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    scheduler = PolynomialLR(optimizer, total_iters=10)
    rates(optimizer, scheduler, 10)
    saved = optimizer.state_dict(), scheduler.state_dict()
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    scheduler = PolynomialLR(optimizer, total_iters=20)
    optimizer.load_state_dict(saved[0])
    scheduler.load_state_dict(saved[1])
    assert rates(optimizer, scheduler, 5) == [0.0] * 5


def test_a_scheduler_made_of_a_function_uses_the_new_length():
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    old = LambdaLR(optimizer, lambda step: 1 - step / 10)
    rates(optimizer, old, 5)
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    new = LambdaLR(optimizer, lambda step: 1 - step / 20)
    new.load_state_dict(old.state_dict())
    optimizer.step()
    new.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 * (1 - 6 / 20))


def test_last_epoch_on_a_new_optimizer_stops_with_the_signature(says):
    optimizer = torch.optim.SGD([WEIGHT], lr=0.1)
    with pytest.raises(KeyError) as error:
        CosineAnnealingLR(optimizer, T_max=10, last_epoch=5)
    says("C14", str(error.value))


def test_the_check_tells_which_of_the_two_was_not_restored(halfway, printed):
    def shows(optimizer_state, scheduler_state) -> list[float]:
        optimizer, scheduler = build()
        if optimizer_state:
            optimizer.load_state_dict(optimizer_state)
        if scheduler_state:
            scheduler.load_state_dict(scheduler_state)
        return [float(n) for n in printed("C14", optimizer=optimizer, scheduler=scheduler).split()]

    optimizer, scheduler, _ = halfway
    assert shows(optimizer, scheduler) == pytest.approx([0.05, 0.05, 5])
    assert shows(optimizer, None) == pytest.approx([0.05, 0.1, 0])
    assert shows(None, scheduler) == pytest.approx([0.1, 0.05, 5])


def test_a_new_length_set_after_loading_suits_cosine_and_sends_one_cycle_back_up():
    rates = {}
    for name, make in (
        ("T_max", lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10)),
        ("total_steps", lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=10)),
    ):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
        scheduler = make(optimizer)
        for _ in range(5):
            optimizer.step()
            scheduler.step()
        setattr(scheduler, name, 20)
        rates[name] = []
        for _ in range(15):
            optimizer.step()
            scheduler.step()
            rates[name].append(optimizer.param_groups[0]["lr"])
    assert rates["T_max"] == sorted(rates["T_max"], reverse=True)
    assert rates["T_max"][-1] == pytest.approx(0, abs=1e-9)
    assert max(rates["total_steps"][5:]) == pytest.approx(0.1, rel=0.01)


def test_at_the_old_end_a_longer_cosine_stays_at_zero_and_a_new_schedule_falls_from_the_new_rate():
    optimizer, scheduler = build()
    for _ in range(10):
        optimizer.step()
        scheduler.step()
    state = optimizer.state_dict()
    scheduler.T_max = 20
    assert max(rates(optimizer, scheduler, 10)) == pytest.approx(0, abs=1e-9)

    optimizer, _ = build()
    optimizer.load_state_dict(state)
    code = re.findall(r"```python\n(.*?)```", bundle.load().get("C14").fix, re.S)[1]
    scope = {
        "optimizer": optimizer,
        "CosineAnnealingLR": CosineAnnealingLR,
        "new_lr": 0.05,
        "rest": 10,
    }
    exec(code, scope)
    used = rates(optimizer, scope["scheduler"], 11)
    assert used[0] == 0.05 and used == sorted(used, reverse=True)
    assert used[-1] == pytest.approx(0, abs=1e-9)


def test_a_longer_run_keeps_the_ratio_between_the_rates_of_two_groups():
    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in (1e-3, 1e-4)]
    optimizer = torch.optim.SGD(groups)
    CosineAnnealingLR(optimizer, 10)
    code = re.findall(r"```python\n(.*?)```", bundle.load().get("C14").fix, re.S)[1]
    exec(
        code,
        {
            "optimizer": optimizer,
            "CosineAnnealingLR": CosineAnnealingLR,
            "new_lr": 5e-4,
            "rest": 10,
        },
    )
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([5e-4, 5e-5])


def new_rate(optimizer, scheduler):
    transformers = pytest.importorskip("transformers")
    code = re.findall(r"```python\n(.*?)```", bundle.load().get("C14").fix, re.S)[2]
    exec(code, scope := {})
    args = transformers.TrainingArguments("unused", learning_rate=3e-4, use_cpu=True)
    scope["NewRate"]().on_train_begin(args, None, None, optimizer=optimizer, lr_scheduler=scheduler)


def test_the_callback_looks_behind_the_wrapper_of_deepspeed():
    accelerate = pytest.importorskip("accelerate")
    optimizer = torch.optim.AdamW([WEIGHT], lr=1e-3)
    inner = LambdaLR(optimizer, lambda step: 1.0)
    new_rate(optimizer, accelerate.utils.DeepSpeedSchedulerWrapper(inner, optimizer))
    optimizer.step()
    inner.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(3e-4)


def test_the_callback_leaves_a_schedule_of_deepspeed_alone():
    accelerate = pytest.importorskip("accelerate")
    optimizer = torch.optim.AdamW([WEIGHT], lr=1e-3)
    wrapped = accelerate.utils.DeepSpeedSchedulerWrapper(object(), optimizer)
    new_rate(optimizer, wrapped)
    assert optimizer.param_groups[0]["lr"] == 1e-3


@pytest.mark.parametrize("with_callback", [False, True])
def test_trainer_resumes_with_the_old_rate_and_betas_unless_the_callback_sets_the_new_ones(
    tmp_path, with_callback
):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from line_model import DATA, Config, Line

    used = []

    class Watch(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, optimizer=None, **kwargs):
            group = optimizer.param_groups[0]
            used.append((group["lr"], group["betas"]))

    def train(folder, resume=None, callbacks=(), **arguments):
        args = transformers.TrainingArguments(
            str(tmp_path / folder),
            per_device_train_batch_size=2,
            max_steps=10,
            save_steps=5,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **arguments,
        )
        transformers.Trainer(
            Line(Config()), args, train_dataset=DATA, callbacks=[*callbacks, Watch()]
        ).train(resume_from_checkpoint=resume)

    train("first", learning_rate=1e-3)
    code = re.findall(r"```python\n(.*?)```", bundle.load().get("C14").fix, re.S)[2]
    exec(code, scope := {})
    used.clear()
    train(
        "second",
        resume=str(tmp_path / "first" / "checkpoint-5"),
        callbacks=[scope["NewRate"]()] * with_callback,
        learning_rate=3e-4,
        adam_beta2=0.95,
    )
    asked, old = (pytest.approx(3e-4), (0.9, 0.95)), (1e-3, (0.9, 0.999))
    assert used == [asked if with_callback else old] * 5
