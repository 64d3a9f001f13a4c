"""Mixed precision with a scaler, clipping, accumulation, and a checkpoint at each epoch."""

import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(1280, 20)
y = (x @ torch.randn(20, 5)).argmax(1)
train = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, drop_last=True)
model = nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 5))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=100)
scaler = torch.amp.GradScaler("cpu")
folder = tempfile.mkdtemp()
for epoch in range(2):
    for i, (inputs, targets) in enumerate(train):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs), targets) / 2
        scaler.scale(loss).backward()
        if i % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler}
    torch.save({k: part.state_dict() for k, part in parts.items()}, f"{folder}/{epoch}.pt")
    print(f"epoch {epoch}: loss {2 * loss.item():.3f}")
