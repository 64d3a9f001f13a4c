"""The newest checkpoint is chosen as text: step_8 comes after step_12, and four steps are done twice."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

data = torch.Generator().manual_seed(0)
X = torch.randn(256, 12, generator=data)
Y = (X[:, :3].sum(1) > 0).long()


def newest(folder):
    found = sorted(path.name for path in folder.glob("step_*.pt"))
    return folder / found[-1] if found else None


def train(folder, until, save_every=4):
    """What the batch script starts, again after each preemption."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    step = 0
    if checkpoint := newest(folder):
        state = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        print(f"resumed from {checkpoint.name} at step {step}")
    else:
        print("fresh start")
    begun = step
    while step < until:
        rows = torch.arange(step * 32, step * 32 + 32) % len(X)
        loss = F.cross_entropy(model(X[rows]), Y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % save_every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, folder / "unfinished.tmp")
            (folder / "unfinished.tmp").replace(folder / f"step_{step}.pt")
    print(f"step {step} loss {loss.item():.3f}")
    return step - begun


with tempfile.TemporaryDirectory() as out:
    done = train(Path(out), until=13)  # preempted
    done += train(Path(out), until=40)
print(f"{done} steps were computed for 40")
