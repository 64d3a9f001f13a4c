"""The plainest loop: fp32, SGD with momentum, a step schedule, an LSTM that sorts sequences into classes."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
time = torch.arange(20) / 20
labels = torch.randint(3, (384,))
waves = torch.sin(2 * torch.pi * (labels[:, None] + 1) * time + 6 * torch.rand(384, 1))
waves = (waves + 0.2 * torch.randn_like(waves)).unsqueeze(-1)
train = DataLoader(TensorDataset(waves[:320], labels[:320]), batch_size=32, shuffle=True)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(1, 32, batch_first=True)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0].mean(1))


model = Recurrent()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[6], gamma=0.1)
for epoch in range(8):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(waves[320:]).argmax(1) == labels[320:]).float().mean().item()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {accuracy:.3f}")
