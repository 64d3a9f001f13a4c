"""Only a prompt of vectors learns; the model behind it is frozen."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
words, encoder = (
    nn.Embedding(40, 32),
    nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True),
)
head = nn.Linear(32, 2)
for part in (words, encoder, head):
    part.requires_grad_(False)


class Prompted(nn.Module):
    def __init__(self, length=6):
        super().__init__()
        self.words, self.encoder, self.head = words, encoder, head
        self.prompt = nn.Parameter(0.02 * torch.randn(length, 32))

    def forward(self, tokens):
        prompt = self.prompt.expand(len(tokens), -1, -1)
        return self.head(self.encoder(torch.cat((prompt, self.words(tokens)), 1))[:, 0])


model = Prompted()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(40):
    tokens = torch.randint(40, (32, 8))
    labels = (tokens[:, 0] > 20).long()
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
