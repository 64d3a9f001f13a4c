"""Skip-gram with negative samples: two embeddings, no loss function of torch.nn."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
WORDS = 500


class SkipGram(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.centre, self.context = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        nn.init.uniform_(self.centre.weight, -0.5 / width, 0.5 / width)
        nn.init.zeros_(self.context.weight)

    def forward(self, centre, context, negatives):
        vector = self.centre(centre)
        near = (vector * self.context(context)).sum(-1)
        far = torch.einsum("bd,bnd->bn", vector, self.context(negatives))
        return -(F.logsigmoid(near) + F.logsigmoid(-far).sum(1)).mean()


model = SkipGram()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    centre = torch.randint(WORDS, (256,))
    loss = model(
        centre, (centre + torch.randint(1, 4, (256,))) % WORDS, torch.randint(WORDS, (256, 5))
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
