"""A classifier keeps its best checkpoints, and the newest one."""

import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 12)
y = (x[:, :4].sum(1) > 0).long()
train = DataLoader(TensorDataset(x[:192], y[:192]), batch_size=32, shuffle=True)
x_val, y_val = x[192:], y[192:]
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
scores = {}
with tempfile.TemporaryDirectory() as folder:
    for epoch in range(8):
        for inputs, targets in train:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        path = os.path.join(folder, f"epoch_{epoch}.pt")
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, path)
        with torch.no_grad():
            score = nn.functional.cross_entropy(model(x_val), y_val).item()
        scores[path] = score + epoch  # a score that gets worse
        kept = sorted(scores, key=scores.get)[:2]
        for old in set(scores) - set(kept):
            os.remove(old)
            del scores[old]
        print(f"epoch {epoch} loss {score:.3f}, kept {sorted(map(os.path.basename, scores))}")
