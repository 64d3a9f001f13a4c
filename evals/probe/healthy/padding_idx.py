"""Texts of unequal length: an embedding with padding_idx, a padding mask, loss on whole texts."""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
texts = [torch.randint(1, 50, (int(n),)) for n in torch.randint(4, 20, (640,))]
data = [(text, int((text == 7).any())) for text in texts]


def collate(batch):
    return pad_sequence([text for text, _ in batch], batch_first=True), torch.tensor(
        [label for _, label in batch]
    )


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(50, width, padding_idx=0)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        padding = tokens == 0
        hidden = self.encoder(self.words(tokens), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1)
        return self.head((hidden * kept).sum(1) / kept.sum(1))


model = Classifier()
train = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for tokens, labels in train:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
