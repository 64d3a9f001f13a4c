"""Made-up text: a noisy walk over the vocabulary."""
import torch
from torch.utils.data import Dataset


class PretrainDataset(Dataset):
    def __init__(self, samples, vocab_size, max_length):
        self.samples, self.vocab_size, self.max_length = samples, vocab_size, max_length

    def __len__(self):
        return self.samples

    def __getitem__(self, i):
        rng = torch.Generator().manual_seed(i)
        steps = torch.randint(1, 4, (self.max_length + 1,), generator=rng)
        text = (torch.cumsum(steps, 0) + i) % self.vocab_size
        return text[:-1], text[1:]
