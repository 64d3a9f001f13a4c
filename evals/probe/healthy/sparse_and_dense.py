"""Two optimizers for one model: SparseAdam for the embedding, AdamW for the rest."""

import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(5000, 32, sparse=True)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, tokens):
        return self.head(self.words(tokens))


model = Tagger()
optimizers = [
    torch.optim.SparseAdam(model.words.parameters(), lr=1e-2),
    torch.optim.AdamW(model.head.parameters(), lr=1e-3),
]
for step in range(60):
    tokens = torch.randint(5000, (64, 20))
    labels = tokens[:, 0] % 3
    loss = nn.functional.cross_entropy(model(tokens), labels)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
print(f"loss {loss.item():.3f}")
