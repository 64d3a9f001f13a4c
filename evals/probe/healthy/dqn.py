"""Deep Q-learning on a corridor: replay, a target net that is copied now and then, smooth L1."""

import copy
import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
random.seed(0)
LENGTH = 8
online = nn.Sequential(nn.Linear(LENGTH, 64), nn.ReLU(), nn.Linear(64, 2))
target = copy.deepcopy(online)
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
memory, place = deque(maxlen=2000), 0


def seen(place):
    return F.one_hot(torch.tensor(place), LENGTH).float()


for step in range(400):
    with torch.no_grad():
        action = random.randrange(2) if random.random() < 0.3 else int(online(seen(place)).argmax())
    following = max(0, min(LENGTH - 1, place + (1 if action else -1)))
    done = following == LENGTH - 1
    memory.append((seen(place), action, float(done), seen(following), float(done)))
    place = 0 if done else following
    if len(memory) < 64 or step % 4:
        continue
    states, actions, rewards, nexts, ends = zip(*random.sample(memory, 32))
    values = online(torch.stack(states)).gather(1, torch.tensor(actions)[:, None]).squeeze(1)
    with torch.no_grad():
        best = target(torch.stack(nexts)).max(1).values
        wanted = torch.tensor(rewards) + 0.97 * (1 - torch.tensor(ends)) * best
    loss = F.smooth_l1_loss(values, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(online.parameters(), 100)
    optimizer.step()
    if step % 40 == 0:
        target.load_state_dict(online.state_dict())
print(f"loss {loss.item():.4f}")
