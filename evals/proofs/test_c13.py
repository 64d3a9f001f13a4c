"""C13: which samples come after a resume."""

import re

import pytest
import torch
from check_code import shown, span
from remote_gpu_trainer.catalogue import bundle
from torch.utils.data import DataLoader, DistributedSampler

DATA = list(range(20))


def loader():
    return DataLoader(DATA, batch_size=2, shuffle=True)


def batches(source) -> list[list[int]]:
    return [batch.tolist() for batch in source]


def test_a_restart_with_the_same_seed_shows_the_same_first_batches_again():
    torch.manual_seed(0)
    first = batches(loader())
    torch.manual_seed(0)  # what the script does at its start
    assert batches(loader()) == first


def test_restoring_the_random_state_and_skipping_is_not_enough():
    torch.manual_seed(0)
    running = iter(loader())
    used = {sample for _ in range(4) for sample in next(running).tolist()}
    state = torch.get_rng_state()
    torch.set_rng_state(state)
    came = {
        sample for batch in batches(loader())[4:] for sample in batch
    }  # a new order is drawn, then four batches dropped
    assert came & used
    assert set(DATA) - used - came


def resumable(epoch: int, skip: int) -> DataLoader:
    """As in the entry: the order depends on seed and epoch alone, and starts behind the used part."""
    order = torch.randperm(
        len(DATA), generator=torch.Generator().manual_seed(1234 + epoch)
    ).tolist()
    return DataLoader(DATA, batch_size=2, sampler=order[skip * 2 :])


def test_an_order_made_from_seed_and_epoch_gives_exactly_what_was_left():
    assert batches(resumable(3, skip=4)) == batches(resumable(3, skip=0))[4:]
    assert batches(resumable(3, skip=0)) != batches(resumable(4, skip=0))


@pytest.mark.parametrize("samples", [20, 22, 23])
def test_each_process_gets_as_many_samples_of_its_own(samples):
    [line] = re.findall(r"`(order = order\[[^`]*)`", bundle.load().get("C13").fix)
    parts = []
    for rank in range(4):
        exec(line, names := {"order": list(range(samples)), "rank": rank, "world": 4})
        parts.append(names["order"])
    assert {len(part) for part in parts} == {samples // 4}
    assert len({sample for part in parts for sample in part}) == samples // 4 * 4


def test_a_distributed_sampler_repeats_one_order_until_set_epoch_is_called():
    sampler = DistributedSampler(DATA, num_replicas=2, rank=0)
    assert list(sampler) == list(sampler)
    first = list(sampler)
    code = span("C13", "sampler.epoch")
    assert shown(code, sampler=sampler) == "0"
    sampler.set_epoch(1)
    assert shown(code, sampler=sampler) == "1" and list(sampler) != first


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_where_it_was(workers):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def made():
        return stateful.StatefulDataLoader(DATA, batch_size=2, shuffle=True, num_workers=workers)

    torch.manual_seed(0)
    source = made()
    running = iter(source)
    for _ in range(4):
        next(running)
    state = source.state_dict()
    left = batches(running)
    torch.manual_seed(7)
    source = made()
    source.load_state_dict(state)
    assert batches(source) == left
    assert len(batches(source)) == 10


@pytest.mark.filterwarnings("ignore")
def test_lightning_warns_with_the_signature_in_the_middle_of_an_epoch(tmp_path, says):
    pl = pytest.importorskip("lightning.pytorch")
    import warnings

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch, _):
            return self.layer(batch.float().view(-1, 1)).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def trainer(**options):
        return pl.Trainer(
            default_root_dir=str(tmp_path),
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **options,
        )

    kept = pl.callbacks.ModelCheckpoint(tmp_path, filename="mid", every_n_train_steps=3)
    trainer(max_steps=3, callbacks=[kept]).fit(Model(), loader())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer(max_epochs=1).fit(Model(), loader(), ckpt_path=str(tmp_path / "mid.ckpt"))
    says("C13", "\n".join(str(w.message) for w in caught))
