"""A small segmentation network with two branches."""
import torch.nn as nn
import torch.nn.functional as F


def block(inside, outside, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(outside, momentum=0.1), nn.ReLU(inplace=True))


class ICTEDNet(nn.Module):
    def __init__(self, channels, num_classes):
        super().__init__()
        self.stem = nn.Sequential(block(3, channels), block(channels, channels, 2))
        self.detail = nn.Sequential(block(channels, channels), block(channels, channels))
        self.context = nn.Sequential(block(channels, 2 * channels, 2), block(2 * channels, 4 * channels, 2),
                                     block(4 * channels, 4 * channels))
        self.mix = nn.Conv2d(4 * channels, channels, 1)
        self.head = nn.Conv2d(channels, num_classes, 1)

    def forward(self, x):
        size = x.shape[-2:]
        x = self.stem(x)
        far = F.interpolate(self.mix(self.context(x)), x.shape[-2:], mode='bilinear', align_corners=False)
        return F.interpolate(self.head(self.detail(x) + far), size, mode='bilinear', align_corners=False)


def get_seg_model(cfg):
    return ICTEDNet(cfg.MODEL.CHANNELS, cfg.DATASET.NUM_CLASSES)
