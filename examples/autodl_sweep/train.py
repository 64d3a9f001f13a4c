"""A stand-in for a training program, in plain Python.

It fits a line, saves as safetensors, and goes on from the newest checkpoint. What yours needs of
it: save under another name and rename; load the checkpoint that RGT_RESUME_FROM names; save when
RGT_SAVE_FILE appears.
"""

import argparse
import json
import os
import random
import struct
from pathlib import Path


def save(path: Path, weights: list, step: int) -> None:
    """Write the slope, the offset and the step as safetensors, whole or not at all.

    The bytes go to a file beside `path` first, which then gets the name: a program that is killed
    meanwhile leaves the older checkpoint as it was.
    """
    data = struct.pack("<2d", *weights)
    header = {
        "__metadata__": {"step": str(step)},
        "line": {"dtype": "F64", "shape": [2], "data_offsets": [0, len(data)]},
    }
    head = json.dumps(header).encode()
    new = path.with_name("." + path.name + ".new")
    with new.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def load(path: Path) -> tuple:
    """Return ([slope, offset], step) of a file that `save` wrote."""
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    return list(struct.unpack("<2d", raw[8 + length :])), int(
        json.loads(raw[8 : 8 + length])["__metadata__"]["step"]
    )


def main() -> None:
    """Train to `--steps`, or until a save is asked for, and save every 50 steps on the way.

    The folder is RGT_CHECKPOINT_DIR, else checkpoints/. A program that was asked for a save ends
    after it with exit 0, without best.safetensors.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    folder = Path(os.environ.get("RGT_CHECKPOINT_DIR") or "checkpoints")
    folder.mkdir(parents=True, exist_ok=True)
    weights, first = [0.0, 0.0], 0
    if os.environ.get("RGT_RESUME_FROM"):
        weights, first = load(Path(os.environ["RGT_RESUME_FROM"]))
    points = [
        (x / 10, 3 * x / 10 - 1 + random.Random(1000 * args.seed + x).gauss(0, 0.1))
        for x in range(20)
    ]
    ask = os.environ.get("RGT_SAVE_FILE", "")
    for step in range(first + 1, args.steps + 1):
        errors = [(weights[0] * x + weights[1] - y, x) for x, y in points]
        loss = sum(e * e for e, _ in errors) / len(points)
        weights[0] -= args.lr * 2 * sum(e * x for e, x in errors) / len(points)
        weights[1] -= args.lr * 2 * sum(e for e, _ in errors) / len(points)
        asked = bool(ask) and os.path.exists(ask)
        if step % 50 == 0 or asked:
            print(f"step {step} loss {loss:.6f}", flush=True)
            save(folder / f"step_{step:06d}.safetensors", weights, step)
        if asked:
            return
    save(folder / "best.safetensors", weights, args.steps)
    (folder / "best_metrics.json").write_text(
        json.dumps({"loss": loss, "lr": args.lr, "seed": args.seed})
    )


if __name__ == "__main__":
    main()
