"""M18: the lines that tell weights, gradients, optimizer state and the rest apart."""

import gc
import re

import pytest
import torch
from check_code import block
from memory_counts import Card
from torch import nn

GB = 2**30


def lines() -> str:
    return block("M18", "fix")


def counted(model, optimizer, monkeypatch, capsys) -> list[float]:
    """The numbers that the entry's lines print; the card's own are made up, since there is none."""
    for name, value in {
        "memory_allocated": 5 * GB,
        "max_memory_allocated": 9 * GB,
        "memory_reserved": 12 * GB,
        "mem_get_info": (10 * GB, 24 * GB),
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    exec(lines(), {"torch": torch, "model": model, "optimizer": optimizer})
    return [float(number) for number in re.findall(r"\d+\.\d+|\b\d+\b", capsys.readouterr().out)]


def test_after_a_step_each_part_is_told(monkeypatch, capsys):
    model = nn.Linear(4096, 4096, bias=False)  # 64 MiB
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 4096)).sum().backward()
    optimizer.step()
    assert counted(model, optimizer, monkeypatch, capsys) == [0.06, 0.06, 0.13, 5, 9, 12, 14]


@pytest.mark.parametrize("second", [False, True])
def test_the_sum_of_the_check_is_near_allocated_unless_there_is_a_second_model(
    monkeypatch, capsys, second
):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10 * GB, 24 * GB))
    with Card():
        model = nn.Linear(4096, 4096, bias=False)  # 64 MiB
        average = [p.detach().clone() for p in model.parameters()] if second else []
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 4096)).sum().backward()
        optimizer.step()
        exec(lines(), {"torch": torch, "model": model, "optimizer": optimizer})
    told = [float(number) for number in re.findall(r"\d+\.\d+", capsys.readouterr().out)]
    *parts, allocated = told[:4]
    assert allocated - sum(parts) == pytest.approx(0.0625 * len(average), abs=0.02)


def test_tied_weights_and_views_count_once(monkeypatch, capsys):
    model = nn.ModuleList([nn.Linear(4096, 4096, bias=False), nn.Linear(4096, 4096, bias=False)])
    model[1].weight = nn.Parameter(model[0].weight.detach().view(4096, 4096))
    optimizer = torch.optim.SGD(model.parameters())
    assert counted(model, optimizer, monkeypatch, capsys)[:3] == [0.06, 0, 0]


def test_of_a_sharded_model_the_local_piece_is_counted(monkeypatch, capsys):
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.Linear(4096, 4096, bias=False)
        model.weight = nn.Parameter(
            distribute_tensor(model.weight.detach(), init_device_mesh("cpu", (1,)), [Shard(0)])
        )
        optimizer = torch.optim.AdamW(model.parameters())
        model.weight.grad = torch.zeros_like(model.weight)
        optimizer.step()
        assert counted(model, optimizer, monkeypatch, capsys)[:3] == [0.06, 0.06, 0.13]
    finally:
        distributed.destroy_process_group()


def known(dtype, shape) -> int:
    """Tensors of this kind that the collector lists."""
    gc.collect()
    return sum(
        type(o) is torch.Tensor and o.dtype == dtype and tuple(o.shape) == shape
        for o in gc.get_objects()
    )


def test_python_does_not_know_the_casts_and_masks_that_are_saved():
    net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(32, 32), nn.Tanh())])
    drop = nn.Sequential(*[nn.Dropout(0.5) for _ in range(4)])
    saved = []

    def forward():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(torch.randn(77, 32)), drop(torch.randn(55, 7, requires_grad=True))

    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: saved.append((t.dtype, tuple(t.shape))) or t.clone(), lambda t: t
    ):
        forward()
    assert (
        saved.count((torch.bfloat16, (32, 32))) == 3 and saved.count((torch.float32, (55, 7))) == 4
    )
    out = forward()
    assert out[0].grad_fn is not None and known(torch.bfloat16, (32, 32)) == 0
    assert known(torch.float32, (55, 7)) < 4


def test_the_tracker_tells_the_kinds_without_a_gpu():
    from torch.distributed._tools.mem_tracker import MemTracker

    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.AdamW(model.parameters())
    tracker = MemTracker()
    tracker.track_external(model, optimizer)
    with tracker:
        for _ in range(2):
            model(torch.randn(512, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            kinds = {
                str(kind).rpartition(".")[2]: size
                for kind, size in next(iter(tracker.get_tracker_snapshot("peak").values())).items()
            }
            tracker.reset_mod_stats()
    weights = sum(p.nbytes for p in model.parameters())
    assert kinds["PARAM"] == weights and kinds["OPT"] >= 2 * weights
    assert kinds["ACT"] >= 512 * 64 * 4
