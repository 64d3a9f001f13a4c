"""Trains the big model.  python train.py [--resume out/0040.ckpt]

Every 5 steps it saves out/NNNN.ckpt (2 MB, in the real run 200 GB) and keeps them all. At the end: out/final.ckpt.
"""
import argparse
import os

from big import Big, load, save

STEPS = 120
EVERY = 5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="PATH")
    args = ap.parse_args()
    model, start = Big(), 0
    if args.resume:
        start, model.state = load(args.resume)
        print(f"resumed from {args.resume} at step {start}", flush=True)
    os.makedirs("out", exist_ok=True)
    for step in range(start + 1, STEPS + 1):
        loss = model.step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0:
            save(f"out/{step:04d}.ckpt", step, model.state)
    save("out/final.ckpt", STEPS, model.state)
    print("done", flush=True)


if __name__ == "__main__":
    main()
