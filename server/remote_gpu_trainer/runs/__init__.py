"""What this machine does about a run: render a job, start it, follow it, release the box.

What runs on the box itself is `runner/`.
"""

from typing import Literal

Loads = Literal["nothing", "tensors", "pickles"]  # what of checkpoints is loaded after a copy
TARGETS = ("ssh", "slurm", "kubernetes", "skypilot", "local")
