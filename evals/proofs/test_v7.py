"""V7: batch norm with one or two images."""

import pytest
import torch
from torch import nn


def test_with_two_values_a_channel_the_output_is_plus_or_minus_one_whatever_they_were():
    norm = nn.BatchNorm2d(1)
    for low, high in ((0.0, 1.0), (-5.0, 300.0), (7.0, 7.5)):
        out = norm(torch.tensor([low, high]).view(2, 1, 1, 1)).flatten()
        assert out.tolist() == pytest.approx([-1, 1], abs=0.01)


def test_the_same_image_comes_out_differently_with_each_neighbour_and_less_so_in_a_large_batch():
    torch.manual_seed(0)
    image, pool = (
        torch.randn(1, 8, 4, 4),
        torch.randn(200, 8, 4, 4) * (1 + torch.rand(200, 1, 1, 1) * 3),
    )

    def spread(batch):
        norm = nn.BatchNorm2d(8)
        outs = [
            norm(torch.cat([image, pool[torch.randperm(200)[: batch - 1]]]))[0] for _ in range(40)
        ]
        return torch.stack(outs).std(0).mean().item()

    assert spread(2) > 2.5 * spread(32)


def statistics(batch, steps=400):
    """Running variance of noise with a variance of 1, and how far the running mean strays."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(1)
    means = []
    for step in range(steps):
        norm(torch.randn(batch, 1))
        if step > 50:
            means.append(norm.running_mean.item())
    return torch.tensor(means).std().item()


def test_running_means_stray_four_times_as_far_with_2_as_with_32():
    assert statistics(2) == pytest.approx(4 * statistics(32), rel=0.4)


def test_what_training_saw_and_what_evaluation_uses_are_far_apart():
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(1)
    batches = [torch.randn(2, 1) * 3 + 5 for _ in range(300)]
    for batch in batches:
        norm(batch)
    training = torch.cat([norm(batch) for batch in batches])
    norm.eval()
    evaluation = torch.cat([norm(batch) for batch in batches])
    assert training.abs().std() < 0.1  # always plus or minus one
    assert evaluation.abs().std() > 0.4


def test_a_norm_over_groups_does_not_look_at_the_neighbours():
    torch.manual_seed(0)
    image, norm = torch.randn(1, 8, 4, 4), nn.GroupNorm(2, 8)
    alone = norm(image)
    torch.testing.assert_close(norm(torch.cat([image, torch.randn(1, 8, 4, 4) * 50]))[:1], alone)


def test_frozen_statistics_do_not_either_and_stay_as_they_were():
    torch.manual_seed(0)
    image, norm = torch.randn(1, 8, 4, 4), nn.BatchNorm2d(8)
    norm.eval()
    before = norm.running_mean.clone()
    alone = norm(image)
    torch.testing.assert_close(norm(torch.cat([image, torch.randn(1, 8, 4, 4) * 50]))[:1], alone)
    assert torch.equal(norm.running_mean, before)


def test_accumulating_gradients_does_not_enlarge_the_batch_that_batch_norm_sees():
    torch.manual_seed(0)
    data = torch.randn(32, 1)
    small, large = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
    pieces = torch.cat([small(piece) for piece in data.split(2)])
    assert (pieces - large(data)).abs().max() > 0.5


def test_a_pass_in_training_mode_overwrites_the_averages_even_without_gradients():
    norm = nn.BatchNorm1d(1)
    with torch.no_grad():
        norm(torch.tensor([[4.0], [6.0]]))
    assert norm.running_mean.item() == pytest.approx(0.5)


def test_update_bn_averages_all_batches_while_plain_passes_keep_the_last_few():
    torch.manual_seed(0)
    plain, measured = [], []
    for _ in range(20):
        model, batches = nn.Sequential(nn.BatchNorm1d(1)), torch.randn(200, 2, 1)
        for batch in batches:
            model(batch)
        plain.append(model[0].running_mean.item())
        torch.optim.swa_utils.update_bn(batches, model)
        measured.append(model[0].running_mean.item())
    assert torch.tensor(plain).std() > 3 * torch.tensor(measured).std()


def test_the_check_names_live_statistics_and_none_that_are_frozen(printed):
    model, x = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), torch.zeros(2, 3, 4, 4)
    assert printed("V7", model=model, torch=torch, x=x) == "{'BatchNorm2d'} 2"
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert printed("V7", model=synced, torch=torch, x=x) == "{'SyncBatchNorm'} 2"
    model.eval()
    assert printed("V7", model=model, torch=torch, x=x) == "set() 2"
    groups = nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4))
    assert printed("V7", model=groups, torch=torch, x=x) == "set() 2"
