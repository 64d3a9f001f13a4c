"""A GRU encoder and decoder with attention and teacher forcing; padding has the ignored label."""

import random

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
random.seed(0)
PAD, BEGIN, WORDS = 0, 1, 20


class Seq2Seq(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.encoder, self.cell = (
            nn.GRU(width, width, batch_first=True),
            nn.GRUCell(2 * width, width),
        )
        self.score, self.head = nn.Linear(width, width), nn.Linear(2 * width, WORDS)

    def forward(self, source, target):
        kept, state = self.encoder(self.words(source))
        state, word, out = state[0], torch.full((len(source),), BEGIN), []
        for place in range(target.shape[1]):
            shares = F.softmax((kept @ self.score(state)[..., None]).squeeze(-1), dim=-1)
            context = (shares[..., None] * kept).sum(1)
            state = self.cell(torch.cat((self.words(word), context), 1), state)
            out.append(self.head(torch.cat((state, context), 1)))
            word = target[:, place] if random.random() < 0.7 else out[-1].argmax(1)
        return torch.stack(out, 1)


model = Seq2Seq()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
for step in range(40):
    source = torch.randint(2, WORDS, (16, 6))
    target = source.flip(1).masked_fill(torch.arange(6) >= torch.randint(3, 7, (16, 1)), PAD)
    loss = criterion(model(source, target).flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
