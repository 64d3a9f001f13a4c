"""Trains the small model.  python train.py [--resume ckpt/step_0040.pt]"""
import argparse
import os

from model import Model
from storage import load, save

STEPS = 100
EVERY = 10


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="PATH", help="go on from this checkpoint")
    args = ap.parse_args()

    model, start = Model(), 0
    if args.resume:
        start, weights = load(args.resume)
        model.set(weights)
        print(f"resumed from {args.resume} at step {start}", flush=True)

    os.makedirs("ckpt", exist_ok=True)
    for step in range(start + 1, STEPS + 1):
        loss = model.step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0:
            save(f"ckpt/step_{step:04d}.pt", step, model.get())
    save("final.pt", STEPS, model.get(), final=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
