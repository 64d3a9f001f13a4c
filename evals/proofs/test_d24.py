"""D24: a mesh with several axes, or its wrong axis, is given to `parallelize_module`. One process plays rank 5 of 8 (fake backend)."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from check_code import shown, span
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}


@pytest.fixture
def mesh():
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist.init_process_group("fake", store=fake.FakeStore(), rank=5, world_size=8)
    yield init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    dist.destroy_process_group()


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(16, 32, bias=False)
        self.down = torch.nn.Linear(32, 16, bias=False)

    def forward(self, x):
        return self.down(self.up(x))


def test_the_whole_mesh_is_refused(mesh, says):
    with pytest.raises(ValueError) as error:
        parallelize_module(MLP(), mesh, PLAN)
    says("D24", str(error.value))


def test_a_group_of_a_mesh_with_two_axes_needs_the_name_of_one(mesh, says):
    with pytest.raises(RuntimeError) as error:
        mesh.get_group()
    says("D24", str(error.value))
    assert mesh.get_group("tp").size() == 4


def test_a_mesh_without_names_has_no_slices(mesh):
    with pytest.raises(RuntimeError, match="Cannot slice a DeviceMesh without mesh_dim_names!"):
        init_device_mesh("cpu", (2, 4))["tp"]


def test_one_axis_by_its_name_splits_by_its_size(mesh):
    model = parallelize_module(MLP(), mesh["tp"], PLAN)
    assert model.up.weight.to_local().shape == (32 // 4, 16)
    assert model.down.weight.to_local().shape == (16, 32 // 4)
    assert model(torch.zeros(2, 16)).shape == (2, 16)


def test_the_wrong_axis_is_taken_without_a_word_and_shows_in_the_shape(mesh):
    model = parallelize_module(MLP(), mesh["dp"], PLAN)
    assert model.up.weight.to_local().shape == (32 // 2, 16)
    assert dist.get_process_group_ranks(mesh.get_group("dp")) == [
        1,
        5,
    ]  # these two get different batches


def test_a_key_that_names_no_module_only_warns(mesh):
    with pytest.warns(UserWarning, match="could not be resolved"):
        model = parallelize_module(MLP(), mesh["tp"], {"layers.*.up": ColwiseParallel()})
    assert type(model.up.weight) is torch.nn.Parameter


def test_sharding_takes_the_other_axis_and_comes_second(mesh, says):
    with pytest.raises(RuntimeError) as error:
        fully_shard(parallelize_module(MLP(), mesh["tp"], PLAN), mesh=mesh)
    says("D24", str(error.value))
    with pytest.raises(ValueError) as error:
        parallelize_module(fully_shard(MLP(), mesh=mesh["dp"]), mesh["tp"], PLAN)
    says("D24", str(error.value))
    model = fully_shard(parallelize_module(MLP(), mesh["tp"], PLAN), mesh=mesh["dp"])
    assert model.up.weight.to_local().shape == (32 // 4 // 2, 16)


@pytest.mark.parametrize(
    "axis, plan, shape",
    [("tp", PLAN, "(8, 16)"), ("dp", PLAN, "(16, 16)"), ("tp", {"layers.*.up": None}, None)],
    ids=["right axis", "wrong axis", "no such module"],
)
@pytest.mark.filterwarnings("ignore:.*could not be resolved")
def test_the_lines_of_the_check_tell_one_axis_from_two_and_a_split_weight_from_a_whole_one(
    mesh, axis, plan, shape
):
    before, after = span("D24", "print(mesh)"), span("D24", "w.to_local()")
    assert "dp=2, tp=4" in shown(before, mesh=mesh)
    assert f"({axis}={mesh[axis].size()})" in shown(before, mesh=mesh[axis])

    mlp = torch.nn.Module()
    mlp.up_proj, mlp.down_proj = (layer := MLP()).up, layer.down
    model = SimpleNamespace(layers=[SimpleNamespace(mlp=mlp)])
    parallelize_module(mlp, mesh[axis], {f"{name}_proj": how for name, how in plan.items()})
    if shape:
        assert shown(after, model=model).startswith(
            f"torch.Size([{shape[1:-1]}]) DeviceMesh(({axis}="
        )
    else:
        with pytest.raises(AttributeError, match="no attribute 'to_local'"):
            shown(after, model=model)
