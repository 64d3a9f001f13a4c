"""DP3: shares of a stream that differ in length."""

import pytest
from launch import run_ranks
from torch.utils.data import DataLoader, IterableDataset

TWO_EPOCHS = """
    import datetime, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, IterableDataset
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=3))
    rank = dist.get_rank()

    class Share(IterableDataset):
        def __iter__(self):
            return iter(torch.arange(11.0)[rank::2, None])

    torch.manual_seed(0)
    model = DDP(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(Share(), batch_size=1)
    print("batches", sum(1 for _ in loader))

    def train_step(batch):
        optimizer.zero_grad(); model(batch).sum().backward(); optimizer.step()

    batches, steps = iter(loader), 0
    while True:
        batch = next(batches, None)
        more = torch.tensor(int(batch is not None))
        dist.all_reduce(more, op=dist.ReduceOp.MIN)
        if not more:
            break
        train_step(batch); steps += 1
    print("stopped together after", steps, model.module.weight.item())

    for batch in loader:
        train_step(batch)
    print("plain epoch over")
    dist.barrier()
    dist.destroy_process_group()
"""


def test_stopping_together_ends_an_epoch_and_a_plain_loop_leaves_the_longer_rank_waiting():
    longer, shorter = run_ranks(TWO_EPOCHS, timeout=90).ranks
    assert "batches 6" in longer and "batches 5" in shorter
    [fixed] = [line for line in longer.splitlines() if "stopped together after 5" in line]
    assert fixed in shorter.splitlines(), "equal weights on both ranks"
    assert "plain epoch over" in shorter and "plain epoch over" not in longer
    assert "Timed out waiting" in longer or "Connection closed by peer" in longer


class Share(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(range(self.samples))


@pytest.mark.parametrize("drop_last, batches", [(False, [3, 3]), (True, [3, 2])])
def test_drop_last_is_no_cure_and_can_make_the_counts_differ(drop_last, batches):
    shares = [Share(6), Share(5)]
    assert [
        len(list(DataLoader(share, batch_size=2, drop_last=drop_last))) for share in shares
    ] == batches


@pytest.mark.parametrize("samples, counts", [(11, ["0 6", "1 5"]), (12, ["0 6", "1 6"])])
def test_the_line_of_the_check_counts_unequal_shares_apart_and_equal_ones_alike(
    printed, samples, counts
):
    class Share(IterableDataset):
        def __init__(self, rank):
            self.rank = rank

        def __iter__(self):
            return iter(range(samples)[self.rank :: 2])

    told = [printed("DP3", rank=rank, loader=DataLoader(Share(rank))) for rank in (0, 1)]
    assert told == counts
