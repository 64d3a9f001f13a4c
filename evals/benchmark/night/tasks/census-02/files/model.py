"""A small U-Net with a time embedding."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.norm2 = nn.GroupNorm(4, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(e))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class Output:
    def __init__(self, sample):
        self.sample = sample


class UNet(nn.Module):
    def __init__(self, channels=24, emb=96):
        super().__init__()
        self.dim = channels
        self.time = nn.Sequential(nn.Linear(channels, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(1, channels, 3, padding=1)
        self.down1 = Block(channels, channels, emb)
        self.down2 = Block(channels, 2 * channels, emb)
        self.down3 = Block(2 * channels, 4 * channels, emb)
        self.mid = Block(4 * channels, 4 * channels, emb)
        self.up2 = Block(6 * channels, 2 * channels, emb)
        self.up1 = Block(3 * channels, channels, emb)
        self.out = nn.Sequential(nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, 1, 3, padding=1))

    def forward(self, x, t):
        half = self.dim // 2
        freq = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angle = t[:, None].float() * freq[None]
        e = self.time(torch.cat([angle.sin(), angle.cos()], dim=1))
        a = self.down1(self.inp(x), e)
        b = self.down2(F.avg_pool2d(a, 2), e)
        c = self.mid(self.down3(F.avg_pool2d(b, 2), e), e)
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], dim=1), e)
        a = self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], dim=1), e)
        return Output(self.out(a))


def get_model():
    return UNet()
