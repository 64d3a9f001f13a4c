"""One rank. launch.py starts it.

A checkpoint of step 40 is ckpt/step_0040.r0.pt with ckpt/step_0040.r1.pt, each written by its rank.
"""
import argparse
import os

from group import Group
from half import Half, load, save

STEPS = 100
EVERY = 10


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rank", type=int, required=True)
    ap.add_argument("--resume", type=int, metavar="STEP")
    args = ap.parse_args()
    rank, group = args.rank, Group(args.rank)

    half, start = Half(rank), 0
    if args.resume:
        start, half.weights = load(f"ckpt/step_{args.resume:04d}.r{rank}.pt")
        print(f"rank {rank}: resumed at step {start}", flush=True)

    os.makedirs("ckpt", exist_ok=True)
    for step in range(start + 1, STEPS + 1):
        loss = half.step(step)
        other = group.exchange(half.weights)
        if rank == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0:
            save(f"ckpt/step_{step:04d}.r{rank}.pt", step, half.weights)
    if rank == 0:
        save("final.pt", STEPS, half.weights + other, final=True)
        print("done", flush=True)


if __name__ == "__main__":
    main()
