"""A callback with a fixed folder saves the last checkpoint, from which the second run goes on."""

import logging
import tempfile
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", ".*does not have many workers.*")


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
        self.steps = 0

    def training_step(self, batch, index):
        x, y = batch
        self.steps += 1
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main(folder, max_epochs):
    """What the job runs each time that it is started."""
    L.seed_everything(0, verbose=False)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(192, 10, generator=generator)
    y = (x[:, :3].sum(1) > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    newest = ModelCheckpoint(
        dirpath=f"{folder}/ckpt", filename="resume", every_n_epochs=1, save_last=True
    )
    trainer = L.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_epochs=max_epochs,
        callbacks=[newest],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Classifier()
    trainer.fit(model, loader, ckpt_path="last")
    loss = trainer.callback_metrics["train_loss"].item()
    print(f"{model.steps} steps in this run, at step {trainer.global_step}, loss {loss:.3f}")


with tempfile.TemporaryDirectory() as folder:
    main(folder, max_epochs=2)
    main(folder, max_epochs=7)
