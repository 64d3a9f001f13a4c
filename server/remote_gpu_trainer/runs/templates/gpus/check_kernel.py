"""Runs one small kernel on each GPU that the job wants. Says nothing without torch. Python 3.8.

usage: check_kernel.py GPUS
"""

import sys

try:
    import torch
except ImportError:
    sys.exit(0)
want = int(sys.argv[1])
if not torch.cuda.is_available() or torch.cuda.device_count() < want:
    sys.exit(f"torch {torch.__version__} sees {torch.cuda.device_count()} GPUs, expected {want}")
for index in range(want):
    assert (torch.ones(64, device=f"cuda:{index}") * 2).sum().item() == 128.0
