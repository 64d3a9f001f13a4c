"""A Lightning module with a scheduler for each step, validation and checkpoints."""

import logging
import tempfile

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Spirals(L.LightningDataModule):
    def __init__(self, batch_size=32):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(2, (448,), generator=generator)
        radius = 0.2 + torch.rand(448, generator=generator)
        angle = 3 * radius + torch.pi * labels
        points = torch.stack((radius * angle.cos(), radius * angle.sin()), 1)
        points = points + 0.03 * torch.randn(448, 2, generator=generator)
        self.train = TensorDataset(points[:320], labels[:320])
        self.val = TensorDataset(points[320:], labels[320:])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=128)


class Classifier(L.LightningModule):
    def __init__(self, lr=1e-2):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(2, 64),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, 2),
        )

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }


L.seed_everything(0, workers=True)
with tempfile.TemporaryDirectory() as out:
    trainer = L.Trainer(
        default_root_dir=out,
        accelerator="cpu",
        devices=1,
        max_epochs=6,
        gradient_clip_val=1.0,
        logger=CSVLogger(out),
        callbacks=[
            ModelCheckpoint(monitor="val_accuracy", mode="max"),
            LearningRateMonitor("step"),
        ],
        log_every_n_steps=5,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), Spirals())
    print({name: round(value.item(), 3) for name, value in trainer.callback_metrics.items()})
