"""An average of the weights beside the training, used for evaluation only."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.rand(640, 2) * 4 - 2
y = ((x**2).sum(1) < 2).long()
train = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.95), use_buffers=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)


def accuracy(net):
    net.eval()
    with torch.no_grad():
        return (net(x[512:]).argmax(1) == y[512:]).float().mean().item()


for epoch in range(4):
    model.train()
    for inputs, labels in train:
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
    print(
        f"epoch {epoch} loss {loss.item():.3f} raw {accuracy(model):.3f} average {accuracy(average):.3f}"
    )
