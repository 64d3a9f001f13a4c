"""An image is what learns: a frozen net tells how far its features are from wanted ones."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
)
net.eval().requires_grad_(False)
wanted = net(torch.rand(1, 3, 24, 24))
image = torch.rand(1, 3, 24, 24, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.02)
for step in range(40):
    optimizer.zero_grad()
    features = net(image)
    loss = nn.functional.mse_loss(features, wanted)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
print(f"loss {loss.item():.5f}")
