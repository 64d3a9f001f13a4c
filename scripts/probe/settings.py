"""What the program was asked for on its command line, beside what is in force."""

import math
import re
import sys

from .facts import brief, count_of, fact, share
from .values import median, number
from .watching import Observer

# What a flag's name asks for, the most special first.
ASKED = (
    ("accumulation", re.compile(r"(?i)accum")),
    ("clip", re.compile(r"(?i)^(grad(ient)?_?)?clip(ping)?(_?grad)?(_?norm)?$|^max_(grad_)?norm$")),
    ("decay", re.compile(r"(?i)weight_?decay|^wd$")),
    ("epochs", re.compile(r"(?i)^(n_|num_|train_|max_|num_train_)*epochs?$")),
    ("steps", re.compile(r"(?i)^((n|num|max|total)_?(train(ing)?|update)?|train)_?(step|iter)s$")),
    ("workers", re.compile(r"(?i)^(num_?|n_?)?(data_?loader_?)?(num_?)?workers$")),
    ("batch", re.compile(r"(?i)^(per_device_)?(train_)?(micro_)?batch(_?size)?$|^bs$")),
    ("rate", re.compile(r"(?i)^(base_|max_|peak_)?(lr|learning_?rate)$")),
)  # fmt: skip


def asked(words):
    """{what: (flag, value)} of the numbers on a command line.

    Of a flag that stands twice the last counts. What several flags ask for isn't told.
    """
    found = {}
    for word, value in zip(words, [*words[1:], ""]):
        flag = word.lstrip("-")
        if re.fullmatch(r"-*[\w.-]+=[^=]+", word):
            flag, value = flag.split("=", 1)
        elif not word.startswith("-"):
            continue
        if number(value) is None:
            continue
        name = flag.split(".")[-1].replace("-", "_")
        what = next((what for what, pattern in ASKED if pattern.search(name)), None)
        if what:
            found.setdefault(what, {})[flag] = number(value)
    return {what: held.popitem() for what, held in found.items() if len(held) == 1}


class Settings(Observer):
    """Puts what was asked for beside what is in force."""

    name = "settings"

    def __init__(self, watch):
        super().__init__(watch)
        self.asked = asked(list(sys.argv[1:]))

    def accumulated(self):
        """Batches for each step: losses that went back, each batch of a loader once."""
        windows = [window for window in self.watch.parts["gradients"].windows if window[0]]
        drawn = [min(backwards, batches) for backwards, _, batches in windows if batches]
        return median(drawn or [backwards for backwards, _, _ in windows] or [1])

    def planned(self):
        """About how many steps the run has; 0 where nothing tells."""
        if self.asked.get("steps", ("", 0))[1] > 0:
            return int(self.asked["steps"][1])
        training = self.watch.parts["batches"].training()
        length = training[0].length if training else 0
        if self.asked.get("epochs", ("", 0))[1] > 0 and length:
            return int(self.asked["epochs"][1] * length / max(1, self.accumulated()))
        return 0

    def facts(self):
        """Types, batch, schedule; then what differs from the command line."""
        parts, found = self.watch.parts, []
        world, folds = parts["ranks"].size(), self.accumulated()
        rows = parts["batches"].rows() or parts["inputs"].rows()
        if rows:
            text = f"{count_of(rows, 'row')} a batch"
            if folds > 1 and not parts["batches"].rows():
                text += f", {folds} backward passes a step"  # LBFGS takes one batch several times
            else:
                text += f" x {folds} batches a step" if folds > 1 else ""
                text += f" x {world} ranks" if world > 1 else ""
                text += f" = {rows * folds * world:,}" if folds * world > 1 else ""
            found.append(fact("in force/batch", text, rows=rows, accumulated=folds, world=world))
        found += self.of_types() + self.of_attention() + self.of_difference(rows, folds, world)
        return found

    def of_types(self):
        """Types of the weights, by their number, and what the configuration says."""
        counted = {}
        models = self.watch.models()
        for model in models[:1]:
            for parameter in model.parameters():
                kind = str(parameter.dtype).replace("torch.", "")
                counted[kind] = counted.get(kind, 0) + parameter.numel()
        total = sum(counted.values())
        if not total:
            return []
        told = ", ".join(f"{kind} {share(n / total)}" for kind, n in counted.items())
        cast = any(self.watch.parts["shapes"].shares)
        size = f"{brief(total / 1e6)} M" if total >= 1e5 else f"{total:,}"
        text = f"{type(models[0]).__name__}: {size} weights, {told}"
        text += ", under autocast" if cast else ""
        return [fact("in force/types", text, **counted)]

    def of_attention(self):
        """The backend of attention that a configuration names."""
        for model in self.watch.models():
            config = getattr(model, "config", None)
            chosen = getattr(config, "_attn_implementation", None)
            if isinstance(chosen, str):
                return [fact("in force/attention", f"attention: {chosen[:40]}", chosen=chosen[:40])]
        return []

    def of_difference(self, rows, folds, world):
        """What the command line asked for and isn't so."""
        found = []
        optimizers = list(self.watch.parts["parameters"].optimizers.values())
        rates = [rate for held in optimizers for rate in held["rates"]]
        norms = self.watch.parts["gradients"].norms
        training = self.watch.parts["batches"].training()
        now = {
            "rate": max(rates, default=None),
            "batch": rows or None,
            "accumulation": folds,
            "clip": norms[0][2] if norms else 0,
            "decay": max([held["decay"] for held in optimizers], default=None),
            "workers": training[0].workers if training else None,
        }
        for what, (flag, value) in self.asked.items():
            held = now.get(what)
            # A batch may be asked for as one of all ranks, or of all that a step takes.
            ways = {1, folds, world, folds * world} if what == "batch" else {1}
            if held is None or any(math.isclose(held * n, value, rel_tol=1e-6) for n in ways):
                continue
            if what == "rate" and held < value:
                continue  # it warms up, or falls
            text = f"--{flag} asks for {value:g}; in force is {held:g}"
            found.append(
                fact(f"in force/--{flag}", text, "what was asked for", asked=value, held=held)
            )
        return found
