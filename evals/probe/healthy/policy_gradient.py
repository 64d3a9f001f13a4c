"""REINFORCE on a short corridor: returns normalised in each batch, an entropy bonus, clipped gradients."""

import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
CELLS, LIMIT, EPISODES, GAMMA = 7, 16, 16, 0.97


class Corridor:
    """Walk left or right; the exit at the right end pays 1, each step costs 0.02."""

    def __init__(self, count):
        self.place = torch.randint(1, CELLS - 2, (count,))
        self.over = torch.zeros(count, dtype=torch.bool)

    def observe(self):
        return nn.functional.one_hot(self.place, CELLS).float()

    def step(self, actions):
        moved = (self.place + 2 * actions - 1).clamp(0, CELLS - 1)
        self.place = torch.where(self.over, self.place, moved)
        arrived = (self.place == CELLS - 1) & ~self.over
        reward = arrived.float() - 0.02 * (~self.over).float()
        self.over = self.over | arrived
        return reward


policy = nn.Sequential(nn.Linear(CELLS, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-2)
for update in range(40):
    corridor, log_probs, rewards, alive, entropies = Corridor(EPISODES), [], [], [], []
    for _ in range(LIMIT):
        alive.append((~corridor.over).float())
        choice = Categorical(logits=policy(corridor.observe()))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        entropies.append(choice.entropy())
        rewards.append(corridor.step(action))
    returns, running = [], torch.zeros(EPISODES)
    for reward in reversed(rewards):
        running = reward + GAMMA * running
        returns.insert(0, running)
    alive, returns = torch.stack(alive), torch.stack(returns)
    counted = returns[alive.bool()]
    advantages = (returns - counted.mean()) / (counted.std() + 1e-8)
    gain = torch.stack(log_probs) * advantages + 0.01 * torch.stack(entropies)
    loss = -(gain * alive).sum() / alive.sum()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    optimizer.step()
    if update % 8 == 0:
        print(f"update {update} return {torch.stack(rewards).sum(0).mean().item():.3f}")
print(f"last return {torch.stack(rewards).sum(0).mean().item():.3f}")
