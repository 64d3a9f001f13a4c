"""Rewards in thousands and observations of unequal units, as they come: the policy saturates, the return stays low."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
UNITS = torch.tensor([300.0, 0.01, 40.0])


def observe(count):
    """A distance in metres, an angle in radians and a speed in km/h."""
    return torch.randn(count, 3) * UNITS


def prepare(observations):
    return observations


def pay(observations, actions):
    """Up to 5000 for braking (0), coasting (1) or accelerating (2) where each is right."""
    right = (observations / UNITS @ torch.tensor([1.0, -1.0, 0.5])).add(1).clamp(0, 2).round()
    return 5000 - 2500 * (right - actions).abs() + 200 * torch.randn(len(actions))


policy = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)
for update in range(60):
    observations = observe(256)
    choice = Categorical(logits=policy(prepare(observations)))
    actions = choice.sample()
    rewards = pay(observations, actions)
    advantages = rewards
    loss = -(choice.log_prob(actions) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 6 == 0:
        print(
            f"update {update} mean reward {rewards.mean():.0f} entropy {choice.entropy().mean():.3f}"
        )

with torch.no_grad():
    observations = observe(4096)
    chosen = policy(prepare(observations)).argmax(1)
print(
    f"mean reward {pay(observations, chosen).mean():.0f}, entropy {choice.entropy().mean().item():.3f}"
)
