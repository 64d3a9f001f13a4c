"""What all programs of the bench have in common: steps, slow saves that tear when they are ended, lines of output, and a journal.

A program finds `settings.json` beside itself, as public programs have their constants in their text. Nothing here reads a variable of the
runner: what a shape takes from it, it takes by its own argument.
"""

import argparse
import hashlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import formats
from journal import Journal

PIECES = 12  # writes of one save


class Trainer:
    """One training. A shape overrides `resume`, `save` and `finish`."""

    resumes = False

    def __init__(self, settings):
        self.settings = settings
        self.out = Path(settings["out"])
        self.journal = Journal(settings["journal"])
        self.argument = ""
        self.began = False

    def setting(self, name, otherwise=None):
        return self.settings.get(name, otherwise)

    # What a shape has of its own.

    def resume(self):
        """The meta of the checkpoint that this program goes on from, or None to begin at 0."""
        return

    def save(self, step):
        """Save what this shape saves at a step."""

    def finish(self, step):
        """Write what is written at the end. Gives the files that are the result."""
        return []

    # The loop.

    def run(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("--resume", "--resume_from_checkpoint", default="")
        parser.add_argument("--config", default="")
        self.argument = parser.parse_known_args()[0].resume
        if self.setting("wipe") and self.out.exists():
            self.delete(self.out)
        self.out.mkdir(parents=True, exist_ok=True)
        if self.setting("handler"):
            signal.signal(signal.SIGTERM, self.save_and_leave)
        if self.setting("children"):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        found = self.resume() or {}
        first = int(found.get("step", 0))
        self.journal.start(found.get("line", ""), first, found.get("source", ""))
        self.step = first
        for step in range(first + 1, self.setting("steps") + 1):
            self.step = step
            time.sleep(self.setting("step_seconds"))
            self.report(self.step)
            if self.is_due(self.step):
                self.save(self.step)
        result = self.finish(self.setting("steps"))
        if export := self.setting("export"):
            data = formats.safetensors(self.meta(self.setting("steps")), self.weights("export"))
            Path(export).parent.mkdir(parents=True, exist_ok=True)
            self.write({Path(export): data})
            result = [*result, Path(export)]
        told = {str(Path(path).absolute()): digest(path) for path in result}
        self.journal.write("result", files=told)
        self.journal.write("finish", step=self.setting("steps"))
        self.say("Done!")
        if self.setting("wrong_exit"):
            sys.exit(1)

    def is_due(self, step):
        """Whether this step saves: at the named ones, then every so many."""
        named, every = self.setting("saves"), self.setting("every")
        return step in named or (step > max(named, default=0) and step % every == 0)

    def save_and_leave(self, *_):
        self.save(self.step)
        sys.exit(0)

    # Output.

    def loss(self, step):
        nan_from = self.setting("nan_from", 0)
        return float("nan") if nan_from and step >= nan_from else 2 / (1 + step / 20)

    def report(self, step):
        style, loss = self.setting("prints"), self.loss(step)
        total, per_epoch = self.setting("steps"), 4
        if style == "step":
            print(f"step {step}/{total} loss {loss:.4f}", flush=True)
        elif style == "dict":
            print({"loss": f"{loss:.4f}", "epoch": f"{step / 10:.2f}"}, flush=True)
        elif style == "megatron":
            print(
                f" iteration {step:8d}/{total:8d} | consumed samples: {step * 8:12d} | lm loss: {loss:.6E} |",
                flush=True,
            )
        elif style == "logger":
            logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
            logging.info("Iter [%d/%d] loss: %.4f", step, total, loss)
        elif style == "bar":
            bar = "#" * (20 * step // total)
            sys.stderr.write(
                f"\r{100 * step // total:3d}%|{bar:20}| {step}/{total} [00:{step:02d}<00:00, 2.00it/s]"
            )
            sys.stderr.flush()
        elif style == "bar on stdout":
            sys.stdout.write(
                f"\rEpoch 0: {100 * step // total}%|####| {step}/{total} [v_num=0, train_loss={loss:.3f}]"
            )
            sys.stdout.flush()
        elif style == "epoch" and step % per_epoch == 0:
            print(f"Epoch {step // per_epoch}: train loss {loss:.4f}", flush=True)
        elif style == "bar+epoch":
            sys.stderr.write(f"\r{step % per_epoch}/{per_epoch} it")
            if step % per_epoch == 0:
                print(f"Epoch {step // per_epoch}/{total // per_epoch} loss {loss:.4f}", flush=True)

    def say(self, text):
        if self.setting("prints") != "silent":
            print(text, flush=True)

    # Saves.

    def meta(self, step):
        return {"step": step, "line": self.journal.line}

    def weights(self, name):
        seed = f"{self.journal.line}-{self.step}-{name}-{self.setting('seed', 0)}"
        return formats.draw_bytes(seed, self.setting("size"))

    def put(self, role, step, files):
        """Write the files of one checkpoint, {path: bytes}, in this order, within the seconds that a save takes."""
        name = self.journal.begin(role, step, files)
        self.write(files)
        self.journal.end(name, files)

    def write(self, files):
        """Straight into the final names, in pieces, as the libraries do."""
        pause = self.setting("save_seconds") / PIECES / len(files)
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            one = len(data) // PIECES + 1
            with open(path, "wb") as file:
                for at in range(0, len(data), one):
                    time.sleep(pause)  # before, so that a save is whole only when it has ended
                    file.write(data[at : at + one])
                    file.flush()  # all of a piece, or an error

    def read_newest(self, paths):
        """The meta of the last of these files, with its path as `source`."""
        paths = list(paths)
        return {**formats.read(paths[-1]), "source": str(paths[-1])} if paths else None

    def delete(self, path):
        self.journal.write("delete", path=str(path.absolute()))
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def read_settings():
    return json.loads(Path(__file__).with_name("settings.json").read_text())


def number(path):
    """The last number in a name."""
    digits = "".join(c if c.isdigit() else " " for c in path.stem).split()
    return int(digits[-1]) if digits else -1


def is_rank_zero():
    return os.environ.get("RANK", "0") == "0"
