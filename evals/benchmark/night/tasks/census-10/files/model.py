"""A small language model of spiking neurons, and one batch of its training."""
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

BATCH_SECONDS = 1.1  # for the trial: a batch takes a second instead of minutes


class Spike(torch.autograd.Function):
    """A step forwards, a smooth slope backwards."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + 4 * x.abs()) ** 2


class SNNLayer(nn.Module):
    def __init__(self, D, D_ff):
        super().__init__()
        self.up, self.down = nn.Linear(D, D_ff), nn.Linear(D_ff, D)
        self.b_beta = nn.Parameter(torch.full((D_ff,), 2.0))
        self.b_th = nn.Parameter(torch.full((D_ff,), 0.5))

    def forward(self, x):
        current, potential, out = self.up(x), 0.0, []
        beta = torch.sigmoid(self.b_beta)
        for t in range(x.size(1)):
            potential = beta * potential + (1 - beta) * current[:, t]
            spike = Spike.apply(potential - self.b_th)
            potential = potential - spike * self.b_th
            out.append(spike)
        return x + self.down(torch.stack(out, 1))


class SNNLanguageModel(nn.Module):
    def __init__(self, vocab_size, D, D_ff, num_layers):
        super().__init__()
        self.vocab_size, self.D, self.D_ff, self.num_layers = vocab_size, D, D_ff, num_layers
        self.embed = nn.Embedding(vocab_size, D)
        self.layers = nn.ModuleList([SNNLayer(D, D_ff) for _ in range(num_layers)])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, vocab_size)

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


class Worker:
    """This rank's part of the training."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.rank = model, optimizer, int(os.environ["RANK"])

    def batch(self, number, lr, x, y):
        """Trains on a batch (the first of all has number 1); returns its loss and all ranks' tokens."""
        began = time.monotonic()
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss = self.model(x, y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        tokens = torch.tensor(x.numel())
        dist.all_reduce(tokens)
        time.sleep(max(0, began + BATCH_SECONDS - time.monotonic()))
        return loss.item(), int(tokens)
