"""DP8: a batch of one sample in front of batch norm."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader


def train(**options):
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for x in DataLoader(torch.randn(33, 3), batch_size=8, **options):
        net(x).sum().backward()


def test_33_samples_in_batches_of_8_stop_at_the_last_batch_with_the_signature(says):
    assert 33 % 8 == 1
    with pytest.raises(ValueError) as error:
        train()
    says("DP8", str(error.value))


def test_drop_last_ends_the_epoch():
    train(drop_last=True)


def test_one_sample_with_positions_passes_and_without_fails(says):
    nn.BatchNorm2d(4)(torch.randn(1, 4, 7, 7))
    with pytest.raises(ValueError) as error:
        nn.BatchNorm2d(4)(torch.randn(1, 4, 1, 1))
    says("DP8", str(error.value))


def test_evaluation_mode_takes_a_single_sample_unless_it_tracks_no_statistics():
    nn.BatchNorm1d(4).eval()(torch.randn(1, 4))
    with pytest.raises(ValueError):
        nn.BatchNorm1d(4, track_running_stats=False).eval()(torch.randn(1, 4))


@pytest.mark.parametrize(
    "layer, x",
    [
        (nn.GroupNorm(4, 4), torch.randn(1, 4, 1, 1)),
        (nn.InstanceNorm2d(4), torch.randn(2, 4, 1, 1)),
    ],
)
def test_group_and_instance_norm_on_single_values_fail_alike(says, layer, x):
    with pytest.raises(ValueError) as error:
        layer(x)
    says("DP8", str(error.value))


def test_layer_norm_and_fewer_groups_are_a_way_out():
    nn.LayerNorm(4)(torch.randn(1, 4))
    nn.GroupNorm(2, 4)(torch.randn(1, 4))


def test_data_parallel_cuts_five_samples_for_four_gpus_into_2_2_and_1_as_the_check_says(value_of):
    pieces = value_of("DP8", "[len(part)", torch=torch, n=5, gpus=4)
    assert pieces == [2, 2, 1] == [len(piece) for piece in torch.randn(5, 3).chunk(4)]
    assert 1 not in value_of("DP8", "[len(part)", torch=torch, n=6, gpus=4)


@pytest.mark.parametrize(
    "samples, drop_last, line",
    [(33, False, "1 False"), (33, True, "1 True"), (32, False, "0 False")],
)
def test_the_check_names_the_rest_and_whether_it_is_dropped(printed, samples, drop_last, line):
    data = torch.randn(samples, 3)
    loader = DataLoader(data, batch_size=8, drop_last=drop_last)
    assert printed("DP8", dataset=data, batch_size=8, loader=loader) == line
