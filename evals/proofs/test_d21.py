"""D21: a collective that only one rank reaches."""
import pytest
from launch import run_ranks

HEAD = """
    import datetime, torch, torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
"""
TAIL = """
    print("passed")
    dist.barrier()
    dist.destroy_process_group()
"""
METRIC = """
    metric = torch.tensor(float(rank))
    {}
"""
BARRIER = """
    {}
    dist.all_reduce(torch.ones(4))
"""
FULL_WEIGHTS = """
    model = torch.nn.Linear(4, 4)
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    gather = lambda: get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    {}
    dist.barrier()
"""
EVALUATE = """
    model = DDP(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)))
    def train():
        model.train()
        model(torch.randn(4, 4)).sum().backward()
    train()
    if rank == 0:
        net = {}
        net.eval()
        with torch.no_grad():
            net(torch.randn(4, 4))
    train()
"""


def outputs(body, env=None):
    return run_ranks(HEAD + body + TAIL, env=env).ranks


@pytest.mark.parametrize("body", [
    METRIC.format("if rank == 0: dist.all_reduce(metric)"),
    BARRIER.format("if rank == 0: dist.barrier()"),
    FULL_WEIGHTS.format("if rank == 0: gather()"),
    EVALUATE.format("model"),
], ids=["metric", "barrier", "full state dict", "evaluation through the DDP wrapper"])
def test_a_collective_behind_a_rank_check_stops_the_run(body):
    assert "passed" not in outputs(body)[0]


@pytest.mark.parametrize("body", [
    METRIC.format("dist.all_reduce(metric)\n    if rank == 0: assert metric.item() == 1"),
    BARRIER.format("dist.barrier()"),
    FULL_WEIGHTS.format("state = gather()\n    if rank == 0: assert len(state) == 2"),
    EVALUATE.format("model.module"),
], ids=["metric", "barrier", "full state dict", "evaluation of the module inside"])
def test_the_call_on_every_rank_and_only_its_use_behind_the_check_passes(body):
    for output in outputs(body):
        assert output.endswith("passed\n")


def test_the_debug_level_names_the_barrier_that_one_rank_stands_in(says):
    for output in outputs(BARRIER.format("if rank == 0: dist.barrier()"), {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}):
        says("D21", output)
