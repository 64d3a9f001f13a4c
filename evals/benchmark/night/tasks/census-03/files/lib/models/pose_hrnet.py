"""Two branches of different resolution that exchange what they see; heatmaps as output."""
import torch.nn as nn
import torch.nn.functional as F


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Stage(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.high, self.low = conv(w, w), conv(2 * w, 2 * w)
        self.down, self.up = conv(w, 2 * w, 2), nn.Conv2d(2 * w, w, 1)

    def forward(self, high, low):
        high, low = self.high(high), self.low(low)
        return high + F.interpolate(self.up(low), scale_factor=2), low + self.down(high)


class PoseHighResolutionNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.MODEL.WIDTH
        self.stem = nn.Sequential(conv(3, w, 2), conv(w, w, 2))
        self.transition = conv(w, 2 * w, 2)
        self.stages = nn.ModuleList(Stage(w) for _ in range(3))
        self.final_layer = nn.Conv2d(w, cfg.MODEL.NUM_JOINTS, 1)

    def forward(self, x):
        high = self.stem(x)
        low = self.transition(high)
        for stage in self.stages:
            high, low = stage(high, low)
        return self.final_layer(high)


def get_pose_net(cfg, is_train=True):
    return PoseHighResolutionNet(cfg)
