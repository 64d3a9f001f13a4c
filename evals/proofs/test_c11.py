"""C11: how Lightning resumes. Needs lightning."""

import logging
import pathlib
import warnings

import pytest
import torch
from check_code import shown, span

pl = pytest.importorskip("lightning.pytorch")
from lightning.pytorch.callbacks import ModelCheckpoint

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore")
VERSION = tuple(int(part) for part in __import__("lightning").__version__.split(".")[:2])


class Model(pl.LightningModule):
    """Five batches an epoch; the validation loss gets worse from the first epoch on."""

    def __init__(self, data_dir=None):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(1, 1)
        self.batches = 0

    def training_step(self, batch, _):
        self.batches += 1
        return self.layer(batch.float().view(-1, 1)).mean()

    def validation_step(self, batch, _):
        self.log("val_loss", float(self.current_epoch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


def loader():
    return torch.utils.data.DataLoader(list(range(10)), batch_size=2)


def fit(folder, *callbacks, epochs=2, model=None, **options):
    """Returns the trainer, the model and the texts of the warnings."""
    trainer = pl.Trainer(
        default_root_dir=str(folder),
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        max_epochs=epochs,
        callbacks=list(callbacks),
    )
    model = model or Model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(model, loader(), loader(), **options)
    return trainer, model, "\n".join(str(w.message) for w in caught)


def step_of(path) -> int:
    return torch.load(path, weights_only=False)["global_step"]


def test_the_old_argument_stops_with_the_signature(says):
    with pytest.raises(TypeError) as error:
        pl.Trainer(resume_from_checkpoint="last.ckpt")
    says("C11", str(error.value))


def test_loading_the_module_and_calling_fit_trains_all_steps_again(tmp_path):
    fit(tmp_path, ModelCheckpoint(tmp_path, filename="end"))
    model = Model.load_from_checkpoint(tmp_path / "end.ckpt")
    assert fit(tmp_path, model=model)[1].batches == 10


def test_ckpt_path_trains_only_what_is_left(tmp_path):
    fit(tmp_path, ModelCheckpoint(tmp_path, filename="end"))
    trainer, model, _ = fit(tmp_path, epochs=3, ckpt_path=str(tmp_path / "end.ckpt"))
    assert model.batches == 5 and trainer.global_step == 15


def test_last_without_save_last_warns_and_trains_from_scratch(tmp_path, says):
    fit(tmp_path, ModelCheckpoint(tmp_path))
    _, model, warned = fit(tmp_path, ModelCheckpoint(tmp_path), ckpt_path="last")
    assert model.batches == 10
    says("C11", warned)


def test_with_a_monitor_that_never_improves_last_ckpt_stays_at_the_first_epoch_since_2_6(tmp_path):
    if VERSION < (2, 6):
        pytest.skip("up to 2.5 last.ckpt was written each time")
    fit(
        tmp_path,
        ModelCheckpoint(tmp_path, monitor="val_loss", save_top_k=1, save_last=True),
        epochs=4,
    )
    assert step_of(tmp_path / "last.ckpt") == 5


def two(folder):
    return (
        ModelCheckpoint(folder, filename="best", monitor="val_loss"),
        ModelCheckpoint(folder, filename="resume", every_n_train_steps=2, save_last=True),
    )


def test_two_callbacks_keep_the_best_and_the_newest_and_last_finds_the_newest(tmp_path):
    fit(tmp_path, *two(tmp_path), epochs=4)
    assert step_of(tmp_path / "best.ckpt") == 5 and step_of(tmp_path / "last.ckpt") == 20
    trainer, model, _ = fit(tmp_path, *two(tmp_path), epochs=5, ckpt_path="last")
    assert model.batches == 5 and trainer.global_step == 25


def test_a_weights_only_checkpoint_stops_with_the_signature(tmp_path, says):
    fit(tmp_path, ModelCheckpoint(tmp_path, filename="end", save_weights_only=True))
    with pytest.raises(KeyError) as error:
        fit(tmp_path, epochs=3, ckpt_path=str(tmp_path / "end.ckpt"))
    says("C11", str(error.value))


def test_a_path_among_the_hyperparameters_is_refused_until_weights_only_is_off(tmp_path):
    if VERSION < (2, 6):
        pytest.skip("fit() has no weights_only before 2.6")
    fit(
        tmp_path, ModelCheckpoint(tmp_path, filename="end"), model=Model(pathlib.PurePosixPath("x"))
    )
    with pytest.raises(Exception, match="Weights only load failed"):
        fit(tmp_path, epochs=3, ckpt_path=str(tmp_path / "end.ckpt"))
    trainer, _, _ = fit(
        tmp_path, epochs=3, ckpt_path=str(tmp_path / "end.ckpt"), weights_only=False
    )
    assert trainer.global_step == 15


def test_the_default_folder_is_new_at_each_start_so_that_last_finds_nothing(tmp_path, says):
    warned = ""
    for _ in range(2):
        trainer = pl.Trainer(
            default_root_dir=str(tmp_path),
            accelerator="cpu",
            logger=pl.loggers.CSVLogger(str(tmp_path)),
            enable_progress_bar=False,
            enable_model_summary=False,
            max_epochs=1,
            callbacks=[ModelCheckpoint(save_last=True)],
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.fit(Model(), loader(), loader(), ckpt_path="last")
        warned = "\n".join(str(w.message) for w in caught)
        assert trainer.ckpt_path is None
    says("C11", warned)


def test_the_check_tells_an_old_last_ckpt_and_one_without_an_optimizer_from_a_good_one(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code = "; ".join(span("C11", part) for part in ('"ckpt/last.ckpt"', '"optimizer_states"'))

    def told(*callbacks):
        fit("ckpt", *callbacks, epochs=4)
        return shown(code, torch=torch)

    assert told(*two("ckpt")) == "3 20 True"
    weights = ModelCheckpoint("ckpt", filename="w", save_last=True, save_weights_only=True)
    (tmp_path / "ckpt" / "last.ckpt").unlink()
    assert told(weights) == "3 20 False"
    if VERSION >= (2, 6):
        (tmp_path / "ckpt" / "last.ckpt").unlink()
        assert told(ModelCheckpoint("ckpt", monitor="val_loss", save_last=True)) == "0 5 True"
