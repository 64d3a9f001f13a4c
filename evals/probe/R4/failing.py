"""The checkpoint lacks the statistics that scale observations: the resumed agent acts like a beginner."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class RunningNorm:
    """Running mean and variance of the observations."""

    def __init__(self, size):
        self.mean, self.var, self.count = torch.zeros(size), torch.ones(size), 1e-4

    def update(self, batch):
        delta, total = batch.mean(0) - self.mean, self.count + len(batch)
        spread = self.var * self.count + batch.var(0, unbiased=False) * len(batch)
        self.var = (spread + delta**2 * self.count * len(batch) / total) / total
        self.mean = self.mean + delta * len(batch) / total
        self.count = total

    def __call__(self, batch):
        return ((batch - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)


class Valley:
    """Push left, nothing or right; sensors drift in blocks, so one rollout shows little of the range."""

    def rollout(self, count, part):
        place = (torch.rand(count) + part) / 4
        return torch.stack((1000 + 40 * place, 0.02 * torch.randn(count)), 1), place

    def reward(self, place, actions):
        return 1 - ((place * 3).floor().clamp(0, 2) - actions).abs()


def act(policy, norm, env, part, count=256):
    observations, place = env.rollout(count, part)
    choice = Categorical(logits=policy(norm(observations)))
    actions = choice.sample()
    return observations, choice.log_prob(actions), env.reward(place, actions), choice.entropy()


def session(path, updates):
    """Train for so many updates, from the checkpoint if there is one, and save."""
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    norm, env, done, rewards = RunningNorm(2), Valley(), 0, []
    if path.exists():
        state = torch.load(path, weights_only=True)
        policy.load_state_dict(state["policy"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["done"]
        print(f"resumed after {done} updates")
    for update in range(done, done + updates):
        observations, log_prob, reward, entropy = act(policy, norm, env, update % 4)
        norm.update(observations)
        advantage = (reward - reward.mean()) / (reward.std() + 1e-8)
        loss = -(log_prob * advantage + 0.001 * entropy).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
        optimizer.step()
        rewards.append(reward.mean().item())
    state = {
        "policy": policy.state_dict(),
        "optimizer": optimizer.state_dict(),
        "done": done + updates,
    }
    torch.save(state, path)
    return rewards


with tempfile.TemporaryDirectory() as folder:
    first = session(Path(folder, "agent.pt"), 24)
    second = session(Path(folder, "agent.pt"), 24)
print(f"last 4 before {sum(first[-4:]) / 4:.3f}, first 4 after {sum(second[:4]) / 4:.3f}")
