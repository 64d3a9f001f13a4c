"""C1: a checkpoint that holds the weights only, against one that holds the whole state."""

import copy
import io
import random
import re

import numpy as np
import pytest
import torch
from remote_gpu_trainer.catalogue import bundle
from torch import nn


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def train(model, optimizer, steps: int) -> list[float]:
    """Noisy batches; returns how far each step moved the weights."""
    moved = []
    for _ in range(steps):
        before = torch.cat([p.detach().flatten() for p in model.parameters()])
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        (model(x) - x.sum(1, keepdim=True) - torch.randn(8, 1)).square().mean().backward()
        optimizer.step()
        after = torch.cat([p.detach().flatten() for p in model.parameters()])
        moved.append((after - before).norm().item())
    return moved


def rng_state() -> dict:
    """As in the entry: tensors, tuples and lists only, which torch.load takes without an allowlist."""
    name, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
    }


def through_a_file(state: dict, **options) -> dict:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, **options)


@pytest.fixture(scope="module")
def trained():
    model, optimizer = build()
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    train(model, optimizer, 500)
    for _ in range(500):
        scheduler.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "step": 500,
        "rng": rng_state(),
    }
    state = copy.deepcopy(state)
    return state, train(model, optimizer, 20), copy.deepcopy(model.state_dict())


def test_with_weights_only_the_first_steps_are_several_times_too_large(trained):
    state, uninterrupted, _ = trained
    model, optimizer = build()
    model.load_state_dict(state["model"])
    torch.set_rng_state(state["rng"]["torch"])
    assert train(model, optimizer, 1)[0] > 2 * uninterrupted[0]


def test_weights_and_optimizer_without_the_random_state_still_take_another_path(trained):
    state, _, final = trained
    model, optimizer = build()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(
        copy.deepcopy(state["optimizer"])
    )  # else the steps would write into the saved tensors
    train(model, optimizer, 20)
    assert not torch.equal(model.state_dict()["0.weight"], final["0.weight"])


def test_the_whole_state_continues_bit_for_bit_and_loads_by_default(trained):
    saved, uninterrupted, final = trained
    state = through_a_file(saved, map_location="cpu")
    model, optimizer = build()
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    random.setstate(state["rng"]["python"])
    np.random.set_state(state["rng"]["numpy"])
    torch.set_rng_state(state["rng"]["torch"])
    assert train(model, optimizer, 20) == uninterrupted
    assert all(torch.equal(value, final[name]) for name, value in model.state_dict().items())


def test_the_check_counts_no_optimizer_state_after_a_cold_start(trained, printed):
    state, _, _ = trained
    model, optimizer = build()
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
    names = {"optimizer": optimizer, "scheduler": scheduler}
    assert printed("C1", **names, step=0) == "0 0 0"
    optimizer.load_state_dict(state["optimizer"])
    scheduler.load_state_dict(state["scheduler"])
    assert printed("C1", **names, step=state["step"]) == "4 500 500"
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, plain, 1)
    assert len(plain.state) == 0  # it has nothing to restore


def test_numpy_random_state_as_it_comes_is_refused_by_default_and_as_a_list_it_returns():
    with pytest.raises(Exception, match="Weights only load failed"):
        through_a_file({"numpy": np.random.get_state()})
    saved = through_a_file(rng_state())["numpy"]
    drawn = np.random.rand()
    np.random.set_state(saved)
    assert np.random.rand() == drawn


def test_a_random_state_that_was_moved_off_the_cpu_stops_with_the_signature(says):
    state = through_a_file({"torch": torch.get_rng_state()}, map_location="meta")  # as with "cuda"
    with pytest.raises(TypeError) as error:
        torch.set_rng_state(state["torch"])
    says("C1", str(error.value))


def test_an_optimizer_writes_into_the_state_that_it_was_given(trained):
    state, _, _ = trained
    given = copy.deepcopy(state["optimizer"])
    model, optimizer = build()
    optimizer.load_state_dict(given)
    train(model, optimizer, 1)
    assert not torch.equal(given["state"][0]["exp_avg"], state["optimizer"]["state"][0]["exp_avg"])


class Held:
    """A state and what was loaded into it."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def test_the_two_blocks_of_the_fix_save_and_load_every_state(tmp_path):
    load, save = re.findall(r"```python\n(.*?)```", bundle.load().get("C1").fix, re.S)
    parts = ("model", "optimizer", "scheduler", "scaler", "ema")
    before = {name: Held(number) for number, name in enumerate(parts)}
    exec(save, saved := {**before, "epoch": 3, "step": 40, "best": 0.5})
    torch.save(saved["state"], tmp_path / "state.pt")
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    after = {name: Held(None) for name in parts}
    modules = {"random": random, "np": np, "torch": torch}
    exec(load, now := {**after, **modules, "path": tmp_path / "state.pt"})
    assert [after[name].value for name in parts] == list(range(5))
    assert (now["epoch"], now["step"]) == (3, 40)
    assert drawn == (random.random(), np.random.rand(), torch.rand(1).item())


def test_the_fix_restores_the_random_states_of_the_gpus_that_this_box_has(tmp_path, monkeypatch):
    load, save = re.findall(r"```python\n(.*?)```", bundle.load().get("C1").fix, re.S)
    parts = {name: Held(0) for name in ("model", "optimizer", "scheduler", "scaler", "ema")}
    states = [torch.tensor([number], dtype=torch.uint8) for number in range(4)]
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    exec(save, saved := {**parts, "epoch": 3, "step": 40, "best": 0.5})
    torch.save(saved["state"], tmp_path / "state.pt")
    restored = {}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda s, i: restored.update({i: s.item()}))
    modules = {"random": random, "np": np, "torch": torch}
    exec(load, {**parts, **modules, "path": tmp_path / "state.pt"})
    assert restored == {0: 0, 1: 1}
