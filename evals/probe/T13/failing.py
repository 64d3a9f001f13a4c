"""bf16 is on, but the blocks switch autocast off: every product runs in fp32, in healthy.py in bf16."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = x.float()
            return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=64, depth=4, classes=10):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


centers = torch.randn(10, 64)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
seen = set()
model.blocks[0].up.register_forward_hook(lambda m, args, out: seen.add(str(out.dtype)))

for step in range(40):
    labels = torch.randint(10, (32,))
    inputs = centers[labels] + 0.5 * torch.randn(32, 64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f}")

print(f"last loss {loss.item():.3f}, products in {sorted(seen)}")
