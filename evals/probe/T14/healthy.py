"""A small transformer learns to repeat what stood four words before."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
WORDS, WIDTH, HEADS, LENGTH = 24, 64, 4, 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x):
        rows, length, _ = x.shape
        parts = self.qkv(self.norm(x)).view(rows, length, 3, HEADS, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids) + self.place.weight[: ids.shape[1]]))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(40):
    ids = torch.randint(WORDS, (32, 4)).repeat(1, LENGTH // 4)
    loss = F.cross_entropy(model(ids)[:, :-1].reshape(-1, WORDS), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f}")
