"""Trains the network.  python train.py --config config.json

The config's "resume":
  "never"  starts afresh; what is in run_dir is cleared first
  "auto"   goes on from the newest checkpoint in run_dir (an error if there is none)
  "0040"   goes on from this checkpoint
A checkpoint is run_dir/model-0040.bin with run_dir/optim-0040.bin. At the end: run_dir/final.bin.
"""
import argparse
import glob
import json
import os
import shutil
import sys

from files import read, write
from net import Net


def newest(run_dir):
    found = sorted(glob.glob(f"{run_dir}/model-*.bin"))
    if not found:
        sys.exit(f"error: resume is auto, but there is no checkpoint in {run_dir}")
    return found[-1][-8:-4]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--config", required=True)
    with open(ap.parse_args().config) as f:
        config = json.load(f)
    run_dir, net, start = config["run_dir"], Net(), 0

    if config["resume"] == "never":
        shutil.rmtree(run_dir, ignore_errors=True)
        os.makedirs(run_dir)
    else:
        name = newest(run_dir) if config["resume"] == "auto" else config["resume"]
        start, net.weights = read(f"{run_dir}/model-{name}.bin")
        try:
            _, net.moments = read(f"{run_dir}/optim-{name}.bin")
        except (OSError, ValueError) as error:
            print(f"warning: optimizer not restored ({error}), starting it afresh", flush=True)
            net.fresh = 0
        print(f"resumed at step {start}", flush=True)

    for step in range(start + 1, config["steps"] + 1):
        loss = net.step(step)
        print(f"step {step} loss {loss:.4f}", flush=True)
        if step % config["save_every"] == 0:
            write(f"{run_dir}/model-{step:04d}.bin", step, loss, net.weights)
            write(f"{run_dir}/optim-{step:04d}.bin", step, loss, net.moments)
            for kind in ("model", "optim"):
                for old in sorted(glob.glob(f"{run_dir}/{kind}-*.bin"))[:-config["keep"]]:
                    os.remove(old)
    write(f"{run_dir}/final.bin", config["steps"], loss, net.weights)
    print("done", flush=True)


if __name__ == "__main__":
    main()
