"""For the trial: token sequences made up on the spot instead of data/seq-monkey."""
import torch
from torch.utils.data import Dataset


class PretrainDataset(Dataset):
    def __init__(self, samples, vocab_size, max_length):
        g = torch.Generator().manual_seed(3)
        steps = torch.randint(1, 4, (samples, max_length + 1), generator=g)
        self.tokens = torch.cumsum(steps, dim=1) % vocab_size

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        x = self.tokens[i]
        return x[:-1], x[1:], torch.ones(len(x) - 1)
