"""A language model of leaky integrate-and-fire neurons (small, for the trial)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v):
        ctx.save_for_backward(v)
        return (v > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (v,) = ctx.saved_tensors
        return grad / (1 + (3.1416 * v) ** 2)


class Neurons(nn.Module):
    def __init__(self, width, v_th_min):
        super().__init__()
        self.b_beta = nn.Parameter(torch.full((width,), 1.0))
        self.b_th = nn.Parameter(torch.full((width,), 0.5))
        self.v_th_min = v_th_min

    def forward(self, x):
        beta, v, out = torch.sigmoid(self.b_beta), torch.zeros_like(x[:, 0]), []
        threshold = self.v_th_min + F.softplus(self.b_th)
        for t in range(x.shape[1]):
            v = beta * v + x[:, t]
            s = Spike.apply(v - threshold)
            v = v - s * threshold
            out.append(s)
        return torch.stack(out, dim=1)


class Layer(nn.Module):
    def __init__(self, D, D_ff, v_th_min):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(D), nn.Linear(D, D_ff), nn.Linear(D_ff, D)
        self.neurons = Neurons(D_ff, v_th_min)

    def forward(self, x):
        return x + self.down(self.neurons(self.up(self.norm(x))))


class SNNLanguageModel(nn.Module):
    def __init__(self, vocab_size, D, num_layers, D_ff, v_th_min=0.1):
        super().__init__()
        self.vocab_size, self.D, self.num_layers, self.D_ff = vocab_size, D, num_layers, D_ff
        self.embed = nn.Embedding(vocab_size, D)
        self.layers = nn.ModuleList(Layer(D, D_ff, v_th_min) for _ in range(num_layers))
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, vocab_size)

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        logits = self.head(self.norm(h))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none")
