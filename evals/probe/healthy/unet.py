"""A small U-Net for masks: transposed convolutions, skips, BCE with a Dice loss."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def double(inputs, outputs):
    layers = []
    for width in (inputs, outputs):
        layers += [
            nn.Conv2d(width, outputs, 3, padding=1),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
        ]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.low = double(1, 8), double(8, 16)
        self.up, self.merge, self.out = (
            nn.ConvTranspose2d(16, 8, 2, stride=2),
            double(16, 8),
            nn.Conv2d(8, 1, 1),
        )

    def forward(self, x):
        one = self.down(x)
        two = self.low(F.max_pool2d(one, 2))
        return self.out(self.merge(torch.cat((one, self.up(two)), 1)))


def batch(size=8):
    masks = torch.zeros(size, 1, 24, 24)
    for mask in masks:
        a, b = torch.randint(2, 12, (2,)).tolist()
        mask[:, a : a + 8, b : b + 8] = 1
    return masks + 0.4 * torch.randn_like(masks), masks


model = UNet()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    images, masks = batch()
    scores = model(images)
    share = scores.sigmoid()
    dice = 1 - (2 * (share * masks).sum() + 1) / (share.sum() + masks.sum() + 1)
    loss = F.binary_cross_entropy_with_logits(scores, masks) + dice
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
