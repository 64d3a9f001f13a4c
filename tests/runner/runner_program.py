"""A small trainer for tests of the run script: same weights whatever happens to it, if each step is done once on what was saved.

usage: runner_program.py [--steps N] [--every N] [--resume-from PATH] [knobs]

A step changes four numbers by integer arithmetic. A checkpoint is a zip (as torch writes) with the step and the numbers, put in place
at once; the last three are kept. Every step is written to RGT_RUN_DIR/steps.log with the step of the newest checkpoint that was
there, so a test can see whether work was repeated. With WORLD_SIZE over 1 the ranks add up their parts by torch's gloo.
"""

import argparse
import glob
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
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--sleep", type=float, default=0.05)
    parser.add_argument("--resume-from", default="")
    parser.add_argument("--pad", type=int, default=0, help="bytes of ballast in each checkpoint")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--hang-at", type=int, default=-1)
    parser.add_argument(
        "--fail-at", type=int, default=-1, help="in the first attempts, see --fail-times"
    )
    parser.add_argument("--fail-times", type=int, default=10**9)
    parser.add_argument("--fail-code", type=int, default=1)
    parser.add_argument("--say", default="", help="a text on stderr before the failure")
    parser.add_argument("--final", default="final.bin")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--local_rank", help="DeepSpeed's launcher gives it to every program")
    return parser.parse_args()


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.attempt = int(os.environ.get("RGT_ATTEMPT", "1"))
        self.folder = Path(os.environ["RGT_CHECKPOINT_DIR"])
        self.run = Path(os.environ["RGT_RUN_DIR"])
        self.asked = False
        self.weights, self.step, self.saved = [1, 2, 3, 4], 0, 0
        if self.world > 1:
            import torch
            import torch.distributed

            self.torch = torch
            torch.distributed.init_process_group("gloo")

    def newest(self):
        found = glob.glob(str(self.folder / "step-*.pt"))
        return max(found, key=lambda name: int(name.rsplit("-", 1)[1][:-3]), default="")

    def load(self):
        path = self.args.resume_from or os.environ.get("RGT_RESUME_FROM", "") or self.newest()
        if not path:
            return
        with zipfile.ZipFile(path) as archive:
            self.step, *self.weights = struct.unpack("<5q", archive.read("data"))
        self.saved = self.step
        self.say(f"resumed from {path}")

    def save(self):
        if self.rank or self.saved == self.step:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = io.BytesIO()
        with zipfile.ZipFile(memory, "w") as archive:
            archive.writestr("data", struct.pack("<5q", self.step, *self.weights))
            archive.writestr("ballast", b"\1" * self.args.pad)
        tmp = self.folder / f"step-{self.step}.pt.tmp"
        with open(tmp, "wb") as stream:
            stream.write(memory.getvalue())
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(tmp, self.folder / f"step-{self.step}.pt")
        self.saved = self.step
        older = sorted(self.folder.glob("step-*.pt"), key=lambda path: int(path.stem[5:]))[:-3]
        for path in older:
            path.unlink()

    def add_up(self, value):
        if self.world == 1:
            return value
        tensor = self.torch.tensor([value], dtype=self.torch.int64)
        self.torch.distributed.all_reduce(tensor)
        return int(tensor.item())

    def one_step(self):
        share = self.add_up((self.step + 1) * (self.rank + 1))
        self.weights = [(w * 48271 + share + n) % MODULUS for n, w in enumerate(self.weights)]
        self.step += 1
        if self.rank == 0:
            with open(self.run / "steps.log", "a") as log:
                log.write(f"{self.attempt} {self.step} {self.saved}\n")
            if not self.args.quiet:
                self.say(f"step {self.step}/{self.args.steps} loss {self.weights[0] / MODULUS:.4f}")

    def say(self, text):
        print(text, flush=True)

    def wants_to_stop(self):
        here = self.asked or (
            not self.args.ignore_term and Path(os.environ.get("RGT_SAVE_FILE", "/nowhere")).exists()
        )
        return self.add_up(int(here)) > 0

    def knobs(self):
        args = self.args
        if self.step == args.hang_at and self.attempt <= args.fail_times:
            self.say("hanging")
            while True:
                time.sleep(3600)
        if self.step == args.fail_at and self.attempt <= args.fail_times:
            if args.say:
                print(args.say, file=sys.stderr, flush=True)
            os._exit(args.fail_code) if args.fail_code else None

    def train(self):
        def note(*_):
            self.asked = True

        for name in ("SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT"):
            signal.signal(getattr(signal, name), signal.SIG_IGN if self.args.ignore_term else note)
        self.load()
        while self.step < self.args.steps:
            if self.wants_to_stop():
                self.save()
                self.say(f"saved at {self.step}, leaving")
                sys.exit(85)
            self.knobs()
            self.one_step()
            if self.step % self.args.every == 0:
                self.save()
            time.sleep(self.args.sleep)
        self.save()
        if self.rank == 0:
            final = Path(self.args.final)
            final.with_suffix(".tmp").write_bytes(struct.pack("<5q", self.step, *self.weights))
            os.replace(final.with_suffix(".tmp"), final)
        self.say("finished")


if __name__ == "__main__":
    Trainer(arguments()).train()
