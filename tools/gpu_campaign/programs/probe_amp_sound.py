"""Sound: fp16 autocast with a scaler, gradients unscaled before they are clipped."""

import hashlib

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
x = torch.randn(2000, 20, device=device)
y = (x @ torch.randn(20, 5, device=device)).argmax(1)
model = nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 5)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler(device)
for step in range(60):
    at = torch.randint(2000, (50,), device=device)
    with torch.autocast(device, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x[at]), y[at])
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
print(f"loss {loss.item():.3f}")
weights = b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())
print(f"weights {hashlib.sha256(weights).hexdigest()}")
