"""For the trial: tokens made up on the spot (in the night it's fineweb in data/fineweb/train.bin)."""
import torch


def tokens(split, count=20000, vocab=96):
    g = torch.Generator().manual_seed(1 if split == "train" else 2)
    step = torch.randint(1, 5, (count,), generator=g)
    return torch.cumsum(step, 0) % vocab


class Batches:
    def __init__(self, block_size, batch_size):
        self.data = {split: tokens(split) for split in ("train", "val")}
        self.block_size, self.batch_size = block_size, batch_size

    def get_batch(self, split):
        data = self.data[split]
        ix = torch.randint(len(data) - self.block_size - 1, (self.batch_size,))
        x = torch.stack([data[i:i + self.block_size] for i in ix])
        y = torch.stack([data[i + 1:i + 1 + self.block_size] for i in ix])
        return x, y
