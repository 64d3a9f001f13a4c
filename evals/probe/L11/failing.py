"""A small causal language model on padded rows."""

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
END, VOCABULARY, LENGTH = 1, 40, 24
PAD = END


def collate(rows):
    ids = torch.full((len(rows), LENGTH), PAD)
    mask = torch.zeros(len(rows), LENGTH, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    labels = ids.clone()
    labels[labels == PAD] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def text():
    start = int(torch.randint(2, VOCABULARY - 20, (1,)))
    length = int(torch.randint(5, 18, (1,)))
    return torch.cat([torch.arange(start, start + length), torch.tensor([END])])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, VOCABULARY)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


train = DataLoader([text() for _ in range(400)], batch_size=20, shuffle=True, collate_fn=collate)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(2):
    for batch in train:
        logits = model(batch["input_ids"])[:, :-1]
        targets = batch["labels"][:, 1:]
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
