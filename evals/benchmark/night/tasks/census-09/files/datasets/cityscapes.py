"""Made-up street scenes: sky, road and boxes."""
import torch
from torch.utils.data import Dataset


class Cityscapes(Dataset):
    def __init__(self, number, num_classes, size, ignore_label, first):
        self.number, self.num_classes, self.size = number, num_classes, size
        self.ignore_label, self.first = ignore_label, first

    def __len__(self):
        return self.number

    def __getitem__(self, i):
        rng = torch.Generator().manual_seed(self.first + i)
        w, h = self.size
        label = torch.zeros(h, w, dtype=torch.long)
        label[h // 2:] = 1
        for kind in range(2, self.num_classes):
            x, y = (int(torch.randint(n - 8, (1,), generator=rng)) for n in (w, h))
            label[y:y + 8, x:x + 8] = kind
        colours = torch.rand(self.num_classes, 3, generator=torch.Generator().manual_seed(1))
        image = colours[label].permute(2, 0, 1) + 0.15 * torch.randn(3, h, w, generator=rng)
        label[:, :1] = self.ignore_label
        return image, label
