"""Made-up instance images (as latents) with the embedding of their prompt."""
import torch
from torch.utils.data import Dataset


class DreamBoothDataset(Dataset):
    def __init__(self, instances, prompt, size=16, length=6, cross=96):
        rng = torch.Generator().manual_seed(sum(prompt.encode()))
        self.text = torch.randn(length, cross, generator=rng)
        self.base = torch.randn(4, size, size, generator=rng)
        self.instances = instances

    def __len__(self):
        return self.instances

    def __getitem__(self, i):
        noise = torch.randn(self.base.shape, generator=torch.Generator().manual_seed(i))
        return self.base + 0.3 * noise, self.text
