"""Two views of each sample, embeddings of length 1, a symmetric contrastive loss with a learned temperature."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class TwoViews(Dataset):
    def __init__(self, count=512):
        self.kinds = torch.randint(8, (count,))
        self.signals = torch.randn(8, 32)[self.kinds] + 0.7 * torch.randn(count, 32)

    def __len__(self):
        return len(self.signals)

    def view(self, signal):
        keep = (torch.rand(32) > 0.2).float()
        return signal * keep * (0.8 + 0.4 * torch.rand(())) + 0.1 * torch.randn(32)

    def __getitem__(self, index):
        return self.view(self.signals[index]), self.view(self.signals[index])


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16)
        )
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


data = TwoViews()
loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for one, other in loader:
        scale = model.log_scale.exp().clamp(max=100)
        similarity = scale * model(one) @ model(other).T
        pairs = torch.arange(len(one))
        loss = (F.cross_entropy(similarity, pairs) + F.cross_entropy(similarity.T, pairs)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f} scale {scale.item():.2f}")

model.eval()
with torch.no_grad():
    embedded = model(data.signals)
    nearest = (embedded @ embedded.T).fill_diagonal_(-1).argmax(1)
print(
    f"nearest neighbour of the same kind {(data.kinds[nearest] == data.kinds).float().mean().item():.3f}"
)
