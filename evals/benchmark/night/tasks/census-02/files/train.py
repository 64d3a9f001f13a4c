"""DDPM from scratch.  python3 train.py"""
import os

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import trial
from forward_pass import forward_scheduler
from mnist import MNIST
from model import get_model
from scheduler import ddpmScheduler

# ---- device
torch.set_num_threads(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print("device:", device)

# ---- training parameters
batch_size = 8
epochs = 10
learning_rate = 1e-4
checkpoint_dir = "./checkpoints"
os.makedirs(checkpoint_dir, exist_ok=True)

# ---- data
dataset = MNIST()
dataloader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
print("Training samples:", len(dataset))

# ---- model, scheduler, optimizer
scheduler = ddpmScheduler(T=1000, device=device)
model = get_model().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)


def train_batch(x0):
    t = torch.randint(low=0, high=scheduler.T, size=(x0.shape[0],), device=device, dtype=torch.long)
    xt, epsilon = forward_scheduler(x0, t, scheduler)
    epsilon_pred = model(xt, t).sample
    loss = F.mse_loss(epsilon_pred, epsilon)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# ---- training loop
model.train()
for epoch in range(epochs):
    epoch_loss = 0.0
    for batch_idx, (x0, _) in enumerate(dataloader):
        loss = trial.gpu_step(epoch * len(dataloader) + batch_idx + 1, train_batch, x0.to(device))
        epoch_loss += loss
        if batch_idx % 5 == 0:
            print(f"Epoch [{epoch + 1}/{epochs}] Batch [{batch_idx}/{len(dataloader)}] Loss: {loss:.6f}")

    average_loss = epoch_loss / len(dataloader)
    print(f"\nEpoch {epoch + 1} completed")
    print(f"Average loss: {average_loss:.6f}\n")

    checkpoint_path = os.path.join(checkpoint_dir, f"ddpm_mnist_epoch_{epoch + 1}.pt")
    trial.save(
        {
            "epoch": epoch + 1,
            "model_state_dict": model.state_dict(),
            "optimizer_state_dict": optimizer.state_dict(),
            "loss": average_loss,
        },
        checkpoint_path,
    )
    print("Saved:", checkpoint_path)

print("\nTraining complete.")
