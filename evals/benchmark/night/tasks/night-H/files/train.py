"""Trains until somebody stops it, 250 steps at most.  python train.py [--resume ckpt/0040.pt]

Every 5 steps it validates, prints `step 40 val 0.879` and saves ckpt/0040.pt; the last three are kept.
"""
import argparse
import glob
import os

from net import Net
from store import load, save

MOST = 250
EVERY = 5
KEEP = 3


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="PATH")
    args = ap.parse_args()
    net, start = Net(), 0
    if args.resume:
        start, net.weights = load(args.resume)
        print(f"resumed at step {start}", flush=True)
    os.makedirs("ckpt", exist_ok=True)
    for step in range(start + 1, MOST + 1):
        net.step(step)
        if step % EVERY == 0:
            val = net.validate(step)
            save(f"ckpt/{step:04d}.pt", step, val, net.weights)
            for old in sorted(glob.glob("ckpt/*.pt"))[:-KEEP]:
                os.remove(old)
            print(f"step {step} val {val:.3f}", flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
