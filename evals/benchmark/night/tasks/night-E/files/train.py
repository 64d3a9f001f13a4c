"""Fine-tunes on data/ready.  python train.py [--resume ckpt/0040.pt]

A checkpoint every 10 steps in ckpt, final.pt at the end.
"""
import argparse
import glob
import json
import os
import zipfile

from work import train_step

STEPS = 90
EVERY = 10


def save(path, step, parts, weights, final=False):
    with zipfile.ZipFile(path + ".tmp", "w") as z:
        z.writestr("meta.json", json.dumps({"step": step, "parts": parts, "final": final}))
        z.writestr("weights.bin", weights)
    os.replace(path + ".tmp", path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--resume", metavar="PATH")
    args = ap.parse_args()

    parts = sum(os.path.getsize(p) == 10007 for p in glob.glob("data/ready/part-*.bin"))
    print(f"training on {parts} parts", flush=True)
    start = 0
    if args.resume:
        with zipfile.ZipFile(args.resume) as z:
            meta = json.loads(z.read("meta.json"))
            start, parts = meta["step"], min(parts, meta["parts"])
            z.read("weights.bin")
        print(f"resumed at step {start}", flush=True)

    os.makedirs("ckpt", exist_ok=True)
    weights = b""
    for step in range(start + 1, STEPS + 1):
        weights, loss = train_step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % EVERY == 0:
            save(f"ckpt/{step:04d}.pt", step, parts, weights)
    save("final.pt", STEPS, parts, weights, final=True)
    print("done", flush=True)


if __name__ == "__main__":
    main()
