"""What the program was asked for on its command line, beside what is in force."""

import math
import os
import re
import sys

from .facts import brief, count_of, fact, share
from .values import median, number, some
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


# Told in this order where they are imported. Of the other packages two runs are compared.
LIBRARIES = (
    "torch", "transformers", "trl", "peft", "accelerate", "lightning", "pytorch_lightning",
    "deepspeed", "timm", "torchvision", "diffusers", "datasets", "bitsandbytes", "flash_attn",
    "xformers", "numpy",
)  # fmt: skip


def versions():
    """{name: version} of Python and of the packages that are imported, the known ones first."""
    found = {}
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", {})
        told, place = held.get("__version__"), str(held.get("__file__") or "")
        if told is None and name in LIBRARIES:
            told = getattr(module, "__version__", None)  # of one that imports its parts late
        is_package = f"-packages{os.sep}" in place and "." not in name and name[:1] != "_"
        if isinstance(told, str) and (name in LIBRARIES or is_package):
            found[name] = str(told)[:40]
    known = {name: found.pop(name) for name in LIBRARIES if name in found}
    cuda = getattr(getattr(sys.modules.get("torch"), "version", None), "cuda", None)
    known.update({"CUDA": str(cuda)} if cuda else {})
    return {**known, "Python": sys.version.split()[0], **dict(sorted(found.items()))}


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


def by_layer(model):
    """{type: kinds of layers with weights of it}; a kind that has several, with its own name."""
    found = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            kind = found.setdefault(type(module).__name__, {})
            kind.setdefault(str(parameter.dtype).replace("torch.", ""), []).append(name)
    told = {}
    for kind, by_type in found.items():
        for dtype, names in by_type.items():
            several = f"{kind} ({', '.join(sorted(set(names))[:2])})"
            told.setdefault(dtype, []).append(kind if len(by_type) == 1 else several)
    return told


class Settings(Observer):
    """Puts what was asked for beside what is in force."""

    name = "settings"

    def __init__(self, watch):
        super().__init__(watch)
        self.asked = asked(list(sys.argv[1:]))
        self.compiled = {}  # what torch.compile was asked for, in the order of the calls

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
        found += self.of_types() + self.of_attention() + self.of_compiler()
        return found + self.of_difference(rows, folds, world) + self.of_versions()

    def of_versions(self):
        """Versions of what is imported; on the page those of the libraries that train."""
        every = versions()
        known = [name for name in every if name in (*LIBRARIES, "CUDA", "Python")]
        text = ", ".join(f"{name} {every[name]}" for name in known)
        return [{**fact("in force/versions", text), "numbers": every}]

    def before_compile(self, args, kwargs):
        """torch.compile(model, backend=..., mode=...)."""
        backend, told = kwargs.get("backend", "inductor"), []
        if not isinstance(backend, str):
            backend = getattr(backend, "__name__", type(backend).__name__)
        for name in ("mode", "dynamic", "fullgraph", "disable"):
            if kwargs.get(name) not in (None, False):
                told.append(f"{name} {kwargs[name]}")
        self.compiled.setdefault(", ".join([f"backend {backend}", *told])[:120])

    def of_compiler(self):
        """What torch.compile was asked for, and how many graphs it has made."""
        if not self.compiled:
            return []
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
        graphs = int(counters["stats"]["unique_graphs"]) if counters else 0
        breaks = sum(counters["graph_break"].values()) if counters else 0
        text = f"torch.compile: {'; '.join(self.compiled)}; {count_of(graphs, 'graph')}"
        text += f", {count_of(breaks, 'break')}" if breaks else ""
        return [fact("in force/compile", text, asked=list(self.compiled), graphs=graphs)]

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
        cast = bool(self.watch.parts["shapes"].shares)
        size = f"{brief(total / 1e6)} M" if total >= 1e5 else f"{total:,}"
        text = f"{type(models[0]).__name__}: {size} weights, {told}"
        text += ", under autocast" if cast else ""
        found = [fact("in force/types", text, **counted)]
        outputs = self.watch.parts["shapes"].types()
        for name, by_type in (
            ("weights", by_layer(models[0]) if len(counted) > 1 else {}),
            ("outputs", outputs if set(outputs) != set(counted) else {}),
        ):
            if by_type:
                each = ", ".join(f"{kind} of {some(of, 4)}" for kind, of in by_type.items())
                found.append(
                    fact(f"in force/types of {name}", f"{name} by layer: {each}", **by_type)
                )
        return found

    def of_attention(self):
        """The backend of attention that a configuration names."""
        for model in self.watch.models():
            config = getattr(model, "config", None)
            chosen = getattr(config, "_attn_implementation", None)
            if isinstance(chosen, str):
                return [fact("in force/attention", f"attention: {chosen[:40]}", chosen=chosen[:40])]
        if self.watch.parts["shapes"].masks:
            return [fact("in force/attention", "attention: scaled_dot_product_attention")]
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
