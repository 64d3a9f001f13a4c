"""A siamese net with a triplet loss on unit vectors."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
centres = 2 * torch.randn(10, 24)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)


model = Embedder()
criterion = nn.TripletMarginLoss(margin=1.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    one = torch.randint(10, (64,))
    two = (one + torch.randint(1, 10, (64,))) % 10
    anchor, positive, negative = (centres[c] + torch.randn(64, 24) for c in (one, one, two))
    loss = criterion(model(anchor), model(positive), model(negative))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
