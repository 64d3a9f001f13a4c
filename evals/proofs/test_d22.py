"""D22: the sampler's epoch, and loaders of different length."""

import re
from types import SimpleNamespace

import pytest
import torch
from launch import run_ranks
from torch.utils.data import DataLoader, DistributedSampler

RANKS = 2


def epochs(dataset, set_epoch, **options):
    """What each of three epochs feeds: the sample numbers of rank 0, then of rank 1."""
    samplers = [DistributedSampler(dataset, RANKS, rank, **options) for rank in range(RANKS)]
    loaders = [DataLoader(dataset, batch_size=4, sampler=sampler) for sampler in samplers]
    fed = []
    for epoch in range(3):
        for sampler in samplers:
            if set_epoch:
                sampler.set_epoch(epoch)
        fed.append([sample for loader in loaders for batch in loader for sample in batch.tolist()])
    return fed


def test_without_set_epoch_every_epoch_feeds_the_same_order():
    first, second, third = epochs(torch.arange(32), set_epoch=False)
    assert first == second == third


def test_set_epoch_shuffles_anew_and_still_covers_the_data_once():
    first, second, third = epochs(torch.arange(32), set_epoch=True)
    assert first != second != third != first
    assert sorted(first) == sorted(second) == list(range(32))


def test_the_sampler_fills_up_with_repeated_samples_so_that_lengths_agree():
    [first, *_] = epochs(torch.arange(33), set_epoch=True)
    assert len(first) == 34 and len(set(first)) == 33


def test_drop_last_leaves_a_sample_out_instead():
    [first, *_] = epochs(torch.arange(33), set_epoch=True, drop_last=True)
    assert len(first) == len(set(first)) == 32


def test_without_a_distributed_sampler_a_rank_has_all_batches_not_its_share():
    data = torch.arange(32)
    assert len(DataLoader(data, 4)) == 8
    assert len(DataLoader(data, 4, sampler=DistributedSampler(data, RANKS, 0))) == 4


TWO_LOADERS = """
    import datetime, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    samples = torch.arange(40)
    kept = samples[samples % 8 != 1]
    mine = samples[rank::2]
    for label, loader in (("filter, then split", DataLoader(kept, batch_size=4, sampler=DistributedSampler(kept))),
                          ("split, then filter", DataLoader(mine[mine % 8 != 1], batch_size=4))):
        lengths = [None, None]
        dist.all_gather_object(lengths, len(loader))
        print(label, lengths, flush=True)
        group = dist.new_group(timeout=datetime.timedelta(seconds=3))
        for batch in loader:
            dist.all_reduce(torch.ones(4), group=group)
        print(label, "epoch over", flush=True)
"""


@pytest.fixture(scope="module")
def two_loaders():
    return run_ranks(TWO_LOADERS, timeout=60).ranks


def test_a_filter_before_the_split_keeps_the_lengths_equal(two_loaders):
    for output in two_loaders:
        assert "filter, then split [5, 5]" in output and "filter, then split epoch over" in output


def test_a_filter_behind_the_split_gives_other_lengths_and_the_longer_rank_waits(two_loaders):
    longer, shorter = two_loaders
    assert "split, then filter [5, 4]" in longer and "split, then filter [5, 4]" in shorter
    assert (
        "split, then filter epoch over" in shorter and "split, then filter epoch over" not in longer
    )


@pytest.mark.parametrize("told", [False, True])
def test_the_check_shows_whether_the_epoch_reaches_the_sampler(printed, told):
    data = torch.arange(32)

    def line(rank, epoch):
        sampler = DistributedSampler(data, RANKS, rank)
        if told:
            sampler.set_epoch(epoch)
        loader = DataLoader(data, batch_size=4, sampler=sampler)
        dist = SimpleNamespace(get_rank=lambda: rank)
        shown = printed("D22", dist=dist, epoch=epoch, sampler=sampler, loader=loader)
        return re.fullmatch(rf"{rank} {epoch} 4 (\[.*\])", shown)[1]

    assert (line(0, 0) != line(0, 1)) == told
    assert line(0, 0) != line(1, 0)


def test_accelerate_splits_a_distributed_sampler_once_more():
    prepare = pytest.importorskip("accelerate.data_loader").prepare_data_loader
    data = torch.arange(16)

    def read(rank, **options):
        torch.manual_seed(0)
        loader = DataLoader(data, batch_size=4, **options)
        split = prepare(loader, num_processes=RANKS, process_index=rank, rng_types=[])
        return {sample for batch in split for sample in batch.tolist()}

    ranks = range(RANKS)
    assert len(set.union(*(read(rank, shuffle=True) for rank in ranks))) == 16
    assert (
        len(
            set.union(
                *(read(rank, sampler=DistributedSampler(data, RANKS, rank)) for rank in ranks)
            )
        )
        <= 8
    )
