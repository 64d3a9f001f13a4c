"""D7: what a model takes in training, and which scheme splits which part of it. 8192 fp32 weights, AdamW, two ranks."""

import json

import pytest
import torch
from check_code import span
from launch import run_ranks

SCHEMES = """
    import json, torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    local = lambda t: getattr(t, "to_local", lambda: t)()
    size = lambda tensors: sum(local(t).nbytes for t in tensors)
    for name, wrap in {
        "alone": lambda net: net,
        "DDP": DDP,
        "FSDP2": lambda net: fully_shard(net, mesh=mesh),
    }.items():
        net = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(2)))
        model = wrap(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            model(torch.ones(1, 64)).sum().backward()
            optimizer.step()
        moments = [v for state in optimizer.state.values() for k, v in state.items() if k != "step"]
        held = [size(net.parameters()), size(p.grad for p in net.parameters()), size(moments)]
        print(name, json.dumps(held), sep="|", flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def held():
    """scheme -> bytes of weights, gradients and moments on each rank."""
    finished = run_ranks(SCHEMES, timeout=60)
    found = {}
    for output in finished.ranks:
        for line in output.splitlines():
            if "|" in line:
                scheme, sizes = line.split("|")
                found.setdefault(scheme, []).append(json.loads(sizes))
    assert len(found) == 3, finished.output
    return found


def test_the_line_of_the_check_gives_what_training_on_one_gpu_holds(held, capsys):
    with torch.device("meta"):
        model = torch.nn.Sequential(*(torch.nn.Linear(64, 64, bias=False) for _ in range(2)))
    exec(span("D7", "p.numel()"), {"model": model})
    gigabytes = float(capsys.readouterr().out)
    assert gigabytes * 2**30 == sum(held["alone"][0]) == 16 * 8192


def test_ddp_holds_all_of_it_on_each_rank(held):
    assert held["DDP"] == held["alone"] == [[4 * 8192, 4 * 8192, 8 * 8192]] * 2


def test_fsdp_splits_weights_gradients_and_moments_alike(held):
    assert held["FSDP2"] == [[2 * 8192, 2 * 8192, 4 * 8192]] * 2
