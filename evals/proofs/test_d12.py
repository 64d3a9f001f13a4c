"""D12: FSDP without a rule for wrapping. Counts the parameters that are whole, not sharded, at one time."""

import pytest
from check_code import span
from launch import run_ranks

FOUR_BLOCKS = """
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from torch.distributed.tensor import DTensor
    dist.init_process_group("gloo")
    cpu = torch.device("cpu")
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    blocks = torch.nn.Sequential(*(torch.nn.Linear(8, 8, bias=False) for _ in range(4)))
    {wrap}
    most = 0
    def count(*_):
        global most
        most = max(most, sum(p.numel() for p in blocks.parameters() if not isinstance(p, DTensor)))
    for block in blocks:
        block.register_forward_pre_hook(count)
    model(torch.ones(2, 8)).sum().backward()
    {check}
    print(most)
    dist.barrier()
    dist.destroy_process_group()
"""
CHECK = span("D12", "FullySharded")  # prints the number of units
ROOT_ONLY = "model = fully_shard(blocks, mesh=mesh)"
BLOCK_BY_BLOCK = "for block in blocks: fully_shard(block, mesh=mesh)\n    " + ROOT_ONLY


def units_and_most_whole(wrap):
    first, second = run_ranks(FOUR_BLOCKS.format(wrap=wrap, check=CHECK), timeout=90).ranks
    assert first.split()[:2] == second.split()[:2]
    return tuple(map(int, first.split()[:2]))


def test_wrapping_the_root_alone_gathers_the_whole_model():
    assert units_and_most_whole(ROOT_ONLY) == (1, 4 * 64)


def test_wrapping_block_by_block_gathers_one_block_at_a_time():
    assert units_and_most_whole(BLOCK_BY_BLOCK) == (5, 64)


@pytest.mark.parametrize("policy, units", [("None", 1), ("ModuleWrapPolicy({torch.nn.Linear})", 5)])
def test_fsdp1_makes_as_many_units_as_its_policy_finds(policy, units):
    wrap = f"model = FSDP(blocks, device_id=cpu, auto_wrap_policy={policy})"
    assert units_and_most_whole(wrap)[0] == units


def test_accelerate_refuses_a_layer_name_that_the_model_lacks(says):
    pytest.importorskip("accelerate")
    import torch
    from accelerate import FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["LlamaDecoderLayr"],
    )
    with pytest.raises(ValueError) as error:
        plugin.set_auto_wrap_policy(torch.nn.Linear(2, 2))
    says("D12", str(error.value))
