"""An encoder and a decoder on padded pairs, with accumulation and a plateau schedule."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
PAD, START, END, WORDS = 0, 1, 2, 30


def pair():
    source = torch.randint(3, WORDS, (int(torch.randint(3, 9, (1,))),))
    return source, torch.cat([torch.tensor([START]), source.flip(0), torch.tensor([END])])


def collate(rows):
    pad = nn.utils.rnn.pad_sequence
    return (
        pad([row[0] for row in rows], batch_first=True, padding_value=PAD),
        pad([row[1] for row in rows], batch_first=True, padding_value=PAD),
    )


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 32, padding_idx=PAD)
        self.transformer = nn.Transformer(
            32, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=64, batch_first=True
        )
        self.out = nn.Linear(32, WORDS)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        hidden = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=mask,
            tgt_is_causal=True,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
        )
        return self.out(hidden)


train = DataLoader([pair() for _ in range(640)], batch_size=10, shuffle=True, collate_fn=collate)
model = Translator()
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
for epoch in range(1):
    for i, (source, target) in enumerate(train):
        scores = model(source, target[:, :-1])
        loss = criterion(scores.flatten(0, 1), target[:, 1:].flatten()) / 2
        loss.backward()
        if i % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    schedule.step(loss.item())
    print(f"epoch {epoch}: loss {2 * loss.item():.3f}")
