"""P14: one non-finite gradient, and what skipping the step can and can't save."""

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest
import torch
from launch import run_ranks
from packaging.version import Version
from remote_gpu_trainer.catalogue import bundle
from torch import nn


def train(guard: bool, optimizer_class=torch.optim.AdamW, batch_norm: bool = False):
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4), nn.BatchNorm1d(4)] if batch_norm else [nn.Linear(4, 4)]
    model = nn.Sequential(*layers, nn.Linear(4, 1))
    optimizer = optimizer_class(model.parameters(), lr=1e-2)
    skipped = 0
    for step in range(10):
        x = torch.randn(8, 4)
        if step == 5:
            x[0, 0] = torch.nan
        loss = model(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm.isfinite() or not guard:
            optimizer.step()
        else:
            skipped += 1
        optimizer.zero_grad()
    return model, optimizer, loss, skipped


@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.AdamW])
def test_one_bad_step_makes_every_weight_nan_for_good(optimizer_class):
    model, _, loss, _ = train(guard=False, optimizer_class=optimizer_class)
    assert loss.isnan() and all(p.isnan().any() for p in model.parameters())


def test_the_averages_of_adam_are_ruined_too():
    model, optimizer, _, _ = train(guard=False)
    assert all(optimizer.state[p]["exp_avg"].isnan().any() for p in model.parameters())


def test_with_the_guard_one_step_is_skipped_and_weights_and_averages_stay_sound():
    model, optimizer, loss, skipped = train(guard=True)
    assert skipped == 1 and loss.isfinite()
    for p in model.parameters():
        assert p.isfinite().all() and optimizer.state[p]["exp_avg"].isfinite().all()


def test_the_guard_comes_too_late_for_batch_norm_statistics():
    model, _, _, skipped = train(guard=True, batch_norm=True)
    assert skipped == 1 and all(p.isfinite().all() for p in model.parameters())
    assert model[1].running_mean.isnan().any()
    assert model.eval()(torch.randn(8, 4)).isnan().all()


def test_clipping_spreads_a_nan_from_one_gradient_to_all():
    one, other = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    one.grad, other.grad = torch.tensor([torch.nan, 1.0]), torch.ones(2)
    nn.utils.clip_grad_norm_([one, other], 1.0)
    assert one.grad.isnan().all() and other.grad.isnan().all()


def test_under_fsdp1_only_the_wrappers_own_clipping_lets_all_ranks_decide_alike():
    output = run_ranks("""
        import torch, torch.distributed as dist
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = FSDP(torch.nn.Linear(8, 8, bias=False), device_id=torch.device("cpu"))
        model(torch.ones(2, 8)).sum().backward()
        if dist.get_rank() == 0:
            next(model.parameters()).grad[0] = float("nan")
        for clip in (lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0), lambda: model.clip_grad_norm_(1.0)):
            print("finite", bool(clip().isfinite()), flush=True)
        dist.barrier()
        dist.destroy_process_group()
    """)
    assert [rank.count("finite True") for rank in output.ranks] == [0, 1]
    assert [rank.count("finite False") for rank in output.ranks] == [2, 1]


def test_clipping_can_be_told_to_stop_with_the_signature(says):
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.tensor([torch.inf])
    with pytest.raises(RuntimeError) as error:
        nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)
    says("P14", str(error.value))


def test_gradients_set_to_none_make_the_step_do_nothing_as_in_the_trainer_callback():
    layer = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=1.0)
    layer(torch.ones(1, 2)).sum().backward()
    layer.weight.grad.fill_(torch.nan)
    before = layer.weight.detach().clone()
    if any(p.grad is not None and not p.grad.isfinite().all() for p in layer.parameters()):
        layer.zero_grad(set_to_none=True)
    optimizer.step()
    assert torch.equal(before, layer.weight)


class Square(nn.Module):
    """The mean of squares of a linear layer, as the Trainer wants it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, labels):
        return {"loss": (self.layer(x) - labels).square().mean()}


@pytest.mark.parametrize("guard", [False, True])
def test_the_callback_keeps_the_trainer_from_a_bad_step_and_without_it_every_weight_is_nan(
    tmp_path, guard
):
    transformers = pytest.importorskip("transformers")
    code = re.findall(r"```python\n(.*?)```", bundle.load().get("P14").fix, re.S)[1]
    names = {"TrainerCallback": transformers.TrainerCallback}
    exec(code, names)
    torch.manual_seed(0)
    model = Square()
    rows = [
        {"x": torch.full((4,), torch.nan if i == 5 else float(i)), "labels": torch.ones(1)}
        for i in range(8)
    ]
    arguments = transformers.TrainingArguments(
        str(tmp_path),
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        num_train_epochs=1,
        per_device_train_batch_size=2,
        save_strategy="no",
    )
    before = model.layer.weight.detach().clone()
    callbacks = [names["SkipBadStep"]()] if guard else []
    transformers.Trainer(model, arguments, train_dataset=rows, callbacks=callbacks).train()
    assert all(p.isfinite().all().item() is guard for p in model.parameters())
    assert not torch.equal(before, model.layer.weight)


@pytest.mark.parametrize("guard", [False, True])
def test_the_check_names_every_weight_after_a_bad_step_and_none_behind_the_guard(printed, guard):
    model, _, _, _ = train(guard)
    every = [name for name, _ in model.named_parameters()]
    assert printed("P14", model=model) == f"{[] if guard else every} []"


def test_the_check_names_the_statistics_of_batch_norm_behind_the_guard(printed):
    model, _, _, _ = train(guard=True, batch_norm=True)
    assert printed("P14", model=model) == "[] ['1.running_mean', '1.running_var']"
    masked = nn.Linear(2, 2)
    masked.register_buffer("mask", torch.full((2, 2), -torch.inf).triu(1))
    assert printed("P14", model=masked) == "[] []"


def test_deepspeed_skips_bad_bf16_steps_unless_told_otherwise_since_0_19_3():
    folder = importlib.util.find_spec("deepspeed").submodule_search_locations[0]
    text = Path(folder, "runtime", "precision_config.py").read_text()
    default = re.search(r"^    check_grad_overflow: bool = (\w+)", text, re.M)[1]
    new = Version(importlib.metadata.version("deepspeed")) >= Version("0.19.3")
    assert default == str(new)
