"""DP14: samplers, shuffling and the epoch."""

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
)

DATA = range(16)


class Stream(IterableDataset):
    """Shuffled by its own epoch; `epoch` may be a number or a shared tensor."""

    def __init__(self, epoch=0):
        self.epoch = epoch

    def set_epoch(self, epoch):
        if isinstance(self.epoch, torch.Tensor):
            self.epoch.fill_(epoch)
        else:
            self.epoch = epoch

    def __iter__(self):
        return iter(
            torch.randperm(16, generator=torch.Generator().manual_seed(int(self.epoch))).tolist()
        )


@pytest.mark.parametrize(
    "options",
    [
        dict(dataset=DATA, shuffle=True, sampler=RandomSampler(DATA)),
        dict(dataset=DATA, batch_size=2, batch_sampler=BatchSampler(RandomSampler(DATA), 2, False)),
        dict(dataset=Stream(), shuffle=True),
        dict(dataset=Stream(), sampler=[1]),
    ],
)
def test_two_sources_of_order_are_refused_with_the_signatures(says, options):
    with pytest.raises(ValueError) as error:
        DataLoader(**options)
    says("DP14", str(error.value))


def orders(loader, before=lambda epoch: None):
    found = []
    for epoch in range(3):
        before(epoch)
        found.append([int(x) for x in loader])
    return found


def distinct(found):
    return len({tuple(order) for order in found})


def test_without_set_epoch_a_distributed_sampler_repeats_one_order():
    sampler = DistributedSampler(DATA, num_replicas=2, rank=0)
    loader = DataLoader(DATA, sampler=sampler)
    assert distinct(orders(loader)) == 1
    assert distinct(orders(loader, before=sampler.set_epoch)) == 3


def told_at_each_epoch(printed, loader, before=lambda epoch: None):
    """The five samples that the line of the check prints at the top of three epochs."""
    found = []
    for epoch in range(3):
        before(epoch)
        number, ids = printed("DP14", epoch=epoch, loader=loader).split(maxsplit=1)
        assert number == str(epoch)
        found.append(ids)
    return found


def test_the_line_of_the_check_repeats_itself_where_the_order_does(printed):
    data = [{"id": i} for i in DATA]
    samplers = [DistributedSampler(data, num_replicas=2, rank=rank) for rank in (0, 1)]
    first, second = (DataLoader(data, batch_size=8, sampler=sampler) for sampler in samplers)
    assert len(set(told_at_each_epoch(printed, first))) == 1
    told = told_at_each_epoch(printed, first, samplers[0].set_epoch)
    assert len(set(told)) == 3
    others = told_at_each_epoch(printed, second, samplers[1].set_epoch)
    assert all(mine != other for mine, other in zip(told, others, strict=True))
    reseeded = DataLoader(data, batch_size=8, shuffle=True)
    assert len(set(told_at_each_epoch(printed, reseeded, lambda e: torch.manual_seed(0)))) == 1


def test_seeding_torch_in_every_epoch_repeats_one_order():
    loader = DataLoader(DATA, shuffle=True)
    assert distinct(orders(loader, before=lambda epoch: torch.manual_seed(0))) == 1
    assert distinct(orders(loader)) == 3


def test_shuffle_without_a_distributed_sampler_gives_each_rank_all_the_data():
    assert len(DataLoader(DATA, shuffle=True)) == 2 * len(
        DataLoader(DATA, sampler=DistributedSampler(DATA, 2, 0))
    )


@pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)
@pytest.mark.parametrize(
    "epoch, persistent, found",
    [
        (0, False, 3),
        (0, True, 1),
        (torch.zeros(1, dtype=torch.int64).share_memory_(), True, 3),
    ],
)
def test_persistent_workers_miss_a_new_epoch_unless_it_is_shared(epoch, persistent, found):
    stream = Stream(epoch)
    loader = DataLoader(
        stream,
        batch_size=None,
        num_workers=1,
        persistent_workers=persistent,
        multiprocessing_context="fork",
    )
    assert distinct(orders(loader, before=stream.set_epoch)) == found


def test_a_shuffled_stream_of_datasets_needs_set_epoch():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"id": list(range(64))}).to_iterable_dataset()
    stream = rows.shuffle(seed=0, buffer_size=64)

    def first(epoch=None):
        if epoch is not None:
            stream.set_epoch(epoch)
        return next(iter(DataLoader(stream, batch_size=8)))["id"].tolist()

    assert distinct(first() for _ in range(3)) == 1
    assert distinct(first(epoch) for epoch in range(3)) == 3
