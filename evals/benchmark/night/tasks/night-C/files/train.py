"""Pretraining.  python train.py [--resume run/step-0040]

Every 10 steps it saves a folder run/step-NNNN, at the end the folder run/final.
"""
import argparse

from model import Model
from shards import load, save

STEPS = 100
EVERY = 10


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="FOLDER", help="go on from this checkpoint")
    args = ap.parse_args()

    model, start = Model(), 0
    if args.resume:
        start, model.weights = load(args.resume)
        print(f"resumed from {args.resume} at step {start}", flush=True)

    for step in range(start + 1, STEPS + 1):
        loss = model.step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0:
            save(f"run/step-{step:04d}", step, model.weights)
            print(f"saved run/step-{step:04d}", flush=True)
    save("run/final", STEPS, model.weights, final=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
