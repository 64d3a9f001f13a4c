"""Distributed training with torch and gloo: 40 steps, each with an all-reduce; rank 0 writes checkpoints. All ranks agree when to save and stop.

usage: pair_program.py FOLDER STEPS SECONDS
"""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist


def main(folder, steps, seconds):
    asked = torch.zeros(1)
    signal.signal(signal.SIGTERM, lambda *_: asked.fill_(1))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs(os.path.join(folder, "checkpoints"), exist_ok=True)
    step, weights = 0, torch.ones(8, dtype=torch.float64)
    if os.environ.get("RGT_RESUME_FROM"):
        state = torch.load(os.environ["RGT_RESUME_FROM"])
        step, weights = state["step"], state["weights"]
    while step < steps:
        step += 1
        gradient = torch.sin(weights * (rank + 1) + step)
        dist.all_reduce(gradient)
        weights = weights - 0.1 * gradient
        stop = asked.clone()
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
        time.sleep(seconds)
        print("step", step, flush=True)
        if rank == 0:
            with open(os.path.join(folder, "steps"), "a") as stream:
                stream.write(f"{step}\n")
            if step % 4 == 0 or stop:
                path = os.path.join(folder, "checkpoints", f"step_{step:04}.pt")
                torch.save({"step": step, "weights": weights}, path + ".tmp")
                os.replace(path + ".tmp", path)
        if stop:
            dist.barrier()
            return 3
    if rank == 0:
        with open(os.path.join(folder, "weights.json"), "w") as stream:
            stream.write(repr(weights.tolist()))
    dist.barrier()
    return 0


sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
