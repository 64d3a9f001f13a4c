"""C23: Lightning's callbacks look for one exact name among those that the module logged. Needs lightning."""

import ast
import functools
import logging
from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span

pl = pytest.importorskip("lightning.pytorch")
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(pl.LightningModule):
    """Logs its validation loss under this name."""

    def __init__(self, name, plateau=False, **how):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.name, self.plateau, self.how = name, plateau, how

    def training_step(self, batch, _):
        loss = self.layer(batch.float().view(-1, 1)).mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log(self.name, self.layer(batch.float().view(-1, 1)).mean(), **self.how)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        if not self.plateau:
            return optimizer
        schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "monitor": "val_loss"},
        }


LOADER = torch.utils.data.DataLoader(list(range(10)), batch_size=2)
QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def fit(folder, model, *callbacks):
    trainer = pl.Trainer(
        default_root_dir=str(folder),
        max_epochs=1,
        num_sanity_val_steps=0,
        callbacks=list(callbacks),
        **QUIET,
    )
    trainer.fit(model, LOADER, LOADER)


def logged(folder, model) -> list[str]:
    """What the lines of the check print for this module."""
    quiet = {name: value for name, value in QUIET.items() if name != "logger"}
    trainer = functools.partial(pl.Trainer, default_root_dir=str(folder), **quiet)
    lines = [span("C23", part) for part in ("limit_val_batches", "trainer.fit", "callback_metrics")]
    names = {"L": SimpleNamespace(Trainer=trainer), "model": model}
    printed = shown("\n".join(lines), **names, train_loader=LOADER, val_loader=LOADER)
    return ast.literal_eval(printed)


def monitors(folder):
    return ModelCheckpoint(folder, monitor="val_loss"), EarlyStopping("val_loss")


@pytest.mark.parametrize("callback", [0, 1])
def test_another_name_stops_with_the_signature_and_is_missing_in_the_check(
    tmp_path, callback, says
):
    with pytest.raises(Exception) as error:
        fit(tmp_path, Model("val/loss"), monitors(tmp_path)[callback])
    says("C23", str(error.value))
    assert "val_loss" not in logged(tmp_path, Model("val/loss"))


def test_a_schedule_that_waits_for_the_name_stops_with_the_signature(tmp_path, says):
    with pytest.raises(Exception) as error:
        fit(tmp_path, Model("val/loss", plateau=True))
    says("C23", str(error.value))
    fit(tmp_path, Model("val_loss", plateau=True))


def test_the_exact_name_trains_and_stands_in_the_check(tmp_path):
    fit(tmp_path, Model("val_loss"), *monitors(tmp_path))
    assert "val_loss" in logged(tmp_path, Model("val_loss"))


def test_logged_by_step_and_epoch_the_name_by_step_cannot_be_monitored(tmp_path, says):
    both = {"on_step": True, "on_epoch": True}
    names = logged(tmp_path, Model("val_loss", **both))
    assert {"val_loss", "val_loss_epoch"} <= set(names) and "val_loss_step" not in names
    fit(tmp_path, Model("val_loss", **both), ModelCheckpoint(tmp_path, monitor="val_loss_epoch"))
    with pytest.raises(Exception) as error:
        fit(tmp_path, Model("val_loss", **both), ModelCheckpoint(tmp_path, monitor="val_loss_step"))
    says("C23", str(error.value))
