"""A process that may only use a small part of the card."""

import torch

torch.cuda.set_per_process_memory_fraction(0.02)
kept = [torch.empty(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(64)]
