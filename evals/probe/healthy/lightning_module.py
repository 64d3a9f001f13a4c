"""A classifier with Lightning: schedule, clipping, validation."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 5)
        )

    def training_step(self, batch, index):
        inputs, targets = batch
        return nn.functional.cross_entropy(self.layers(inputs), targets)

    def validation_step(self, batch, index):
        inputs, targets = batch
        self.log("val_loss", nn.functional.cross_entropy(self.layers(inputs), targets))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-3)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=40)
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


if __name__ == "__main__":
    lightning.seed_everything(0)
    x = torch.randn(480, 20)
    y = (x @ torch.randn(20, 5)).argmax(1)
    train = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=40, shuffle=True)
    valid = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=40)
    trainer = lightning.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(Net(), train, valid)
