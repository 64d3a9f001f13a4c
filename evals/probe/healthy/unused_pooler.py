"""A BERT whose pooler runs and isn't used: texts are the mean of their words."""

import torch
from torch import nn
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig(
    vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
    max_position_embeddings=32,
)  # fmt: skip


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = BertModel(config)
        self.head = nn.Linear(32, 2)

    def forward(self, tokens, mask):
        hidden = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        return self.head((hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
model.train()
for step in range(40):
    tokens = torch.randint(1, 60, (16, 12))
    mask = (torch.arange(12) < torch.randint(4, 13, (16, 1))).long()
    labels = ((tokens == 5) & mask.bool()).any(1).long()
    loss = nn.functional.cross_entropy(model(tokens * mask, mask), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
