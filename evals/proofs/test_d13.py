"""D13: how much each FSDP setting keeps and how often it gathers. Three layers of 64 weights, two ranks."""

import pytest
import torch
import torch.distributed as dist
from launch import run_ranks

ONE_STEP_EACH = """
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.distributed.tensor import DTensor
    from torch.profiler import profile
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))

    def fsdp2(net, reshard):
        for layer in net:
            fully_shard(layer, mesh=mesh, reshard_after_forward=reshard)
        return fully_shard(net, mesh=mesh)

    def fsdp1(net, strategy):
        return FSDP(net, sharding_strategy=ShardingStrategy[strategy], device_id=torch.device("cpu"),
                    auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}))

    for label, wrap, setting in (("reshard", fsdp2, True), ("keep", fsdp2, False),
                                 ("FULL_SHARD", fsdp1, "FULL_SHARD"), ("SHARD_GRAD_OP", fsdp1, "SHARD_GRAD_OP")):
        net = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(3)))
        model = wrap(net, setting)
        model(torch.ones(2, 8)).sum().backward()
        with profile() as seen:
            loss = model(torch.ones(2, 8)).sum()
            whole = sum(p.numel() for p in net.parameters() if not isinstance(p, DTensor))
            loss.backward()
        count = lambda *names: sum(e.count for e in seen.key_averages() if e.key in names)
        print(label, "whole", whole, "gathers", count("c10d::_allgather_base_", "c10d::allgather_"),
              "scatters", count("c10d::_reduce_scatter_base_"), flush=True)
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def steps():
    """setting -> what rank 0 saw in one forward and backward pass."""
    output = run_ranks(ONE_STEP_EACH, timeout=90).ranks[0]
    return dict(line.split(" ", 1) for line in output.splitlines() if " whole " in line)


def test_resharding_after_forward_gathers_each_layer_twice_and_holds_none(steps):
    assert steps["reshard"] == "whole 0 gathers 6 scatters 3"


def test_keeping_the_weights_gathers_each_layer_once_and_holds_the_whole_model(steps):
    assert steps["keep"] == "whole 192 gathers 3 scatters 3"


def test_the_two_strategies_of_fsdp1_differ_in_the_same_way(steps):
    assert steps["FULL_SHARD"].endswith("gathers 6 scatters 3")
    assert steps["SHARD_GRAD_OP"].endswith("gathers 3 scatters 3")


@pytest.mark.parametrize(
    "mesh, names, share", [((8,), ("shard",), 8), ((2, 4), ("replicate", "shard"), 4)]
)
def test_of_two_machines_with_four_gpus_hybrid_leaves_each_a_quarter_and_full_sharding_an_eighth(
    mesh, names, share
):
    from torch.distributed.fsdp import fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group(
        "fake", rank=0, world_size=8, store=FakeStore()
    )  # shapes are real, nothing is sent
    try:
        layer = torch.nn.Linear(64, 64, bias=False)
        fully_shard(
            layer, mesh=dist.device_mesh.init_device_mesh("cpu", mesh, mesh_dim_names=names)
        )
        assert layer.weight.to_local().numel() == 64 * 64 // share
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("version, setting", [(2, "FULL_SHARD"), (1, True)])
def test_accelerate_refuses_the_setting_of_the_other_version(version, setting, says):
    accelerate = pytest.importorskip("accelerate")
    with pytest.raises(ValueError) as error:
        accelerate.FullyShardedDataParallelPlugin(
            fsdp_version=version, reshard_after_forward=setting
        )
    says("D13", str(error.value))
