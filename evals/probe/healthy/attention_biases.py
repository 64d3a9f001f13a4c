"""A transformer whose query, key and value layers have biases, as in nn.MultiheadAttention and BERT."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
BATCH, LENGTH, WORDS = 32, 12, 20


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.attention = Attention(width, 4)
        self.norm = nn.LayerNorm(width)
        self.second = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.words(tokens)
        x = self.norm(x + self.attention(x))
        x = x + self.second(x, x, x, need_weights=False)[0]
        return self.head(x.mean(1))


model = Encoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    tokens = torch.randint(WORDS, (BATCH, LENGTH))
    labels = (tokens == 3).any(1).long()
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
