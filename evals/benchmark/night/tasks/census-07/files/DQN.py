"""Deep Q-learning for the heating control problem."""
import random
import time
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from utils import Normalizer
from vars import *

torch.set_num_threads(1)
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))


class ReplayMemory(object):
    """The transitions that are learnt from."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.memory = []
        self.position = 0

    def push(self, *args):
        if len(self.memory) < self.capacity:
            self.memory.append(None)
        self.memory[self.position] = Transition(*args)
        self.position = (self.position + 1) % self.capacity

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DeepQNetwork(nn.Module):
    def __init__(self, input_dims, fc_1_dims, fc_2_dims, n_actions):
        super().__init__()
        self.fc_1 = nn.Linear(input_dims, fc_1_dims)
        self.fc_2 = nn.Linear(fc_1_dims, fc_2_dims)
        self.fc_3 = nn.Linear(fc_2_dims, n_actions)
        self.to(device)

    def forward(self, state):
        return self.fc_3(F.relu(self.fc_2(F.relu(self.fc_1(state)))))


class DAgent():
    """The agent that controls the environment."""

    def __init__(self, gamma, epsilon, lr, input_dims, batch_size, n_actions, mem_size=MEM_SIZE,
                 eps_end=0.1, eps_dec=0.996, ckpt=None):
        self.gamma = gamma
        self.epsilon = epsilon
        self.epsilon_threshold = epsilon
        self.batch_size = batch_size
        self.n_actions = n_actions
        self.eps_dec = eps_dec
        self.eps_end = eps_end
        self.policy_net = DeepQNetwork(input_dims, FC_1_DIMS, FC_2_DIMS, n_actions)
        self.target_net = DeepQNetwork(input_dims, FC_1_DIMS, FC_2_DIMS, n_actions)
        if ckpt:
            checkpoint = torch.load(ckpt)
            self.policy_net.load_state_dict(checkpoint['model_state_dict'])
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.target_net.eval()
        self.optimizer = optim.Adam(self.policy_net.parameters(), lr=lr)
        self.memory = ReplayMemory(mem_size)
        self.normalizer = Normalizer(input_dims)
        self.steps_done = 0

    def select_action(self, state):
        if self.epsilon_threshold > self.eps_end:
            self.epsilon_threshold = self.epsilon * self.eps_dec ** self.steps_done
        self.steps_done += 1
        if random.random() > self.epsilon_threshold:
            with torch.no_grad():
                return self.policy_net(state).max(1)[1].view(1, 1)
        return torch.tensor([[random.randrange(self.n_actions)]], device=device)

    def optimize_model(self):
        if len(self.memory) < self.batch_size:
            return
        batch = Transition(*zip(*self.memory.sample(self.batch_size)))
        non_final = torch.tensor([s is not None for s in batch.next_state], device=device)
        values = self.policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        following = torch.zeros(self.batch_size, device=device)
        following[non_final] = self.target_net(
            torch.cat([s for s in batch.next_state if s is not None])).max(1)[0].detach()
        loss = F.smooth_l1_loss(values, (following * self.gamma + torch.cat(batch.reward)).unsqueeze(1))
        self.optimizer.zero_grad()
        loss.backward()
        for param in self.policy_net.parameters():
            param.grad.data.clamp_(-1, 1)
        self.optimizer.step()

    def play(self, env, number):
        """Plays and learns one episode (the first has number 1); returns its score and temperatures."""
        began = time.monotonic()
        state = env.reset()
        temperatures, score, done = [state[0]], 0, False
        state = torch.tensor(state, dtype=torch.float, device=device)
        self.normalizer.observe(state)
        state = self.normalizer.normalize(state).unsqueeze(0)
        while not done:
            action = self.select_action(state)
            next_state, reward, done = env.step(action.item())
            score += reward
            if done:
                following = None
            else:
                temperatures.append(next_state[0])
                following = torch.tensor(next_state, dtype=torch.float, device=device)
                self.normalizer.observe(following)
                following = self.normalizer.normalize(following).unsqueeze(0)
            self.memory.push(state, action, following, torch.tensor([reward], dtype=torch.float))
            state = following
            self.optimize_model()
        time.sleep(max(0, began + EPISODE_SECONDS - time.monotonic()))
        return score, temperatures
