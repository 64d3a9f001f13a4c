"""D10: BatchNorm in DDP."""

import pytest
import torch
from check_code import shown, span
from launch import run_ranks

TWO_KINDS_OF_DATA = """
    import torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP({model})
    for _ in range(200):
        model(torch.tensor([[-1.0], [1.0]]) + 10 * rank)   # rank 0 sees a mean of 0, rank 1 of 10
    norm = model.module
    {after}
    dist.barrier()
    dist.destroy_process_group()
"""
ONE_BATCH = torch.tensor([[-1.0], [1.0], [9.0], [11.0]])  # the same four rows on one GPU
NORM = "torch.nn.BatchNorm1d(1)"


def outputs(model, after):
    return [
        float(rank.split()[0])
        for rank in run_ranks(TWO_KINDS_OF_DATA.format(model=model, after=after)).ranks
    ]


def test_each_rank_normalises_with_its_own_rows_only():
    after = "print(norm(torch.tensor([[-1.0], [1.0]]) + 10 * rank)[0].item())"
    assert outputs(NORM, after) == pytest.approx([-1, -1], abs=0.01)
    assert torch.nn.BatchNorm1d(1)(ONE_BATCH)[:, 0].tolist() == pytest.approx(
        [-1.18, -0.78, 0.78, 1.18], abs=0.01
    )


def test_the_running_mean_that_evaluation_uses_comes_from_rank_0_alone():
    after = "model.eval(); model(torch.zeros(2, 1)); print(norm.running_mean.item())"
    assert outputs(NORM, after) == pytest.approx([0, 0], abs=0.01)
    one_gpu = torch.nn.BatchNorm1d(1)
    for _ in range(200):
        one_gpu(ONE_BATCH)
    assert one_gpu.running_mean.item() == pytest.approx(5, abs=0.01)


def test_a_norm_without_batch_statistics_does_not_care_how_rows_are_spread():
    row = torch.tensor([[[1.0, 3.0, 2.0, 6.0]]])
    alone = torch.nn.GroupNorm(1, 1)(row)[0, 0, 0].item()
    after = f"print(norm(torch.tensor({row.tolist()}))[0, 0, 0].item())"
    assert outputs("torch.nn.GroupNorm(1, 1)", after) == pytest.approx([alone, alone])


def test_converting_turns_every_batch_norm_into_the_synchronised_one():
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
        torch.nn.Sequential(torch.nn.BatchNorm2d(3))
    )
    assert isinstance(model[0], torch.nn.SyncBatchNorm)


def test_converting_drops_the_activation_of_a_class_derived_from_batch_norm():
    """As timm's `BatchNormAct2d`: the layer is still printed, and nothing calls it."""

    class Derived(torch.nn.BatchNorm2d):
        def __init__(self, features):
            super().__init__(features)
            self.act = torch.nn.ReLU()

        def forward(self, x):
            return self.act(super().forward(x))

    x = torch.randn(4, 3, 2, 2)
    model = Derived(3).eval()
    assert model(x).min() >= 0
    converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert hasattr(converted, "act") and converted(x).min() < 0


def test_the_line_of_the_check_names_the_kind_of_normalisation():
    def kinds(model):
        return eval(shown(span("D10", "_BatchNorm"), torch=torch, model=model))

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3))
    assert kinds(model) == {"BatchNorm2d"}
    assert kinds(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)) == {"SyncBatchNorm"}
    assert shown(span("D10", "_BatchNorm"), torch=torch, model=torch.nn.GroupNorm(1, 3)) == str(
        set()
    )


def test_the_synchronised_norm_is_refused_on_a_cpu(says):
    model = "torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(1))"
    says("D10", run_ranks(TWO_KINDS_OF_DATA.format(model=model, after="")).output)
