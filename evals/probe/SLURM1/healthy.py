"""The handler sets a flag; the checkpoint is written at the end of the step."""

import os
import signal
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

data = torch.Generator().manual_seed(0)
X = torch.randn(320, 10, generator=data)
Y = (X[:, :4].sum(1) > 0).long()
STEPS = 32


class Run:
    def __init__(self, path):
        torch.manual_seed(0)
        self.path, self.step, self.stop = path, 0, False
        self.model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS)
        if path.exists():
            state = torch.load(path, weights_only=True)
            for part in ("model", "optimizer", "scheduler"):
                getattr(self, part).load_state_dict(state[part])
            self.step = state["step"]
            print(f"resumed at step {self.step}, schedule at {self.scheduler.last_epoch}")

    def save(self):
        state = {
            part: getattr(self, part).state_dict() for part in ("model", "optimizer", "scheduler")
        }
        state["step"] = self.step
        torch.save(state, f"{self.path}.tmp")
        os.replace(f"{self.path}.tmp", self.path)

    def warned(self, signum, frame):
        self.stop = True

    def train(self, warn_at=None):
        signal.signal(signal.SIGUSR1, self.warned)
        while self.step < STEPS:
            rows = torch.arange(self.step * 32, self.step * 32 + 32) % len(X)
            loss = F.cross_entropy(self.model(X[rows]), Y[rows])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.step == warn_at:
                os.kill(os.getpid(), signal.SIGUSR1)  # as Slurm does, at any moment
            self.scheduler.step()
            self.step += 1
            if self.stop:
                self.save()
                return
        weights = sum(p.double().abs().sum() for p in self.model.parameters()).item()
        print(f"step {self.step} loss {loss.item():.5f}")
        return weights


with tempfile.TemporaryDirectory() as folder:
    Run(Path(folder, "checkpoint.pt")).train(warn_at=6)
    broken = Run(Path(folder, "checkpoint.pt")).train()
    unbroken = Run(Path(folder, "unbroken.pt")).train()
print(f"weights {broken:.6f}, without the warning {unbroken:.6f}")
