"""The twelve shapes of public programs with a loop of their own."""

import csv
import time
from pathlib import Path

import formats
from trainer import Trainer, number


class EndOnly(Trainer):
    """1: writes only at the end."""

    name, write_as = "final.pt", "torch_zip"

    def finish(self, step):
        path = self.out / self.name
        self.put(
            "final",
            step,
            {path: formats.WRITERS[self.write_as](self.meta(step), self.weights("final"))},
        )
        return [path]


class EndOnlySilent(EndOnly):
    """2: the same, in the format of before torch 1.6."""

    name, write_as = "model.pth", "torch_legacy"


class BestOnly(Trainer):
    """3: the best alone, under one name, in place."""

    def save(self, step):
        data = formats.torch_zip(self.meta(step), self.weights("best"))
        self.put("best", step, {self.out / "best_model.pth": data})

    def finish(self, step):
        return [self.out / "best_model.pth"]


class InPlace(Trainer):
    """4: weights and optimizer in two files, in place; resumes from them."""

    def resume(self):
        path = self.out / "checkpoint.pt"
        if not path.exists():
            return None
        formats.read(self.out / "optimizer.pt")
        return self.read_newest([path])

    def save(self, step):
        meta = self.meta(step)
        files = {
            self.out / "checkpoint.pt": formats.torch_zip(meta, self.weights("model")),
            self.out / "optimizer.pt": formats.torch_zip(meta, self.weights("optimizer")),
        }
        self.put("last", step, files)

    def finish(self, step):
        self.save(step)
        return [self.out / "checkpoint.pt"]


class LastAndBest(Trainer):
    """11: last and best in place; nothing loads them."""

    last, best = "last.pth", "best.pth"

    def folder(self):
        return self.out

    def save(self, step):
        folder, meta = self.folder(), self.meta(step)
        self.put("last", step, {folder / self.last: formats.torch_zip(meta, self.weights("last"))})
        self.put("best", step, {folder / self.best: formats.torch_zip(meta, self.weights("best"))})

    def finish(self, step):
        return [self.folder() / self.best]


class Fresh(LastAndBest):
    """5: a folder of its own at each start, by the time."""

    def folder(self):
        if not self.setting("folder"):
            self.settings["folder"] = time.strftime("%Y-%m-%dT%H:%M:%S")
        return self.out / self.setting("folder")


class NumberedResume(Trainer):
    """6: numbered files, goes on from the one that an argument names."""

    def resume(self):
        return self.read_newest([Path(self.argument)]) if self.argument else None

    def save(self, step):
        data = formats.torch_zip(self.meta(step), self.weights("full"))
        self.put("numbered", step, {self.out / f"ckpt_{step:06}.pt": data})

    def finish(self, step):
        self.save(step)
        return [self.out / f"ckpt_{step:06}.pt"]


class NumberedWeights(Trainer):
    """7: numbered weights, nothing resumes."""

    def save(self, step):
        data = formats.torch_legacy(self.meta(step), self.weights("weights"))
        self.put("numbered", step, {self.out / f"epoch_{step // 4}.pth": data})

    def finish(self, step):
        path = self.out / "final_model.pth"
        self.put(
            "final", step, {path: formats.torch_legacy(self.meta(step), self.weights("final"))}
        )
        return [path]


class NumberedState(Trainer):
    """8: numbered full state that nothing loads."""

    def save(self, step):
        data = formats.torch_zip(self.meta(step), self.weights("full"))
        self.put("numbered", step, {self.out / f"model_{step}.pth.tar": data})

    def finish(self, step):
        self.save(step)
        return [self.out / f"model_{step}.pth.tar"]


class AutoResume(LastAndBest):
    """9: last and best in place, goes on from the last by itself and doesn't look whether it is whole."""

    last, best = "latest.pt", "best.pt"

    def resume(self):
        path = self.out / self.last
        return self.read_newest([path]) if path.exists() else None


class FlagResume(LastAndBest):
    """10: last and best, goes on from what an argument names."""

    last, best = "checkpoint_last.pt", "checkpoint_best.pt"

    def resume(self):
        return self.read_newest([Path(self.argument)]) if self.argument else None


class TwoModels(Trainer):
    """11: generator and discriminator, last in place and best, in numpy's format; nothing loads them."""

    def save(self, step):
        meta = self.meta(step)
        for role in ("last", "best"):
            files = {
                self.out / f"{m}_{role}.npz": formats.npz(meta, self.weights(m + role))
                for m in "GD"
            }
            self.put(role, step, files)

    def finish(self, step):
        return [self.out / "G_best.npz"]


class Nothing(Trainer):
    """12: no checkpoint; a table of numbers, opened anew at each start."""

    def resume(self):
        with open(self.out / "metrics.csv", "w", newline="") as file:
            csv.writer(file).writerow(["step", "loss"])

    def report(self, step):
        super().report(step)
        with open(self.out / "metrics.csv", "a", newline="") as file:
            csv.writer(file).writerow([step, f"{self.loss(step):.4f}"])

    def finish(self, step):
        return [self.out / "metrics.csv"]


def latest_by_name(folder, pattern):
    """What a program's own search finds: the highest number, whole or not."""
    return sorted(folder.glob(pattern), key=number)
