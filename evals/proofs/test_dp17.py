"""DP17: whole shards go to ranks and workers, so who comes too late gets none."""

import logging
import multiprocessing

import pytest
import torch
from launch import run_ranks
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="needs fork"
)

VALIDATION = """
    import datetime, sys, torch, torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank, world = dist.get_rank(), dist.get_world_size()

    def validate(shards):
        mine = [row for shard in shards[rank::world] for row in shard]
        for row in mine:
            dist.all_reduce(torch.tensor(float(row)))
        return len(mine)

    print("two shards", validate([[0, 1], [2, 3]]))
    dist.barrier()
    print("one shard", validate([[0, 1, 2, 3]]))
    dist.barrier()
    dist.destroy_process_group()
"""


class Shards(IterableDataset):
    """Gives (worker, row), and hands whole shards to the workers as the libraries do."""

    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        info = get_worker_info()
        for shard in self.shards[info.id :: info.num_workers]:
            for row in shard:
                yield torch.tensor([info.id, row])


def readers(shards, workers):
    loader = DataLoader(Shards(shards), num_workers=workers, multiprocessing_context="fork")
    seen = [tuple(batch[0].tolist()) for batch in loader]
    assert sorted(row for _, row in seen) == sorted(row for shard in shards for row in shard), (
        "each row once"
    )
    return {worker for worker, _ in seen}


@fork
def test_workers_beyond_the_number_of_shards_deliver_nothing():
    rows = list(range(6))
    assert readers([rows], workers=3) == {0}
    assert readers([rows[:3], rows[3:]], workers=3) == {0, 1}
    assert readers([rows[:2], rows[2:4], rows[4:]], workers=3) == {0, 1, 2}


def test_a_rank_without_a_shard_leaves_the_others_waiting():
    first, second = run_ranks(VALIDATION, timeout=60).ranks
    assert all("two shards 2" in rank.splitlines() for rank in (first, second))
    assert "one shard 0" in second.splitlines() and "one shard 4" not in first.splitlines()
    assert "Timed out waiting" in first or "Connection closed by peer" in first


def rows(shards):
    for shard in shards:
        yield from ({"row": shard * 2 + i} for i in range(2))


@fork
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("shards, ranks, workers", [(3, 1, 4), (2, 2, 2), (4, 2, 2), (4, 1, 4)])
def test_the_number_in_the_check_is_below_ranks_times_workers_where_datasets_stops_workers(
    printed, says, capfd, shards, ranks, workers
):
    datasets = pytest.importorskip("datasets")
    node = pytest.importorskip("datasets.distributed")
    stream = datasets.IterableDataset.from_generator(rows, gen_kwargs={"shards": [*range(shards)]})
    short = int(printed("DP17", ds=stream)) < ranks * workers
    mine = node.split_dataset_by_node(stream, 0, ranks)
    loader = DataLoader(mine, batch_size=None, num_workers=workers, multiprocessing_context="fork")
    # An earlier test may have left the library silent, or its handler with another stream.
    datasets.logging.set_verbosity_warning()
    logger, here = datasets.logging.get_logger("datasets"), logging.StreamHandler()
    logger.addHandler(here)
    try:
        assert len(list(loader)) == 2 * shards / ranks
    finally:
        logger.removeHandler(here)
    warned = capfd.readouterr().err
    assert short == ("dataloader workers" in warned)
    if short:
        says("DP17", warned)


@pytest.mark.parametrize(
    "text",
    [
        "Too many dataloader workers: 4 (max is dataset.num_shards=3). Stopping 1 dataloader workers.",
        "Too many dataloader workers: 2 (max is dataset.n_shards=1). Stopping dataloader workers [1...1].",
        "ValueError: No samples found in dataset; perhaps you have fewer shards than workers.",
        "UserWarning: num_workers 4 > num_shards 1",
        "UserWarning: world_size 4 > num_shards 0",
        "AssertionError: number of shards must be >= total workers",
    ],
)
def test_what_the_libraries_say(text, says):
    says("DP17", text)


ON_RANK_0 = """
    import datetime, time, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()
    model = DDP(torch.nn.BatchNorm1d(2))
    model(torch.randn(4, 2)).sum().backward()
    model.eval()
    if rank == 0:
        model.module(torch.randn(4, 2))
        print("inner model done")
    dist.barrier()
    if rank == 0:
        model(torch.randn(4, 2))
        print("wrapper done")
    else:
        time.sleep(6)
"""


def test_validation_on_rank_0_alone_hangs_in_the_wrapper_and_not_in_the_inner_model():
    first, _ = run_ranks(ON_RANK_0, timeout=60).ranks
    assert "inner model done" in first.splitlines() and "wrapper done" not in first
