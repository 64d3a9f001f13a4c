"""bf16 autocast with weights in float32, on a model with matrix products of its own."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(800, 20)
y = (x @ torch.randn(20, 5)).argmax(1)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(20, 64) / 20**0.5)
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.norm(nn.functional.gelu(x @ self.weight)))


model = Mixer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    rows = torch.randint(800, (40,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(x[rows])
        loss = nn.functional.cross_entropy(scores.float(), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
