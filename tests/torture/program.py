"""A small trainer for the torture: equal weights whatever happens to it, if each step is done once on what was saved.

usage: program.py --ledger FOLDER [--steps N] [--every N] [--sleep SECONDS] [--final FILE]

It computes what tests/runner/runner_program.py computes. What it did stands in FOLDER, which no fault touches: `steps` (its own mark, the
step, the newest save) and `saves` (a step and the SHA-256 of its checkpoint). A save that fails ends it, as torch.save does.
"""

import argparse
import hashlib
import io
import os
import signal
import struct
import sys
import time
import zipfile
from pathlib import Path

MODULUS = 2**31 - 1


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--sleep", type=float, default=0.05)
    parser.add_argument("--final", type=Path, default=Path("final.bin"))
    return parser.parse_args()


class Trainer:
    def __init__(self, args):
        self.args = args
        self.mark = os.urandom(4).hex()
        self.folder = Path(os.environ["RGT_CHECKPOINT_DIR"])
        self.weights, self.step, self.saved = [1, 2, 3, 4], 0, 0
        self.asked = False

    def note(self, name, *words):
        with open(self.args.ledger / name, "a") as ledger:
            ledger.write(" ".join(map(str, words)) + "\n")

    def load(self):
        found = [path for path in self.folder.glob("step-*.pt") if path.stem[5:].isdigit()]
        newest = max(found, key=lambda path: int(path.stem[5:]), default="")
        path = os.environ.get("RGT_RESUME_FROM", "") or newest
        if path:
            with zipfile.ZipFile(path) as archive:
                self.step, *self.weights = struct.unpack("<5q", archive.read("data"))
            self.saved = self.step
            print(f"resumed from {path}", flush=True)

    def save(self):
        if self.saved == self.step:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as archive:
            archive.writestr("data", struct.pack("<5q", self.step, *self.weights))
            archive.writestr("ballast", bytes(range(256)) * 64)
        # Before the rename, so that the ledger knows each checkpoint that can be seen.
        self.note("saves", self.step, hashlib.sha256(memory.getvalue()).hexdigest())
        put(self.folder / f"step-{self.step}.pt", memory.getvalue())
        self.saved = self.step
        whole = [path for path in self.folder.glob("step-*.pt") if path.stem[5:].isdigit()]
        for path in sorted(whole, key=lambda path: int(path.stem[5:]))[:-3]:
            path.unlink()

    def wants_to_stop(self):
        return self.asked or Path(os.environ.get("RGT_SAVE_FILE", "/nowhere")).exists()

    def train(self):
        def ask(*_):
            self.asked = True

        for name in ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"):
            signal.signal(getattr(signal, name), ask)
        self.load()
        while self.step < self.args.steps:
            if self.wants_to_stop():
                self.save()
                print(f"saved at {self.step}, leaving", flush=True)
                sys.exit(85)
            self.weights = [
                (w * 48271 + self.step + 1 + n) % MODULUS for n, w in enumerate(self.weights)
            ]
            self.step += 1
            self.note("steps", self.mark, self.step, self.saved)
            print(
                f"step {self.step}/{self.args.steps} loss {self.weights[0] / MODULUS:.4f}",
                flush=True,
            )
            if self.step % self.args.every == 0:
                self.save()
            time.sleep(self.args.sleep)
        self.save()
        put(self.args.final, struct.pack("<5q", self.step, *self.weights))
        self.note("finished", self.mark)
        print("finished", flush=True)


def put(path, data):
    """Write a file whole, or not at all."""
    temporary = path.with_name(f"{path.name}.tmp")
    with open(temporary, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


if __name__ == "__main__":
    Trainer(arguments()).train()
