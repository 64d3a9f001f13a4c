"""One rank of a small run that goes wrong on purpose: trains nothing, reduces a tensor each step, and fails as told.

usage (under torchrun): worker.py HOW RANK STEP SAYS
HOW: exception, exit, kill or hang; RANK: who; STEP: when; SAYS: ranks (each line names its rank) or plain.
"""

import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS = 8
PATIENCE = datetime.timedelta(seconds=4)


def batch(rank: int, step: int) -> torch.Tensor:
    """Deep enough for a traceback with frames."""
    return torch.full((4,), float(rank + step))


def fail(how: str) -> None:
    if how == "exception":
        torch.nn.functional.cross_entropy(torch.zeros(2, 3), torch.tensor([1, 7]))
    elif how == "exit":
        sys.exit(3)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hang":
        time.sleep(600)


def main() -> None:
    how, who, when, says = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group("gloo", timeout=PATIENCE)
    rank = dist.get_rank()
    for step in range(STEPS):
        print(
            f"rank {rank}: step {step} loss {3 - step / 10:.3f}"
            if says == "ranks"
            else f"step {step} loss {3 - step / 10:.3f}",
            flush=True,
        )
        if rank == who and step == when:
            fail(how)
        dist.all_reduce(batch(rank, step))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
