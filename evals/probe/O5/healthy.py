"""Each epoch begins with model.train()."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centers = torch.randn(6, 20)
y = torch.randint(6, (512,))
x = 2 + 3 * (centers[y] + 0.9 * torch.randn(512, 20))
train = DataLoader(TensorDataset(x[:384], y[:384]), batch_size=48, shuffle=True)
val = DataLoader(TensorDataset(x[384:], y[384:]), batch_size=64)

model = nn.Sequential(
    nn.Linear(20, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Dropout(0.3),
    nn.Linear(64, 64),
    nn.BatchNorm1d(64),
    nn.ReLU(),
    nn.Linear(64, 6),
)
accelerator = Accelerator(cpu=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model, optimizer, train, val = accelerator.prepare(model, optimizer, train, val)


def evaluate():
    model.eval()
    hits = []
    with torch.no_grad():
        for inputs, labels in val:
            hits.append(accelerator.gather_for_metrics(model(inputs).argmax(1) == labels))
    return torch.cat(hits).float().mean().item()


for epoch in range(6):
    model.train()
    for inputs, labels in train:
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    trained_so = model.training
    accuracy = evaluate()
    accelerator.print(f"epoch {epoch} loss {loss.item():.3f} val accuracy {accuracy:.3f}")

with torch.no_grad():
    batch = model[:4](x[:384])
    off = (model[4](batch).mean(0) - model[5].running_mean).abs().mean().item()
accelerator.print(f"training mode {trained_so}, running means off by {off:.3f}, val {accuracy:.3f}")
