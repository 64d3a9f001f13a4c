"""Lightning with manual optimization: a GAN with two optimizers that are toggled."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.LeakyReLU(0.2), nn.Linear(32, outputs))


class GAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.discriminator = mlp(4, 2), mlp(2, 1)

    def training_step(self, batch, index):
        (real,) = batch
        g_optimizer, d_optimizer = self.optimizers()
        noise, yes, no = (
            torch.randn(len(real), 4),
            torch.ones(len(real), 1),
            torch.zeros(len(real), 1),
        )
        self.toggle_optimizer(g_optimizer)
        loss = F.binary_cross_entropy_with_logits(self.discriminator(self.generator(noise)), yes)
        g_optimizer.zero_grad()
        self.manual_backward(loss)
        g_optimizer.step()
        self.untoggle_optimizer(g_optimizer)
        self.toggle_optimizer(d_optimizer)
        fake = self.generator(noise).detach()
        d_loss = F.binary_cross_entropy_with_logits(self.discriminator(real), yes)
        d_loss = (d_loss + F.binary_cross_entropy_with_logits(self.discriminator(fake), no)) / 2
        d_optimizer.zero_grad()
        self.manual_backward(d_loss)
        d_optimizer.step()
        self.untoggle_optimizer(d_optimizer)
        self.log_dict({"g_loss": loss, "d_loss": d_loss})

    def configure_optimizers(self):
        one = torch.optim.Adam(self.generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
        return one, torch.optim.Adam(self.discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))


L.seed_everything(0, verbose=False)
angle = 6.28 * torch.rand(1280)
data = DataLoader(
    TensorDataset(torch.stack((angle.cos(), angle.sin()), 1)), batch_size=32, shuffle=True
)
trainer = L.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)  # fmt: skip
trainer.fit(GAN(), data)
