"""python3 finite.py PROGRAM ARGUMENTS: runs it, and ends it at gradients of nan, before a step takes them."""
import os
import runpy
import sys

from torch.optim.optimizer import register_optimizer_step_pre_hook


def finite(optimizer, *_):
    for group in optimizer.param_groups:
        assert all(p.grad.isfinite().all() for p in group["params"] if p.grad is not None), "gradients of nan"


register_optimizer_step_pre_hook(finite)
del sys.argv[0]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
