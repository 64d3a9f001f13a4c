"""For the trial: images with coloured dots as joints, made up on the spot."""
import torch
from torch.utils.data import Dataset


class Mars(Dataset):
    def __init__(self, cfg, count, is_train):
        g = torch.Generator().manual_seed(0 if is_train else 1)
        joints, (h, w), (hh, hw) = cfg.MODEL.NUM_JOINTS, cfg.MODEL.IMAGE_SIZE, cfg.MODEL.HEATMAP_SIZE
        self.joints = torch.rand(count, joints, 2, generator=g) * 0.8 + 0.1
        colours = torch.rand(joints, 3, generator=torch.Generator().manual_seed(7))
        self.images = torch.randn(count, 3, h, w, generator=g) * 0.1
        self.targets = self._blobs(self.joints, hh, hw, cfg.MODEL.SIGMA)
        self.images += torch.einsum('njhw,jc->nchw', self._blobs(self.joints, h, w, 3.0), colours)

    @staticmethod
    def _blobs(joints, h, w, sigma):
        y, x = torch.arange(h).view(1, 1, h, 1), torch.arange(w).view(1, 1, 1, w)
        dx, dy = x - (joints[..., 0] * w)[..., None, None], y - (joints[..., 1] * h)[..., None, None]
        return torch.exp(-(dx ** 2 + dy ** 2) / (2 * sigma ** 2))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]

    def evaluate(self, preds):
        """Share of joints found within two cells, and the mean distance."""
        h, w = preds.shape[-2:]
        place = preds.flatten(2).argmax(-1)
        dist = ((place % w - self.joints[..., 0] * w) ** 2 + (place // w - self.joints[..., 1] * h) ** 2).sqrt()
        ap = (dist < 2).float().mean().item()
        return {'AP': ap, 'AP .5': (dist < 4).float().mean().item(), 'Dist': dist.mean().item()}, ap
