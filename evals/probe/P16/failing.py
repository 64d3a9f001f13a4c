"""A small transformer that sorts tokens."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
tokens = torch.randint(0, 30, (800, 12))
train = DataLoader(TensorDataset(tokens, tokens.sort(1).values), batch_size=25, shuffle=True)


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = qkv
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        return x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 32)
        self.place = nn.Parameter(torch.randn(12, 32) * 0.1)
        self.blocks = nn.Sequential(Block(), Block())
        self.out = nn.Linear(32, 30)

    def forward(self, tokens):
        return self.out(self.blocks(self.embed(tokens) + self.place))


model = Sorter()
for block in model.blocks:
    nn.init.normal_(block.qkv.weight, std=3.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(1):
    for inputs, targets in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
