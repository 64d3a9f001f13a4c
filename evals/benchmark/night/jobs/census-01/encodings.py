"""train.py for one encoding after the other, each going on from its own checkpoint; ends well only once both are at 50."""
import functools
import runpy
import sys

import torch

LAST = 50
# Gradients of nan end it before anything is saved.
torch.nn.utils.clip_grad_norm_ = functools.partial(torch.nn.utils.clip_grad_norm_, error_if_nonfinite=True)


def reached(kind):
    try:
        return torch.load(f"out/ckpt_{kind}_default.pt", map_location="cpu", weights_only=False)["iter_num"]
    except Exception:  # none yet, or cut by a kill
        return 0


for kind in ("learned", "sinusoidal"):
    at = reached(kind)
    if at < LAST:
        sys.argv = ["train.py", f"--embedding_types=['{kind}']"] + ["--init_from=resume"] * (at > 0)
        runpy.run_path("train.py", run_name="__main__")
    if reached(kind) < LAST:
        sys.exit(f"{kind} ended early")
