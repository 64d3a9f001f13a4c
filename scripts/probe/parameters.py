"""Parameters around each step of an optimizer: who has a gradient, and who moves."""

import weakref

from .table import finding
from .values import local_part, median, sample, some, strided
from .watching import Observer

# Their optimizers hold parts of the weights under other tensors.
SHARDERS = ("DeepSpeedEngine", "FullyShardedDataParallel")
HALF = ("torch.bfloat16", "torch.float16")


class Seen:
    """What one parameter showed over the steps that were looked at."""

    def __init__(self, parameter):
        self.ref = weakref.ref(parameter)
        self.dtype = str(parameter.dtype)
        self.dim = parameter.dim()
        self.looks = self.with_gradient = self.nonzero = 0
        self.stuck = self.moved = 0
        self.pushed = self.followed = 0  # elements with a gradient, and those of them that moved
        self.frozen_moved = []
        self.poisoned = []
        self.ratios, self.sizes, self.zeros = [], [], []
        self.rates = []


class Parameters(Observer):
    """Looks before and after optimizer.step()."""

    name = "parameters"

    def __init__(self, watch):
        super().__init__(watch)
        self.optimizers = {}  # id -> {ref, steps, skipped, rates, kind}
        self.seen = {}  # id of the parameter -> Seen
        self.before = {}  # id of the optimizer -> {id of the parameter: sample}
        self.squares = []  # (step, square of the gradient's norm, by a sample) of matrices
        self.outside = {}  # id of the parameter -> looks with a gradient outside each optimizer

    def of(self, optimizer):
        """The record of an optimizer."""
        held = self.optimizers.get(id(optimizer))
        if held is None or held["ref"]() is not optimizer:
            self.optimizers[id(optimizer)] = {
                "ref": weakref.ref(optimizer),
                "steps": 0,
                "skipped": 0,
                "rates": [],
                "type": type(optimizer).__name__,
                "ours": type(optimizer).__module__,
                "decay": max([float(g.get("weight_decay") or 0) for g in optimizer.param_groups]),
                "decoupled": any(g.get("decoupled_weight_decay") for g in optimizer.param_groups),
            }
        return self.optimizers[id(optimizer)]

    def due(self, steps):
        """Whether step number `steps` is looked at in full."""
        return steps <= 6 or steps % 4 == 0

    def before_step(self, optimizer):
        """Copy a sample of each weight."""
        held = self.of(optimizer)
        if self.due(held["steps"] + 1):
            self.before[id(optimizer)] = {
                id(p): sample(p) for group in optimizer.param_groups for p in group["params"]
            }

    def after_step(self, optimizer):
        """Compare each weight with its sample, and with its gradient."""
        held = self.of(optimizer)
        held["steps"] += 1
        held["rates"].append(max(float(group["lr"]) for group in optimizer.param_groups))
        before = self.before.pop(id(optimizer), None)
        if before is None:
            self.look_for_nan(optimizer, held["steps"])
        if before is not None:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) in before:
                        rate = float(group["lr"])
                        self.compare(parameter, before[id(parameter)], rate, held["steps"])
            self.look_outside()

    def look_for_nan(self, optimizer, step):
        """In a step that isn't looked at in full: whether weights ceased to be finite."""
        for group in optimizer.param_groups:
            for parameter in group["params"][:1]:
                seen = self.seen.get(id(parameter))
                if seen is None or seen.poisoned or parameter.grad is None:
                    continue
                if parameter.grad.is_sparse or bool(strided(parameter, 256).isfinite().all()):
                    continue
                if not bool(strided(parameter.grad, 256).isfinite().all()):
                    seen.poisoned.append(step)

    def compare(self, parameter, before, rate, step):
        """One parameter in one step."""
        seen = self.seen.get(id(parameter))
        if seen is None or seen.ref() is not parameter:
            seen = self.seen[id(parameter)] = Seen(parameter)
        seen.looks += 1
        seen.rates.append(rate)
        after = strided(parameter)
        if after.numel() != before.numel() or not after.numel():
            return
        changed = after != before
        moved = int(changed.sum())
        seen.moved += bool(moved)
        if not parameter.requires_grad and moved:
            seen.frozen_moved.append(step)
        gradient = parameter.grad
        if gradient is None:
            return
        seen.with_gradient += 1
        if gradient.is_sparse:
            seen.nonzero += 1
            return
        gradient = strided(local_part(gradient))
        if gradient.numel() != after.numel():
            return
        pushed = gradient != 0
        count = int(pushed.sum())
        seen.zeros.append(1 - count / gradient.numel())
        if not bool(after.isfinite().all()):
            if bool(before.isfinite().all()) and not bool(gradient.isfinite().all()):
                seen.poisoned.append(step)
            return
        if not count:
            return
        seen.nonzero += 1
        if rate > 0:
            followed = int((changed & pushed).sum())
            seen.stuck += followed == 0
            seen.pushed += count
            seen.followed += followed
        if parameter.dim() >= 2:
            seen.sizes.append(float(gradient.float().pow(2).mean().sqrt()))
            self.squares.append((step, seen.sizes[-1] ** 2 * parameter.numel()))
            size = float(before.float().pow(2).mean().sqrt())
            if size > 0 and moved:
                difference = after.float() - before.float()
                seen.ratios.append((step, float(difference.pow(2).mean().sqrt()) / size))

    def look_outside(self):
        """Count parameters of the models that have a gradient and no optimizer."""
        held = self.held()
        for model in self.watch.models():
            for parameter in model.parameters():
                if id(parameter) in held or parameter.grad is None or not parameter.requires_grad:
                    continue
                if parameter.grad.is_sparse or bool(strided(parameter.grad).any()):
                    self.outside[id(parameter)] = self.outside.get(id(parameter), 0) + 1

    def held(self):
        """The ids of the parameters in all optimizers that took a step."""
        optimizers = [held["ref"]() for held in self.optimizers.values()]
        return {
            id(p)
            for optimizer in optimizers
            if optimizer is not None
            for group in optimizer.param_groups
            for p in group["params"]
        }

    def findings(self):
        """What the parameters showed."""
        step, names = self.watch.step, self.watch.names()
        known = {
            names.get(key, f"parameter of shape {tuple(seen.ref().shape)}"): seen
            for key, seen in self.seen.items()
            if seen.ref() is not None
        }
        found = []
        if step >= 3:
            found += self.still(step, names, known) + self.dull(step, known)
            found += self.unreached(step, names, known) + self.parts_of_models(step, names)
        thawed = {name: seen.frozen_moved for name, seen in known.items() if seen.frozen_moved}
        if thawed:
            steps = sorted({when for moved in thawed.values() for when in moved})
            found.append(
                finding(
                    "frozen weight moves",
                    steps[0],
                    f"{some(thawed)} have requires_grad=False and changed in {len(steps)} of the "
                    "steps that were looked at",
                    parameters=list(thawed)[:20],
                    steps=steps[:20],
                )
            )
        poisoned = {name: seen for name, seen in known.items() if seen.poisoned}
        if poisoned:
            first = min(seen.poisoned[0] for seen in poisoned.values())
            found.append(
                finding(
                    "nan enters the weights",
                    first,
                    f"{some(poisoned)} were finite before step {first}, got a gradient that "
                    "isn't, and are not finite after",
                    parameters=list(poisoned)[:20],
                )
            )
        for held in self.optimizers.values():
            if held["type"] == "Adam" and held["decay"] > 0 and not held["decoupled"]:
                found.append(
                    finding(
                        "decay in Adam",
                        1,
                        "torch.optim.Adam with weight_decay={:g}".format(held["decay"]),
                        weight_decay=held["decay"],
                    )
                )
        return found

    def still(self, step, names, known):
        """Weights that get a gradient and don't move, in an optimizer or outside it."""
        found = []
        fixed = [
            n
            for n, s in known.items()
            if s.stuck >= 3
            and s.stuck == s.nonzero
            and s.dtype not in HALF
            # A long warm-up begins with steps that are too small for float32.
            and s.rates[-1] <= 1.2 * s.rates[0]
        ]
        if fixed:
            found.append(
                finding(
                    "weights stand still",
                    step,
                    f"{some(fixed)} had a gradient that isn't zero and a rate above 0, and no "
                    "element of the "
                    "sample changed in any step",
                    parameters=fixed[:20],
                )
            )
        half = {n: s for n, s in known.items() if s.dtype in HALF and s.pushed}
        pushed = sum(s.pushed for s in half.values())
        followed = sum(s.followed for s in half.values())
        if pushed and followed < 0.5 * pushed:
            plain = all(h["ours"].startswith("torch.optim") for h in self.optimizers.values())
            found.append(
                finding(
                    "bf16 swallows steps",
                    step,
                    f"{len(half)} weights in {next(iter(half.values())).dtype}: "
                    f"{followed / pushed:.0%} of the elements with a gradient changed in a step",
                    level=None if plain else "hint",
                    share=round(followed / pushed, 4),
                )
            )
        outside = [names[key] for key, looks in self.outside.items() if looks >= 2 and key in names]
        if any(type(model).__name__ in SHARDERS for model in self.watch.models()):
            outside = []
        if outside and self.held() & set(names):
            found.append(
                finding(
                    "outside the optimizer",
                    step,
                    f"{some(outside)} get a gradient that isn't zero, and no optimizer that "
                    "steps has them",
                    parameters=outside[:20],
                    count=len(outside),
                )
            )
        elif outside and not any(seen.with_gradient for seen in self.seen.values()):
            found.append(
                finding(
                    "weights stand still",
                    step,
                    f"{some(outside)} get a gradient, and the optimizer holds none of them; none "
                    "of its own "
                    "parameters ever had a gradient",
                    parameters=outside[:20],
                    count=len(outside),
                )
            )
        return found

    def dull(self, step, known):
        """Steps that are tiny or huge beside the weights."""
        by_step = {}
        for seen in known.values():
            for when, ratio in seen.ratios:
                by_step.setdefault(when, []).append(ratio)
        medians = [median(ratios) for when, ratios in sorted(by_step.items()) if when > 2]
        if len(medians) < 3 or any(seen.dtype in HALF for seen in known.values()):
            return []
        warming = max(medians) == medians[-1] and medians[-1] > 1.2 * medians[0]
        told = (
            f"the median matrix changes by {median(medians):.1e} of its size in a step, "
            f"{max(medians):.1e} at most"
        )
        if max(medians) < 2e-5 and not warming:
            return [finding("tiny updates", step, told, ratio=median(medians))]
        if median(medians) > 0.1:
            return [finding("huge updates", step, told, ratio=median(medians))]
        return []

    def unreached(self, step, names, known):
        """Parameters that were used in the forward pass and never got a gradient."""
        ran = self.watch.parts["modes"].ran if "modes" not in self.watch.failed else set()
        silent = [
            names[key]
            for key, seen in self.seen.items()
            if key in names
            and key in ran
            and seen.ref() is not None
            and seen.ref().requires_grad
            and not seen.with_gradient
            and key not in self.outside
        ]
        some_learn = any(seen.nonzero for seen in known.values())
        if silent and some_learn:
            return [
                finding(
                    "no gradient",
                    step,
                    f"{some(silent)} are in the optimizer and their modules ran, but .grad is "
                    "None in each step",
                    parameters=silent[:20],
                    count=len(silent),
                )
            ]
        return []

    def parts_of_models(self, step, names):
        """Adapters and the parts of vision-language models, by their names."""
        held, found = self.held(), []
        for model in self.watch.models():
            named = dict(model.named_parameters())
            if not any(id(p) in held for p in named.values()):
                continue
            adapters = [n for n in named if ".lora_" in n or n.startswith("lora_")]
            trains = [n for n in adapters if named[n].requires_grad and id(named[n]) in held]
            if adapters and not trains:
                found.append(
                    finding(
                        "adapters don't train",
                        step,
                        f"none of {len(adapters)} adapter weights ({some(adapters, 2)}) is "
                        "trainable and in the optimizer",
                        count=len(adapters),
                    )
                )
            vision = [n for n in named if any(w in n for w in ("vision_", "visual", "image_enc"))]
            bridge = [
                n
                for n in named
                if any(w in n for w in ("projector", "connector", "merger")) and n not in vision
            ]
            rest = [n for n in named if n not in vision and n not in bridge]
            if vision and bridge and rest:

                def on(group, named=named):
                    return [n for n in group if named[n].requires_grad and id(named[n]) in held]

                if not on(bridge) and (on(rest) or on(vision)):
                    found.append(
                        finding(
                            "connector is frozen",
                            step,
                            f"none of {len(bridge)} weights of the connector "
                            f"({some(bridge, 2)}) trains; others do",
                            count=len(bridge),
                        )
                    )
                rates = {
                    r for n in on(vision) + on(rest) for r in self.seen[id(named[n])].rates[-1:]
                }
                if on(vision) and on(rest) and len(rates) == 1 and max(rates) > 1e-4:
                    found.append(
                        finding(
                            "one vision rate",
                            step,
                            f"{len(on(vision))} weights of the vision part and {len(on(rest))} "
                            f"of the rest train at {max(rates):g}",
                            rate=max(rates),
                        )
                    )
        return found
