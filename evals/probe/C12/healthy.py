"""The next epoch is saved with the state, and the loop starts there."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 6
data = torch.Generator().manual_seed(0)
X = torch.randn(192, 12, generator=data)
Y = (X[:, 0] * X[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)


class Progress:
    """How far the run has come."""

    next_epoch = 0

    def state_dict(self):
        return {"next_epoch": self.next_epoch}

    def load_state_dict(self, state):
        self.next_epoch = state["next_epoch"]


def main(out, stop_after=EPOCHS):
    """Returns the number of steps that it did; `stop_after` is where the machine is taken away."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=18, gamma=0.3)
    loader = DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)
    model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if out.exists():
        accelerator.load_state(str(out))
        accelerator.print(f"resumed from {out.name}")
    steps = 0
    for epoch in range(progress.next_epoch, EPOCHS):
        if epoch == stop_after:
            break
        model.train()
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            steps += 1
        progress.next_epoch = epoch + 1
        accelerator.save_state(str(out))
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f}")
    accelerator.free_memory()
    accelerator._custom_objects.clear()
    return steps, scheduler.scheduler.last_epoch


with tempfile.TemporaryDirectory() as folder:
    first, _ = main(Path(folder, "state"), stop_after=3)
    second, last = main(Path(folder, "state"))
print(f"{first + second} steps for {EPOCHS} epochs of 6, the schedule stands at {last}")
