"""An actor and a critic on one body: normalised advantages, an entropy bonus, clipped gradients."""

import torch
from torch import nn

torch.manual_seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.Tanh())
        self.policy, self.value = nn.Linear(64, 3), nn.Linear(64, 1)
        nn.init.orthogonal_(self.policy.weight, 0.01)

    def forward(self, x):
        hidden = self.body(x)
        return torch.distributions.Categorical(logits=self.policy(hidden)), self.value(
            hidden
        ).squeeze(-1)


agent, rule = Agent(), torch.randn(6, 3)
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3, eps=1e-5)
for step in range(60):
    states = torch.randn(128, 6)
    chosen, values = agent(states)
    actions = chosen.sample()
    rewards = ((states @ rule).argmax(1) == actions).float()
    advantages = rewards - values.detach()
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    loss = -(chosen.log_prob(actions) * advantages).mean()
    loss = loss + 0.5 * nn.functional.mse_loss(values, rewards) - 0.01 * chosen.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
print(f"reward {rewards.mean().item():.3f}")
