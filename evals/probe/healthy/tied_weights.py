"""A transformer whose output layer shares the embedding's weight."""

import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
VOCAB, LENGTH, WIDTH = 30, 16, 32


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 64, dropout=0.1, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.05)
        nn.init.normal_(self.places.weight, std=0.05)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        hidden = self.tokens(ids) + self.places(places)
        return self.head(self.norm(self.blocks(hidden, mask=mask, is_causal=True)))


def batch(count):
    start = torch.randint(VOCAB, (count, 1))
    pace = torch.randint(1, 4, (count, 1))
    return (start + pace * torch.arange(LENGTH + 1)) % VOCAB


model = Decoder()
decay = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
    lr=5e-3,
    betas=(0.9, 0.95),
)
STEPS, WARM_UP = 100, 8
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer,
    lambda step: min((step + 1) / WARM_UP, 0.55 + 0.45 * math.cos(math.pi * step / STEPS)),
)
model.train()
for step in range(STEPS):
    sequence = batch(32)
    logits = model(sequence[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), sequence[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f} rate {schedule.get_last_lr()[0]:.5f}")
