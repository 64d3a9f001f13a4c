"""Fine-tuning.  Needs DATA (see env.sh).  python train.py [--resume ckpt/step_0040.pt]

kill -USR1 <pid> makes it save a checkpoint within 3 seconds and go on.
Only the last two checkpoints are kept.
"""
import argparse
import glob
import os
import signal
import time

from data import open_shards
from model import Model
from storage import load, save

STEPS = 100
EVERY = 10
KEEP = 2

asked = False


def ask(signum, frame):
    global asked
    asked = True


def checkpoint(step, model):
    time.sleep(1)  # gathering the weights takes a while
    save(f"ckpt/step_{step:04d}.pt", step, model.get())
    for old in sorted(glob.glob("ckpt/step_*.pt"))[:-KEEP]:
        os.remove(old)


def main():
    global asked
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="PATH", help="go on from this checkpoint")
    args = ap.parse_args()
    signal.signal(signal.SIGUSR1, ask)

    shards = open_shards(os.environ["DATA"])
    print(f"{len(shards)} shards", flush=True)

    model, start = Model(), 0
    if args.resume:
        start, weights = load(args.resume)
        model.set(weights)
        print(f"resumed from {args.resume} at step {start}", flush=True)

    os.makedirs("ckpt", exist_ok=True)
    for step in range(start + 1, STEPS + 1):
        loss = model.step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0 or asked:
            asked = False
            checkpoint(step, model)
    save("final.pt", STEPS, model.get(), final=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
