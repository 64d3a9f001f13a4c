"""A run that was stopped goes on from its checkpoint: weights, optimizer, schedule, place and random state."""

import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 6
data = torch.Generator().manual_seed(0)
X = torch.randn(256, 10, generator=data)
Y = (X[:, :3].sum(1) > 0).long()


def train(path, stop_after=EPOCHS):
    """Begin, or go on where the file says; `stop_after` is where the machine goes away."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True, generator=order)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(loader))
    start = 0
    if os.path.exists(path):
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        order.set_state(state["order"])
        torch.set_rng_state(state["random"])
        start = state["next_epoch"]
        print(f"resumed at epoch {start}")
    for epoch in range(start, stop_after):
        model.train()
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "order": order.get_state(),
            "random": torch.get_rng_state(),
            "next_epoch": epoch + 1,
        }
        torch.save(state, f"{path}.tmp")
        os.replace(f"{path}.tmp", path)
        print(f"epoch {epoch} loss {loss.item():.5f} rate {scheduler.get_last_lr()[0]:.6f}")
    return sum(p.detach().double().abs().sum() for p in model.parameters()).item()


with tempfile.TemporaryDirectory() as folder:
    train(os.path.join(folder, "state.pt"), stop_after=2)
    broken = train(os.path.join(folder, "state.pt"))
    unbroken = train(os.path.join(folder, "other.pt"))
print(f"weights {broken:.6f}, without the break {unbroken:.6f}")
