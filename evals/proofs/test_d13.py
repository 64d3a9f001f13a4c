"""D13: how much each FSDP setting keeps and how often it gathers. Three layers, two ranks."""
import pytest
import torch.distributed as dist
from launch import run_ranks

ONE_STEP = """
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.distributed.tensor import DTensor
    from torch.profiler import profile
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    net = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(3)))
    {shard}
    model(torch.ones(2, 8)).sum().backward()
    with profile() as seen:
        loss = model(torch.ones(2, 8)).sum()
        whole = sum(p.untyped_storage().size() // 4 for p in net.parameters() if not isinstance(p, DTensor))
        loss.backward()
    count = lambda *names: sum(e.count for e in seen.key_averages() if e.key in names)
    gathers = count("c10d::_allgather_base_", "c10d::allgather_")
    scatters = count("c10d::_reduce_scatter_base_")
    print("whole", whole, "gathers", gathers, "scatters", scatters)
    dist.barrier()
    dist.destroy_process_group()
"""
FSDP2 = "for layer in net: fully_shard(layer, mesh=mesh, reshard_after_forward={})\n    model = fully_shard(net, mesh=mesh)"
FSDP1 = ("model = FSDP(net, sharding_strategy=ShardingStrategy.{}, device_id=torch.device('cpu'), "
         "auto_wrap_policy=ModuleWrapPolicy({{torch.nn.Linear}}))")


def one_step(shard):
    """What rank 0 printed after a forward and backward pass of three layers of 64 weights."""
    output = run_ranks(ONE_STEP.format(shard=shard)).ranks[0]
    return next(line for line in output.splitlines() if line.startswith("whole"))


def test_resharding_after_forward_gathers_each_layer_twice_and_holds_none():
    assert one_step(FSDP2.format(True)) == "whole 0 gathers 6 scatters 3"


def test_keeping_the_weights_gathers_each_layer_once_and_holds_the_whole_model():
    assert one_step(FSDP2.format(False)) == "whole 192 gathers 3 scatters 3"


@pytest.mark.parametrize("strategy, gathers", [("FULL_SHARD", 6), ("SHARD_GRAD_OP", 3)])
def test_the_two_strategies_of_fsdp1_differ_in_the_same_way(strategy, gathers):
    assert f"gathers {gathers} scatters 3" in one_step(FSDP1.format(strategy))


@pytest.fixture
def eight_ranks():
    """This process believes it is rank 0 of 8: shapes are real, nothing is sent."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("mesh, share", [((8,), 8), ((2, 4), 4)])
def test_a_rank_of_two_machines_holds_an_eighth_fully_sharded_and_a_quarter_in_hybrid(eight_ranks, mesh, share):
    import torch
    from torch.distributed.fsdp import fully_shard

    layer = torch.nn.Linear(64, 64, bias=False)
    fully_shard(layer, mesh=dist.device_mesh.init_device_mesh("cpu", mesh))
    assert layer.weight.to_local().numel() == 64 * 64 // share
