"""bf16 autocast around forward pass and loss; weights, gradients and optimizer stay in fp32."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class MixerBlock(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(
            nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)
        )
        self.channels = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self, tokens=9, patch=16, width=32, depth=2, classes=4):
        super().__init__()
        self.embed = nn.Linear(patch, width)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, patches):
        return self.head(self.norm(self.blocks(self.embed(patches))).mean(1))


def batch(count):
    labels = torch.randint(4, (count,))
    patches = torch.randn(count, 9, 16)
    patches[torch.arange(count), torch.randint(9, (count,)), 4 * labels] += 4
    return patches, labels


model = Mixer()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(80):
    patches, labels = batch(64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(patches), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f}")

model.eval()
patches, labels = batch(512)
with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
    accuracy = (model(patches).argmax(1) == labels).float().mean().item()
print(f"accuracy {accuracy:.3f}")
