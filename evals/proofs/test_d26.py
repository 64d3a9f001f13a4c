"""D26: which axis of the mesh crosses machines, and how much tensor parallelism sends. One process plays rank 0 of 16 (fake backend)."""

import os

import pytest
import torch
import torch.distributed as dist
from check_code import shown, span
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

GPUS = 8
BLOCK = {
    **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}


@pytest.fixture(autouse=True)
def two_machines_of_eight(monkeypatch):
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(GPUS))
    dist.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=2 * GPUS)
    yield
    dist.destroy_process_group()


def machines(mesh) -> set[int]:
    """The machines of this rank's tensor-parallel group, by the line of the entry's Check."""
    return eval(shown(span("D26", "LOCAL_WORLD_SIZE"), os=os, dist=dist, mesh=mesh))


def test_the_last_axis_stays_inside_a_machine():
    assert machines(init_device_mesh("cpu", (2, 8), mesh_dim_names=("dp", "tp"))) == {0}


def test_the_first_axis_crosses_although_its_size_would_fit():
    assert machines(init_device_mesh("cpu", (8, 2), mesh_dim_names=("tp", "dp"))) == {0, 1}


def test_more_than_one_machine_s_cards_cross():
    assert machines(init_device_mesh("cpu", (16,), mesh_dim_names=("tp",))) == {0, 1}


def test_accelerate_puts_tensor_parallelism_last():
    ParallelismConfig = pytest.importorskip("accelerate.parallelism_config").ParallelismConfig
    names, sizes = ParallelismConfig(tp_size=8, dp_shard_size=2)._get_mesh()
    assert (names[-1], sizes[-1]) == ("tp", 8)


def counted(run) -> int:
    with CommDebugMode() as comm:
        run()
    return comm.get_total_counts()


@pytest.mark.parametrize("layers", [2, 4])
def test_every_layer_waits_for_two_all_reduces_forward_and_five_backward(layers):
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
    )
    model = transformers.LlamaForCausalLM(config)
    mesh = init_device_mesh("cpu", (2, 8), mesh_dim_names=("dp", "tp"))
    for block in model.model.layers:
        parallelize_module(block, mesh["tp"], BLOCK)
    ids = torch.zeros(1, 16, dtype=torch.long)
    result = []
    assert counted(lambda: result.append(model(input_ids=ids, labels=ids).loss)) == 2 * layers
    assert counted(lambda: result[0].backward()) == 5 * layers
