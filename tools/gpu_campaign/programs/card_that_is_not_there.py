"""A local rank that this machine has no card for."""

import torch

torch.cuda.set_device(torch.cuda.device_count())
