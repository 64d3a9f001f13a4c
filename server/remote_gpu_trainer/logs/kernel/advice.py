"""How bad a fault is, and the two things that are done about most of them."""

RESET = "reset the GPU while nothing runs on it (nvidia-smi --gpu-reset -i N), or reboot the box"
BACK = "hand the box back and ask for a refund"

# The levels of findings, worst first. fatal: don't train. degraded: finish your job, then reset,
# repair or ask. unknown: it couldn't be read. warn: good to know.
RANK = {"fatal": 0, "degraded": 1, "unknown": 2, "warn": 3}
