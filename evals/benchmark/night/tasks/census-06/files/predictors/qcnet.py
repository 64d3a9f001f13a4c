"""Predicts several futures of an agent from its past (a small stand-in for QCNet)."""
import pytorch_lightning as pl
import torch
import torch.nn as nn

import trial


class QCNet(pl.LightningModule):
    def __init__(self, dataset, input_dim, hidden_dim, num_historical_steps, num_future_steps, num_modes,
                 num_heads, lr, weight_decay, T_max, **kwargs):
        super().__init__()
        self.save_hyperparameters()
        self.num_modes, self.num_future_steps = num_modes, num_future_steps
        self.embed = nn.Linear(input_dim, hidden_dim)
        self.place = nn.Parameter(torch.randn(num_historical_steps, hidden_dim) * 0.02)
        layer = nn.TransformerEncoderLayer(hidden_dim, num_heads, 4 * hidden_dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.decoder = nn.Sequential(nn.Linear(hidden_dim, hidden_dim), nn.ReLU(),
                                     nn.Linear(hidden_dim, num_modes * num_future_steps * input_dim))

    def forward(self, past):
        h = self.encoder(self.embed(past) + self.place).mean(dim=1)
        offsets = self.decoder(h).view(len(past), self.num_modes, self.num_future_steps, -1)
        return past[:, None, -1:] + offsets

    def min_fde(self, past, future):
        pred = self(past)
        return pred, (pred[:, :, -1] - future[:, None, -1]).norm(dim=-1).min(dim=1).values

    def training_step(self, data, batch_idx):
        return trial.gpu_step(self.global_step + 1, self._loss, data)

    def _loss(self, data):
        past, future = data
        pred = self(past)
        error = (pred - future[:, None]).norm(dim=-1).mean(dim=-1)
        loss = error.min(dim=1).values.mean() + 0.05 * error.mean()
        self.log('train_reg_loss', loss, prog_bar=False, on_step=True, on_epoch=True, batch_size=len(past))
        return loss

    def validation_step(self, data, batch_idx):
        past, future = data
        _, fde = self.min_fde(past, future)
        self.log('val_minFDE', fde.mean(), prog_bar=True, on_step=False, on_epoch=True, batch_size=len(past))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.hparams.T_max, eta_min=0.0)
        return [optimizer], [scheduler]

    @staticmethod
    def add_model_specific_args(parent_parser):
        parser = parent_parser.add_argument_group('QCNet')
        parser.add_argument('--dataset', type=str, default='argoverse_v2')
        parser.add_argument('--input_dim', type=int, default=2)
        parser.add_argument('--hidden_dim', type=int, default=128)
        parser.add_argument('--num_historical_steps', type=int, default=10)
        parser.add_argument('--num_future_steps', type=int, default=12)
        parser.add_argument('--num_modes', type=int, default=6)
        parser.add_argument('--num_heads', type=int, default=4)
        parser.add_argument('--lr', type=float, default=5e-4)
        parser.add_argument('--weight_decay', type=float, default=1e-4)
        parser.add_argument('--T_max', type=int, default=10)
        return parent_parser
