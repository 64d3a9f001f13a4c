"""Group norm, which doesn't depend on the batch."""

import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", ".*does not have many workers.*")


def norm(channels):
    return nn.GroupNorm(8, channels)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        widths = (3, 16, 32, 32)
        blocks = [
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), norm(b), nn.ReLU())
            for a, b in zip(widths, widths[1:])
        ]
        self.net = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3))

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        logits = self.net(x)
        self.log("val_loss", F.cross_entropy(logits, y))
        self.log("val_accuracy", (logits.argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def images(count):
    """Stripes along, across, or a chequered pattern, each of its own brightness."""
    y = torch.randint(3, (count,))
    row, column = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
    kinds = torch.stack((row % 2, column % 2, (row + column) % 2)).float() * 2 - 1
    x = kinds[y][:, None] + 0.7 * torch.randn(count, 3, 8, 8)
    return TensorDataset(
        x * (0.5 + torch.rand(count, 1, 1, 1)) + 2 * torch.randn(count, 1, 1, 1), y
    )


L.seed_everything(0, verbose=False)
train = DataLoader(images(180), batch_size=2, shuffle=True)
val = DataLoader(images(300), batch_size=50)
model = Classifier()
trainer = L.Trainer(
    accelerator="cpu",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
)
trainer.fit(model, train, val)
told = {name: round(value.item(), 3) for name, value in trainer.callback_metrics.items()}
print(f"{trainer.global_step} steps, {told}")
