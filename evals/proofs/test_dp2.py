"""DP2: a stream that nobody splits."""

import re
import warnings
from collections import Counter

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info

pytestmark = pytest.mark.skipif(
    "fork" not in torch.multiprocessing.get_all_start_methods(), reason="needs fork"
)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(8))


class SizedStream(Stream):
    def __len__(self):
        return 8


class SplitStream(Stream):
    def __init__(self, rank=0, world=1):
        self.rank, self.world = rank, world

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(self.rank * workers + worker, 8, self.world * workers))


def epoch(dataset, workers, batch_size=2):
    options = dict(multiprocessing_context="fork") if workers else {}
    loader = DataLoader(dataset, batch_size=batch_size, num_workers=workers, **options)
    return [sample for batch in loader for sample in batch.tolist()]


def test_two_workers_deliver_every_sample_twice():
    assert set(Counter(epoch(Stream(), workers=0)).values()) == {1}
    assert set(Counter(epoch(Stream(), workers=2)).values()) == {2}


def test_the_warning_about_the_length_is_a_signature(says):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = DataLoader(SizedStream(), num_workers=2, multiprocessing_context="fork")
        len(loader)
        list(loader)
    says("DP2", "\n".join(str(warning.message) for warning in caught))


def test_a_distributed_sampler_cannot_take_a_stream():
    with pytest.raises(TypeError):
        DistributedSampler(Stream(), num_replicas=2, rank=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_numbering_all_readers_delivers_every_sample_once_over_two_ranks(workers):
    ranks = [epoch(SplitStream(rank, world=2), workers) for rank in range(2)]
    assert sorted(ranks[0] + ranks[1]) == list(range(8)) and not set(ranks[0]) & set(ranks[1])


def test_a_rank_that_is_0_on_every_gpu_reads_one_half_twice_and_never_the_other():
    ranks = [epoch(SplitStream(rank=0, world=2), workers=2) for _ in range(2)]
    assert sorted(ranks[0]) == sorted(ranks[1]) and len(set(ranks[0] + ranks[1])) == 4


def test_the_check_counts_the_workers_that_read_a_sample(printed):
    def most(dataset) -> str:
        tagged = lambda batch: {"id": torch.tensor(batch)}
        loader = DataLoader(
            dataset, 2, num_workers=2, multiprocessing_context="fork", collate_fn=tagged
        )
        return printed("DP2", loader=loader)

    assert most(Stream()) == "8 [(0, 2), (1, 2), (2, 2)]"
    assert re.fullmatch(r"8 \[\(\d, 1\), \(\d, 1\), \(\d, 1\)\]", most(SplitStream()))
    twice = SplitStream(rank=0, world=2)
    assert re.fullmatch(r"4 \[\(\d, 1\), \(\d, 1\), \(\d, 1\)\]", most(twice))


def test_accelerate_fills_the_last_round_with_ids_of_the_first():
    shard = pytest.importorskip("accelerate.data_loader").IterableDatasetShard
    first, second = (
        list(shard([*range(10)], batch_size=2, num_processes=2, process_index=rank))
        for rank in (0, 1)
    )
    assert set(first) & set(second) == {0, 1} and set(first + second) == set(range(10))
