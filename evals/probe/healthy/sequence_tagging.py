"""Tags for the words of a sentence: packed lengths; padding and the marks around a sentence are labelled -100."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
PAD, WORDS, BEGIN, END, TAGS, IGNORED = 0, 40, 40, 41, 4, -100


def sentence():
    """A word's tag follows from the word and from the one before it."""
    words = torch.randint(1, WORDS, (int(torch.randint(4, 14, ())),))
    before = torch.cat((torch.zeros(1, dtype=torch.long), words[:-1]))
    tags = (words > WORDS // 2).long() * 2 + (before > WORDS // 2).long()
    unknown = torch.tensor([IGNORED])
    marked = torch.cat((torch.tensor([BEGIN]), words, torch.tensor([END])))
    return marked, torch.cat((unknown, tags, unknown))


def collate(rows):
    words = pad_sequence([words for words, _ in rows], batch_first=True, padding_value=PAD)
    tags = pad_sequence([tags for _, tags in rows], batch_first=True, padding_value=IGNORED)
    return {"input_ids": words, "attention_mask": (words != PAD).long(), "labels": tags}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS + 2, 16, padding_idx=PAD)
        self.lstm = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(48, TAGS)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.words(words), lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.tags(hidden)


train = DataLoader([sentence() for _ in range(320)], 16, shuffle=True, collate_fn=collate)
val = DataLoader([sentence() for _ in range(64)], 32, collate_fn=collate)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(4):
    model.train()
    for batch in train:
        tags = batch["labels"]
        logits = model(batch["input_ids"], batch["attention_mask"].sum(1))
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORED)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    right = counted = 0
    with torch.no_grad():
        for batch in val:
            words, tags = batch["input_ids"], batch["labels"]
            known = tags != IGNORED
            right += (
                (model(words, batch["attention_mask"].sum(1)).argmax(-1) == tags)[known]
                .sum()
                .item()
            )
            counted += known.sum().item()
    print(f"epoch {epoch} loss {loss.item():.3f} accuracy {right / counted:.3f}")
