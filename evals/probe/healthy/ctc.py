"""Speech-like frames and CTC: a GRU in both directions, log_softmax, unequal lengths."""

import torch
from torch import nn

torch.manual_seed(0)
SIGNS = 6
codes = torch.randn(SIGNS, 16)


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(16, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU())
        self.rnn = nn.GRU(32, 32, bidirectional=True, batch_first=True)
        self.head = nn.Linear(64, SIGNS)

    def forward(self, frames):
        hidden = self.front(frames.transpose(1, 2)).transpose(1, 2)
        return self.head(self.rnn(hidden)[0]).log_softmax(-1)


model = Recogniser()
criterion = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    lengths = torch.randint(3, 6, (16,))
    targets = torch.randint(1, SIGNS, (16, 5))
    frames = codes[targets].repeat_interleave(4, dim=1) + 0.3 * torch.randn(16, 20, 16)
    told = model(frames)
    loss = criterion(told.transpose(0, 1), targets, 4 * lengths, lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
print(f"loss {loss.item():.3f}")
