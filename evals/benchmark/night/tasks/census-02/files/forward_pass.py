"""q(x_t | x_0)"""
import torch


def forward_scheduler(x0, t, scheduler):
    epsilon = torch.randn_like(x0)
    bar = scheduler.alpha_bars[t].view(-1, 1, 1, 1)
    return bar.sqrt() * x0 + (1 - bar).sqrt() * epsilon, epsilon
