"""D32: a sharded and an ordinary parameter in one clipping call or one optimizer group, in one process."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm


@pytest.fixture
def meshes(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        both = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        yield both["dp"], both["tp"]
    finally:
        dist.destroy_process_group()


def sharded(mesh, gradient=1.0):
    parameter = nn.Parameter(distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)]))
    parameter.grad = distribute_tensor(torch.full((4, 4), gradient), mesh, [Shard(0)])
    return parameter


def plain(gradient=1.0):
    parameter = nn.Parameter(torch.ones(4))
    parameter.grad = torch.full((4,), gradient)
    return parameter


def clip_by_groups(parameters, limit):
    """As the entry has it."""
    groups = {}
    for p in (p for p in parameters if p.grad is not None):
        groups.setdefault(getattr(p.grad, "device_mesh", None), []).append(p)
    norms = [get_total_norm([p.grad for p in g]) for g in groups.values()]
    total = torch.stack(
        [(n.full_tensor() if hasattr(n, "full_tensor") else n).cpu() for n in norms]
    ).norm()
    for g in groups.values():
        clip_grads_with_norm_(g, limit, total)
    return total


def test_clipping_stops_at_the_mixture(meshes, says):
    with pytest.raises(RuntimeError) as error:
        clip_grad_norm_([sharded(meshes[0]), plain()], 1.0)
    says("D32", str(error.value))


def test_foreach_false_does_not_help_clipping(meshes, says):
    with pytest.raises(RuntimeError) as error:
        clip_grad_norm_([sharded(meshes[0]), plain()], 1.0, foreach=False)
    says("D32", str(error.value))


def test_clipping_stops_at_two_meshes(meshes, says):
    with pytest.raises((RuntimeError, ValueError)) as error:
        clip_grad_norm_([sharded(meshes[0]), sharded(meshes[1])], 1.0)
    says("D32", str(error.value))


def test_clipping_by_groups_gives_the_norm_of_all_and_scales_all(meshes):
    parameters = [sharded(meshes[0], 2.0), sharded(meshes[1], 2.0), plain(2.0)]
    total = clip_by_groups(parameters, 1.0)
    assert total.item() == pytest.approx(2.0 * (16 + 16 + 4) ** 0.5)
    assert clip_by_groups(parameters, 1.0).item() == pytest.approx(1.0, abs=1e-4)


def test_one_optimizer_group_stops_at_the_mixture(meshes, says):
    optimizer = torch.optim.AdamW([sharded(meshes[0]), plain()], foreach=True)
    with pytest.raises(RuntimeError) as error:
        optimizer.step()
    says("D32", str(error.value))


@pytest.mark.parametrize("how", ["a group each", "foreach=False"])
def test_the_optimizer_steps(meshes, how):
    one, two = sharded(meshes[0]), plain()
    groups = [{"params": [one]}, {"params": [two]}] if how == "a group each" else [one, two]
    torch.optim.AdamW(groups, lr=0.1, foreach=how == "a group each").step()
    assert (one.full_tensor() < 1).all() and (two < 1).all()


@pytest.mark.parametrize("foreach", [True, False])
def test_a_resumed_optimizer_with_plain_state_stops(meshes, says, foreach):
    parameter = sharded(meshes[0])
    optimizer = torch.optim.AdamW([parameter], foreach=foreach)
    state = optimizer.state_dict()
    state["state"] = {
        0: {
            "step": torch.tensor(1.0),
            "exp_avg": torch.zeros(4, 4),
            "exp_avg_sq": torch.zeros(4, 4),
        }
    }
    optimizer.load_state_dict(state)
    assert type(optimizer.state[parameter]["exp_avg"]) is torch.Tensor
    with pytest.raises(RuntimeError) as error:
        optimizer.step()
    says("D32", str(error.value))


def test_the_check_shows_more_than_one_pair(meshes, printed):
    def check(*parameters):
        return printed("D32", optimizer=torch.optim.AdamW(parameters))

    mixed = check(sharded(meshes[0]), plain())
    assert "('Tensor', None)" in mixed and mixed.count("('DTensor', DeviceMesh(") == 1
    assert check(sharded(meshes[0]), sharded(meshes[1])).count("('DTensor', DeviceMesh(") == 2
    one = check(sharded(meshes[0]), sharded(meshes[0]))
    assert "None" not in one and one.count("('DTensor', DeviceMesh(") == 1
