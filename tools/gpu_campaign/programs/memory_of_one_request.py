"""One tensor that no card can hold."""

import torch

activations = torch.empty(4096, 1024, 1024, 1024, device="cuda")
