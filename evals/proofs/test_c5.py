"""C5: gathering a sharded model to save it. Two processes, FSDP2 on the CPU."""

import pytest
from check_code import span
from launch import run_ranks

SCRIPT = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    for layer in model:
        fully_shard(layer, mesh=init_device_mesh("cpu", (2,)))
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))

    def held(**options) -> int:
        weights = get_model_state_dict(model, options=StateDictOptions(**options))
        CHECK
        return sum(v.to_local().numel() if hasattr(v, "to_local") else v.numel() for v in weights.values())

    print("full", held(full_state_dict=True))
    print("offloaded", held(full_state_dict=True, cpu_offload=True))
    print("sharded", held())
    dist.barrier()
    dist.destroy_process_group()
"""
WHOLE = 2 * (64 * 64 + 64)


@pytest.fixture(scope="module")
def outputs():
    script = SCRIPT.replace("CHECK", span("C5", "weights.values()"))
    return run_ranks(script, timeout=90).ranks


@pytest.fixture(scope="module")
def ranks(outputs):
    return [
        dict(
            line.split()
            for line in out.splitlines()
            if line.split()[:1] in (["full"], ["offloaded"], ["sharded"])
        )
        for out in outputs
    ]


def test_a_full_state_dict_puts_the_whole_model_on_every_rank(ranks):
    assert [int(rank["full"]) for rank in ranks] == [WHOLE, WHOLE]


def test_with_cpu_offload_only_rank_0_holds_it_and_the_others_get_nothing(ranks):
    assert [int(rank["offloaded"]) for rank in ranks] == [WHOLE, 0]


def test_without_options_each_rank_keeps_its_own_half(ranks):
    assert [int(rank["sharded"]) for rank in ranks] == [WHOLE // 2, WHOLE // 2]


def test_the_check_shows_whole_tensors_on_every_rank_only_where_all_of_them_gather(outputs):
    shown = [
        [line for line in out.splitlines() if line.startswith(("{(", "set("))] for out in outputs
    ]
    whole, part = "{('Tensor', 'cpu')}", "{('DTensor', 'cpu')}"
    assert shown == [[whole, whole, part], [whole, "set()", part]]
