"""D35: a group without a CPU backend refuses a tensor in host memory; with one beside the GPU's it takes it. Gloo stands for NCCL, which needs a card."""

import pytest
import torch
import torch.distributed as dist
from check_code import shown, span
from torch import nn
from torch.distributed import checkpoint
from torch.nn.parallel import DistributedDataParallel


@pytest.fixture
def group(tmp_path):
    def make(backend):
        dist.init_process_group(
            backend, init_method=f"file://{tmp_path}/store", rank=0, world_size=1
        )

    yield make
    dist.destroy_process_group()


def test_a_group_for_the_card_alone(group, says):
    group("cuda:gloo")
    with pytest.raises(RuntimeError) as stop:
        dist.all_reduce(torch.ones(1))
    says("D35", str(stop.value))
    assert str(dist.get_backend_config()) == "cuda:gloo"


def test_a_checkpoint_that_is_saved_beside_the_training(group, says, tmp_path):
    group("cuda:gloo")
    with pytest.raises(AssertionError) as stop:
        checkpoint.async_save({"step": torch.ones(1)}, checkpoint_id=str(tmp_path / "checkpoint"))
    says("D35", str(stop.value))


def test_a_backend_for_each_device(group):
    group("cpu:gloo,cuda:gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    assert value.item() == 1


def test_ddp_around_a_model_that_was_not_moved(group, says):
    group("gloo")
    with pytest.raises(ValueError, match="module parameters") as stop:
        DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])
    says("D35", str(stop.value))


def test_ddp_around_a_model_that_lies_on_two_devices(group, says):
    group("gloo")
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, device="meta"))
    with pytest.raises(ValueError, match="same type of devices") as stop:
        DistributedDataParallel(model)
    says("D35", str(stop.value))


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Tensors must be CUDA and dense",
        "RuntimeError: Only CUDA dense tensor is supported for NCCL collective operations",
    ],
)
def test_texts_of_older_torch(text, says):
    says("D35", text)


def test_a_model_over_two_cards_is_not_this(says):
    text = (
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with single-device/"
        "multiple-device GPU modules or CPU modules, but got device_ids [0], output_device 0, and module parameters "
        "{device(type='cuda', index=0), device(type='cuda', index=1)}."
    )
    says("D36", text)
    with pytest.raises(AssertionError, match="none of the signatures"):
        says("D35", text)


@pytest.mark.parametrize("backend, takes", [("cuda:gloo", False), ("cpu:gloo,cuda:gloo", True)])
def test_the_line_of_the_check_shows_a_group_without_a_backend_for_the_tensor(
    group, backend, takes
):
    group(backend)
    t = torch.ones(1)
    device, sparse, pairs = shown(span("D35", "is_sparse"), t=t, dist=dist).split()
    assert (device, sparse, pairs) == ("cpu", "False", backend)
    if takes:
        dist.all_reduce(t)
    else:
        with pytest.raises(RuntimeError):
            dist.all_reduce(t)


def test_the_line_of_the_check_lists_the_devices_of_a_model():
    line = span("D35", "model.buffers()")
    split = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2, device="meta"))
    assert eval(shown(line, model=split)) == {"cpu", "meta"}
    assert eval(shown(line, model=split[0])) == {"cpu"}
