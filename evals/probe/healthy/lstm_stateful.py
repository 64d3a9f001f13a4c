"""A character LSTM with truncated backpropagation: the state goes on, detached."""

import torch
from torch import nn

torch.manual_seed(0)
text = torch.tensor([(i * 7 + i // 5) % 30 for i in range(8 * 640)]).view(8, -1)


class CharLSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 24)
        self.lstm = nn.LSTM(24, 48, num_layers=2, dropout=0.1, batch_first=True)
        self.head = nn.Linear(48, 30)

    def forward(self, tokens, state=None):
        hidden, state = self.lstm(self.embed(tokens), state)
        return self.head(hidden), state


model = CharLSTM()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
state = None
for start in range(0, 600, 12):
    inputs, targets = text[:, start : start + 12], text[:, start + 1 : start + 13]
    if state is not None:
        state = tuple(part.detach() for part in state)
    scores, state = model(inputs, state)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
