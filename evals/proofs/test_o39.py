"""O39: which limit ends a run, in transformers and Lightning. Needs both."""

import logging

import pytest
import torch
from check_code import shown, span

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pl = pytest.importorskip("lightning.pytorch")
from line_model import Config, Line

logging.getLogger("lightning.pytorch").setLevel(logging.INFO)
pytestmark = pytest.mark.filterwarnings("ignore")
DATA = [{"x": torch.ones(1) * i, "labels": torch.ones(1)} for i in range(16)]


class Stream(torch.utils.data.IterableDataset):
    """`again`: each `iter()` begins anew; else its generator is used up after one pass."""

    def __init__(self, again: bool):
        self.again, self.rest = again, iter(DATA)

    def __iter__(self):
        return iter(DATA) if self.again else self.rest


def hugging(folder, data=DATA, **arguments):
    given = {
        "per_device_train_batch_size": 4,
        "num_train_epochs": 3,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    } | arguments
    run = transformers.Trainer(
        Line(Config()), transformers.TrainingArguments(str(folder), **given), train_dataset=data
    )
    run.train()
    return run


def said(run) -> str:
    return shown(span("O39", "trainer.state.epoch"), trainer=run)


def test_steps_overrule_the_epochs_and_the_check_says_so(tmp_path):
    assert said(hugging(tmp_path, max_steps=4)) == "1.0 3 4 4"
    assert said(hugging(tmp_path, max_steps=-1)) == "3.0 3 12 -1"


def test_steps_are_rounded_up_with_accumulation(tmp_path):
    run = hugging(tmp_path, DATA[:10], gradient_accumulation_steps=2)
    assert run.state.epoch == 3.0  # 3 batches are 2 steps, not 1


def test_a_stream_that_is_used_up_ends_the_run_with_the_signature(tmp_path, says, caplog):
    with pytest.raises(ValueError, match="does not contain any data") as error:
        hugging(tmp_path, Stream(again=False), max_steps=12)
    says("O39", str(error.value))
    log = logging.getLogger("transformers")
    log.addHandler(caplog.handler)
    try:
        apart = {"accelerator_config": {"dispatch_batches": False}}
        run = hugging(tmp_path, Stream(again=False), max_steps=12, **apart)
    finally:
        log.removeHandler(caplog.handler)
    assert run.state.global_step == 4
    says("O39", caplog.text)
    assert hugging(tmp_path, Stream(again=True), max_steps=12).state.global_step == 12


class Two(pl.LightningModule):
    """Two optimizers, stepped by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.parts = torch.nn.ModuleList([torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)])
        self.batches = 0

    def training_step(self, batch, _):
        self.batches += 1
        for optimizer, part in zip(self.optimizers(), self.parts, strict=True):
            optimizer.zero_grad()
            part(batch.float().view(-1, 1)).sum().backward()
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), 0.01) for part in self.parts]


class Stop(pl.Callback):
    def on_train_batch_end(self, trainer, *_):
        trainer.should_stop = True


def lightning(batches=8, **limits):
    model = Two()
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **limits,
    )
    trainer.fit(model, torch.utils.data.DataLoader(list(range(batches))))
    return model.batches, shown(span("O39", "should_stop"), trainer=trainer)


def test_each_optimizers_step_counts_in_lightning():
    assert lightning(max_epochs=5, max_steps=10) == (5, "1 5 10 10 False")
    assert lightning(max_epochs=5, max_steps=80) == (40, "5 5 80 80 False")
    assert lightning(max_epochs=5) == (40, "5 5 80 -1 False")


def test_a_callback_ends_it():
    batches, printed = lightning(max_epochs=5, callbacks=[Stop()])
    assert batches == 1 and printed.endswith("True")


def test_no_batches_is_said(says, caplog):
    with caplog.at_level(logging.INFO, "lightning.pytorch"):
        lightning(batches=0, max_epochs=5)
    says("O39", caplog.text)
