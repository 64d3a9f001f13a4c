"""X3: one learning rate for parts of different age."""

import re
import textwrap

import pytest
import torch
from check_code import block
from remote_gpu_trainer.catalogue import bundle


def model():
    torch.manual_seed(0)
    return torch.nn.ModuleDict(
        {
            "vision_tower": torch.nn.Linear(8, 8),
            "mm_projector": torch.nn.Linear(8, 8),
            "language_model": torch.nn.Linear(8, 4),
        }
    )


def groups(m, **rates):
    return [
        {"params": list(m[name].parameters()), "lr": rate, "name": name}
        for name, rate in rates.items()
    ]


def moved(m, optimizer, steps=20):
    before = {name: part.weight.detach().clone() for name, part in m.items()}
    for _ in range(steps):
        x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
        out = m["language_model"](torch.tanh(m["mm_projector"](torch.tanh(m["vision_tower"](x)))))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(out, y).backward()
        optimizer.step()
    return {name: (part.weight - before[name]).abs().mean().item() for name, part in m.items()}


def test_adam_moves_all_parts_alike_under_one_rate_however_small_their_gradients():
    m = model()
    far = moved(m, torch.optim.AdamW(m.parameters(), 1e-3, weight_decay=0))
    assert max(far.values()) < 3 * min(far.values())


def test_groups_keep_the_vision_tower_near_its_start():
    m = model()
    far = moved(
        m,
        torch.optim.AdamW(
            groups(m, vision_tower=2e-6, mm_projector=1e-3, language_model=2e-5), weight_decay=0
        ),
    )
    assert far["mm_projector"] > 20 * far["language_model"] > 20 * 4 * far["vision_tower"]


def test_a_part_in_no_group_never_moves():
    m = model()
    assert (
        moved(m, torch.optim.AdamW(groups(m, mm_projector=1e-3, language_model=2e-5)))[
            "vision_tower"
        ]
        == 0
    )


def rates(optimizer):
    return [g["lr"] for g in optimizer.param_groups]


def test_a_warm_up_keeps_the_ratio_of_the_groups():
    optimizer = torch.optim.AdamW(groups(model(), mm_projector=1e-3, language_model=2e-5))
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 10)
    first, second = rates(optimizer)
    assert first == pytest.approx(1e-4) and first / second == pytest.approx(50)


def test_one_cycle_with_one_number_makes_all_rates_equal():
    optimizer = torch.optim.AdamW(groups(model(), mm_projector=1e-3, language_model=2e-5))
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=10)
    first, second = rates(optimizer)
    assert first == second
    optimizer = torch.optim.AdamW(groups(model(), mm_projector=1e-3, language_model=2e-5))
    torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[1e-3, 2e-5], total_steps=10)
    first, second = rates(optimizer)
    assert first / second == pytest.approx(50)


def test_the_check_shows_the_rates_apart_or_one_rate_for_all(printed):
    m = model()
    optimizer = torch.optim.AdamW(groups(m, mm_projector=1e-3, language_model=2e-5))
    assert printed("X3", optimizer=optimizer) == "[(2, 0.001), (2, 2e-05)]"
    assert printed("X3", optimizer=torch.optim.AdamW(m.parameters(), 1e-3)) == "[(6, 0.001)]"


def optimizer_of_the_entry(m):
    """What the code under Fix makes of it."""
    names = {"torch": torch, "model": m}
    exec(block("X3", "fix"), names)
    return names["optimizer"]


def test_the_code_of_the_entry_gives_each_part_its_rate_and_stops_at_a_part_that_no_key_names():
    m = model()
    assert rates(optimizer_of_the_entry(m)) == [2e-6, 2e-5, 2e-5]
    m["lm_head"] = torch.nn.Linear(4, 4)
    with pytest.raises(AssertionError):
        optimizer_of_the_entry(m)


def test_trainer_takes_the_groups_from_a_class_of_its_own(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Parts(torch.nn.ModuleDict):
        def forward(self, x, labels=None):
            for part in self.values():
                x = part(x)
            return {"loss": (x - labels).square().mean(), "logits": x}

    names = ("vision_tower", "projector", "language_model")
    first, second = re.findall(r"```python\n(.*?)```", bundle.load().get("X3").fix, re.S)
    code = re.sub(r" *\.\.\. .*\n", textwrap.indent(first, " " * 8), second)
    exec(code, scope := {"torch": torch, "Trainer": transformers.Trainer})
    trainer = scope["PartsTrainer"](
        Parts({name: torch.nn.Linear(1, 1) for name in names}),
        transformers.TrainingArguments(
            str(tmp_path),
            max_steps=1,
            lr_scheduler_type="constant",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        train_dataset=[{"x": torch.ones(1), "labels": torch.zeros(1)}] * 8,
    )
    trainer.train()
    assert rates(trainer.optimizer) == [2e-6, 2e-5, 2e-5]
