"""What this machine does about a run: render a job, start it, follow it, release the box.

What runs on the box itself is `runner/`.
"""

TARGETS = ("ssh", "slurm", "kubernetes", "skypilot", "local")
