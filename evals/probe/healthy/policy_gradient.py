"""REINFORCE on a walk: the loss may be negative."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for episode in range(40):
    place, logs, rewards = torch.zeros(16, 1), [], []
    for time in range(10):
        state = torch.cat([place, torch.full_like(place, time / 10)], dim=1)
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        place = place + (action.float() * 2 - 1).unsqueeze(1) * 0.3
        logs.append(choice.log_prob(action))
        rewards.append(-(place.squeeze(1) - 1).abs())
    returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(logs) * returns).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
print(f"reward {torch.stack(rewards).mean().item():.3f}")
