"""For the trial: trajectories made up on the spot instead of Argoverse 2."""
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset


def scenes(count, seed, historical=10, future=12):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(historical + future) / 10
    speed = 0.5 + torch.rand(count, 1, generator=g)
    turn = (torch.rand(count, 1, generator=g) - 0.5) * 2
    x, y = speed * t * torch.cos(turn * t), speed * t * torch.sin(turn * t)
    xy = torch.stack([x, y], dim=-1) + 0.01 * torch.randn(count, len(t), 2, generator=g)
    return TensorDataset(xy[:, :historical], xy[:, historical:])


class ArgoverseV2DataModule(pl.LightningDataModule):
    def __init__(self, root, train_batch_size, val_batch_size, test_batch_size, shuffle=True, num_workers=0, **kwargs):
        super().__init__()
        self.train_batch_size, self.val_batch_size = train_batch_size, val_batch_size
        self.shuffle, self.num_workers = shuffle, num_workers

    def setup(self, stage=None):
        self.train_dataset = scenes(10 * self.train_batch_size, seed=0)
        self.val_dataset = scenes(32, seed=1)

    def train_dataloader(self):
        return DataLoader(self.train_dataset, batch_size=self.train_batch_size, shuffle=self.shuffle,
                          num_workers=self.num_workers)

    def val_dataloader(self):
        return DataLoader(self.val_dataset, batch_size=self.val_batch_size, num_workers=self.num_workers)
