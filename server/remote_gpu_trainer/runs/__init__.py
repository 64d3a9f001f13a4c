"""A job becomes a script; status, release and the ledger follow what becomes of it."""

TARGETS = ("ssh", "slurm", "kubernetes", "skypilot", "local")
