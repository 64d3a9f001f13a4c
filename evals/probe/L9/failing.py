"""Direct preference optimisation of a small language model against a frozen copy."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
WORDS, LENGTH, BETA = 32, 12, 0.1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 48)
        self.core = nn.GRU(48, 96, batch_first=True)
        self.head = nn.Linear(96, WORDS)

    def forward(self, ids):
        return self.head(self.core(self.embed(ids))[0])


def log_likelihood(model, ids):
    """The log-likelihood of each row's second half."""
    logits = model(ids[:, :-1]).log_softmax(-1)
    told = logits.gather(2, ids[:, 1:, None]).squeeze(2)
    return told[:, LENGTH // 2 :].sum(1)


prompts = torch.randint(WORDS, (512, LENGTH // 2))
chosen = torch.cat([prompts, (prompts + 1) % WORDS], 1)
rejected = torch.cat([prompts, torch.randint(WORDS, prompts.shape)], 1)
loader = DataLoader(TensorDataset(chosen, rejected), batch_size=16, shuffle=True)

policy = Model()
reference = copy.deepcopy(policy).requires_grad_(False)
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
for step, (good, bad) in enumerate(loader):
    with torch.no_grad():
        base = log_likelihood(reference, good) - log_likelihood(reference, bad)
    margin = log_likelihood(policy, good) - log_likelihood(policy, bad) - base
    loss = -F.logsigmoid(BETA * margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"step {step} loss {loss.item():.4f} margin {margin.mean().item():.4f}")
