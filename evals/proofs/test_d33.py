"""D33: a device mesh whose sizes or names don't fit the processes. One process plays rank 3 of 4 (fake backend)."""

import traceback
from types import SimpleNamespace

import pytest
import torch.distributed as dist
from check_code import shown, span
from torch.distributed.device_mesh import init_device_mesh

RANK, WORLD = 3, 4


@pytest.fixture(autouse=True)
def four_processes():
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist.init_process_group("fake", store=fake.FakeStore(), rank=RANK, world_size=WORLD)
    yield
    dist.destroy_process_group()


def test_a_grid_for_more_processes_than_there_are(says):
    with pytest.raises(RuntimeError) as error:
        init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    says("D33", str(error.value))


def test_a_name_that_the_mesh_does_not_have(says):
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    with pytest.raises(KeyError) as error:
        mesh["dp_shard_cp"]
    says("D33", str(error.value))
    with pytest.raises(KeyError) as error:
        init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")).get_group("ep")
    says("D33", str(error.value))


def test_a_smaller_grid_is_made_and_leaves_this_rank_without_a_group(says):
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("replicate", "shard"))
    assert mesh.get_coordinate() is None
    with pytest.raises(IndexError) as error:
        mesh.get_group(mesh_dim=1)
    says("D33", "".join(traceback.format_exception(error.value)))


def test_one_grid_of_all_processes_with_both_names():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    assert mesh.size() == WORLD
    assert mesh["dp"].size() == mesh["tp"].size() == 2
    assert mesh.get_group("dp").size() == 2


def accelerator(processes: int, fsdp2: bool = True) -> SimpleNamespace:
    from accelerate.utils import DistributedType

    kind = DistributedType.FSDP if fsdp2 else DistributedType.MULTI_GPU
    return SimpleNamespace(
        multi_device=True, num_processes=processes, is_fsdp2=fsdp2, distributed_type=kind
    )


def test_accelerate_wants_the_product_to_be_the_number_of_processes(says):
    ParallelismConfig = pytest.importorskip("accelerate.parallelism_config").ParallelismConfig
    with pytest.raises(ValueError) as error:
        ParallelismConfig(dp_shard_size=4)._validate_accelerator(accelerator(8))
    says("D33", str(error.value))
    ParallelismConfig(dp_shard_size=4, tp_size=2)._validate_accelerator(accelerator(8))
    ParallelismConfig(dp_shard_size=4, dp_replicate_size=2)._validate_accelerator(accelerator(8))


def test_accelerate_leaves_fsdp_no_axis_when_tp_takes_all_processes(says):
    pytest.importorskip("accelerate", minversion="1.15")
    ParallelismConfig = pytest.importorskip("accelerate.parallelism_config").ParallelismConfig
    assert ParallelismConfig(tp_size=2).active_mesh_dims == ["tp"]
    with pytest.raises(ValueError) as error:
        ParallelismConfig(tp_size=2)._validate_accelerator(accelerator(2))
    says("D33", str(error.value))
    ParallelismConfig(tp_size=2)._validate_accelerator(accelerator(2, fsdp2=False))


def test_the_line_of_the_check_shows_the_product_of_the_sizes_and_the_names(says):
    def line(sizes, *names):
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
        return shown(span("D33", "mesh_dim_names"), dist=dist, mesh=mesh)

    assert line((1, 2), "replicate", "shard") == "4 (1, 2) ('replicate', 'shard')"
    assert line((2, 2), "dp", "tp") == "4 (2, 2) ('dp', 'tp')"
