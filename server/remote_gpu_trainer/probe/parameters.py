"""Parameters around each step of an optimizer: who has a gradient, and who moves."""

import gc
import weakref

from .facts import brief, count_of, fact, share
from .table import finding
from .values import local_part, median, middle_or_less, number, sample, some, strided
from .watching import Observer

# Their optimizers hold parts of the weights under other tensors.
SHARDERS = ("DeepSpeedEngine", "FullyShardedDataParallel")
HUGE = 0.5  # of a matrix, in one step; a thousandth is usual
USUALLY_STILL = ("frozen", "no gradient came", "in no optimizer, no gradient")
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
        self.jumps = []  # (step, change beside the weights, or beside those of a usual start)
        self.rates = []


def rate_of(group):
    """The learning rate of a parameter group, or None where it isn't a number."""
    return number(group.get("lr"))


def is_adapter(name):
    """Whether a parameter's name is that of LoRA's matrices."""
    return ".lora_" in name or name.startswith("lora_")


def above_rounding(gradient, before, rate):
    """Whether a step along a gradient should show in the weights, whatever the optimizer.

    An optimizer that normalises takes at least rate times the gradient where that is below 1.
    """
    import torch

    step = rate * gradient.abs().float().clamp(max=1.0)
    room = 4 * torch.finfo(before.dtype).eps * before.abs().float()
    return bool(gradient.isfinite().all()) and bool((step > room + 1e-30).any())


class Parameters(Observer):
    """Looks before and after optimizer.step()."""

    name = "parameters"

    def __init__(self, watch):
        super().__init__(watch)
        self.optimizers = {}  # id -> {ref, steps, skipped, rates, kind}
        self.built = []  # weak references to all optimizers
        self.seen = {}  # id of the parameter -> Seen
        self.before = {}  # id of the optimizer -> {id of the parameter: sample}
        self.squares = []  # (step, square of the gradient's norm, by a sample) of matrices
        self.outside = {}  # id of the parameter -> [weak reference, looks with a gradient]
        self.unread = set()  # (type of the optimizer, its lr) of groups without a number there

    def after_built(self, token, result, args, kwargs):
        """An optimizer was made. It may hold parameters long before its first step."""
        if len(self.built) < 64:
            self.built.append(weakref.ref(args[0]))

    def of(self, optimizer):
        """The record of an optimizer."""
        held = self.optimizers.get(id(optimizer))
        if held is None or held["ref"]() is not optimizer:
            groups = optimizer.param_groups
            self.optimizers[id(optimizer)] = {
                "ref": weakref.ref(optimizer),
                "steps": 0,
                "skipped": 0,
                "rates": [],
                "alive": False,  # whether any gradient wasn't zero
                "dead": [],  # in each look before that: whether all gradients were None
                "type": type(optimizer).__name__,
                "ours": type(optimizer).__module__,
                "decay": max([number(g.get("weight_decay")) or 0.0 for g in groups] or [0.0]),
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
        rates = [rate_of(group) for group in optimizer.param_groups]
        known = [rate for rate in rates if rate is not None]
        if known:
            held["rates"].append(max(known))
        before = self.before.pop(id(optimizer), None)
        if before is None:
            self.look_for_nan(optimizer, held["steps"])
            return
        for group, rate in zip(optimizer.param_groups, rates):
            if rate is None:
                self.unread.add((held["type"], str(group.get("lr"))[:40]))
            for parameter in group["params"]:
                if id(parameter) in before:
                    self.compare(parameter, before[id(parameter)], rate, held["steps"])
        if not held["alive"]:
            self.look_for_life(optimizer, held, any(rate != 0 for rate in rates))
        self.look_outside()

    def look_for_life(self, optimizer, held, has_rate):
        """Whether any gradient of an optimizer isn't zero. Most have one in the first step."""
        every = [p for group in optimizer.param_groups for p in group["params"]]
        seen = [self.seen[id(p)] for p in every if id(p) in self.seen]
        given = [p.grad for p in every if p.grad is not None]
        # An optimizer that clears the gradients itself has none left, but its weights move.
        held["alive"] = any(one.nonzero for one in seen) or (
            not given and any(one.moved for one in seen)
        )
        for gradient in [] if held["alive"] else given:
            part = gradient._values() if gradient.is_sparse else local_part(gradient)
            if bool(part.any()):
                held["alive"] = True
                break
        mine = any(p.requires_grad and local_part(p).numel() for p in every)
        if not held["alive"] and has_rate and mine:
            held["dead"].append(not given)

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
        """One parameter in one step. `rate` is None where nobody can tell."""
        seen = self.seen.get(id(parameter))
        if seen is None or seen.ref() is not parameter:
            seen = self.seen[id(parameter)] = Seen(parameter)
        seen.looks += 1
        if rate is not None:
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
        if rate is not None and rate > 0:
            followed = int((changed & pushed).sum())
            seen.stuck += followed == 0 and above_rounding(gradient, before, rate)
            seen.pushed += count
            seen.followed += followed
        if parameter.dim() >= 2:
            seen.sizes.append(float(gradient.float().pow(2).mean().sqrt()))
            self.squares.append((step, seen.sizes[-1] ** 2 * parameter.numel()))
            size = float(before.float().pow(2).mean().sqrt())
            if size > 0 and rate != 0:
                difference = after.float() - before.float()
                change = float(difference.pow(2).mean().sqrt())
                seen.ratios.append((step, change / size))
                # A weight that begins at 0, as LoRA's B, is new and not small.
                start = (3 * parameter.numel() / parameter.shape[0]) ** -0.5
                seen.jumps.append((step, change / max(size, start)))

    def look_outside(self):
        """Count parameters of the models that have a gradient and no optimizer."""
        held = self.held(waiting=True)
        for model in self.watch.models():
            for parameter in model.parameters():
                if id(parameter) in held or parameter.grad is None or not parameter.requires_grad:
                    continue
                if id(parameter) in self.seen and self.seen[id(parameter)].ref() is parameter:
                    continue  # left from an optimizer that is gone
                if parameter.grad.is_sparse or bool(strided(parameter.grad).any()):
                    held_there = self.outside.get(id(parameter))
                    if held_there is None or held_there[0]() is not parameter:
                        held_there = self.outside[id(parameter)] = [weakref.ref(parameter), 0]
                    held_there[1] += 1

    def held(self, waiting=False):
        """The ids of the parameters in all optimizers that took a step, or that wait for one."""
        optimizers = [held["ref"]() for held in self.optimizers.values()]
        if waiting:
            optimizers += [ref() for ref in self.built]
        return {
            id(p)
            for optimizer in optimizers
            if optimizer is not None
            for group in optimizer.param_groups
            for p in group["params"]
        }

    def facts(self):
        """What trains, what never moved and why, and how far a step goes."""
        names, held = self.watch.names(), self.held()
        moved, still, matrices = 0, {}, set()
        for model in self.watch.models():
            if not any(id(p) in held for p in model.parameters()):
                continue
            for parameter in model.parameters():
                seen = self.seen.get(id(parameter))
                if seen is not None and seen.moved:
                    moved += 1
                else:
                    why = self.why_still(parameter, seen, id(parameter) in held)
                    still.setdefault(why, []).append(names.get(id(parameter), "?"))
                    matrices |= {why} if parameter.dim() >= 2 else set()
        found = []
        if moved:
            found.append(fact("weights/moved", f"{count_of(moved, 'tensor')} moved", moved=moved))
        for why, these in still.items():
            text = f"{count_of(len(these), 'tensor')} never moved, {why}: {some(these, 3)}"
            # A bias alone may have no effect on the loss, as one that softmax takes out again.
            is_odd = why in matrices and why not in USUALLY_STILL
            usual = "all that get a gradient move" if is_odd else ""
            found.append(fact(f"weights/still, {why}", text, usual, count=len(these)))
        ratios = [ratio for seen in self.seen.values() for _, ratio in seen.ratios]
        if ratios:
            text = f"the median matrix changes by {brief(median(ratios))} of its size in a step"
            found.append(fact("weights/step", text, ratio=median(ratios)))
        half = [seen for seen in self.seen.values() if seen.dtype in HALF and seen.pushed]
        if half:
            part = sum(seen.followed for seen in half) / sum(seen.pushed for seen in half)
            text = (
                f"{count_of(len(half), 'tensor')} of {half[0].dtype[6:]}: a step changes "
                f"{share(part)} of the elements that have a gradient"
            )
            found.append(fact("weights/half", text, "all" if part < 0.9 else "", share=part))
        return found

    def why_still(self, parameter, seen, held):
        """Why a weight never moved."""
        if not parameter.requires_grad:
            return "frozen"
        if not held:
            return "in no optimizer" + ("" if id(parameter) in self.outside else ", no gradient")
        if seen is None or not seen.with_gradient:
            return "no gradient came"
        if not seen.nonzero:
            return "its gradient was exactly 0"
        return "rate 0" if not any(seen.rates) else "each step is below its rounding"

    def unseen(self):
        """Why nothing can be said, if so."""
        if any(seen.looks >= 3 for seen in self.seen.values()):
            return ""
        return "no optimizer took three steps that were looked at"

    def partly(self):
        """What of it couldn't be looked at."""
        if not self.unread:
            return ""
        told = sorted(f"{kind}, lr={rate}" for kind, rate in self.unread)
        return f"parameter groups whose rate isn't a number ({some(told, 3)})"

    def findings(self):
        """What the parameters showed."""
        step, names = self.watch.step, self.watch.names()
        known = [
            (names.get(key, f"parameter of shape {tuple(seen.ref().shape)}"), seen)
            for key, seen in self.seen.items()
            if seen.ref() is not None
        ]
        checks = [(self.thawed, known), (self.poisoned, known)]
        if step >= 3:
            outside = self.of_outside(names)
            checks += [
                (self.lifeless, step, names, outside),
                (self.still, step, known),
                (self.forgotten, step, names, outside),
                (self.rounded, step, known),
                (self.dull, step, known),
                (self.unreached, step, names),
                (self.parts_of_models, step),
            ]
        return self.each(*checks)

    def thawed(self, known):
        """Frozen weights that moved."""
        thawed = [(name, seen.frozen_moved) for name, seen in known if seen.frozen_moved]
        if not thawed:
            return []
        steps = sorted({when for _, moved in thawed for when in moved})
        return [
            finding(
                "frozen weight moves",
                steps[0],
                f"{some(name for name, _ in thawed)} have requires_grad=False and changed in "
                f"{len(steps)} of the steps that were looked at",
                parameters=[name for name, _ in thawed[:20]],
                steps=steps[:20],
            )
        ]

    def poisoned(self, known):
        """Weights that a gradient made infinite or nan."""
        poisoned = [(name, seen) for name, seen in known if seen.poisoned]
        if not poisoned:
            return []
        first = min(seen.poisoned[0] for _, seen in poisoned)
        return [
            finding(
                "nan enters the weights",
                first,
                f"{some(name for name, _ in poisoned)} were finite before step {first}, got a "
                "gradient that isn't, and are not finite after",
                parameters=[name for name, _ in poisoned[:20]],
            )
        ]

    def of_outside(self, names):
        """Names of parameters that have a gradient and no optimizer."""
        if any(type(model).__name__ in SHARDERS for model in self.watch.models()):
            return []
        return [
            names[key]
            for key, (ref, looks) in self.outside.items()
            if looks >= 2 and key in names and ref() is not None
        ]

    def lifeless(self, step, names, outside):
        """Optimizers that never got a gradient, or only zeros."""
        lifeless = [
            held
            for held in self.optimizers.values()
            if held["ref"]() is not None and len(held["dead"]) >= 5 and not held["alive"]
        ]
        rest = [held for held in self.optimizers.values() if held["alive"]]
        losses = self.watch.parts["losses"].values
        if losses and not any(value for _, value in losses):
            return []  # nothing to learn so far, as without a reward
        found = []
        for held in lifeless[:1]:
            every = [p for group in held["ref"]().param_groups for p in group["params"]]
            mine = [names[id(p)] for p in every if id(p) in names]
            ran = self.watch.parts["modes"].ran
            if rest and not any(id(p) in ran for p in every):
                continue  # a part that isn't in use yet
            looks, level = len(held["dead"]), "hint" if rest else None
            told = (
                "were None" if all(held["dead"]) else "were exactly 0, or None"
            ) + f" at each of {looks} steps that were looked at"
            if self.watch.parts["gradients"].was_there(held["ref"]()):
                kind = "gradients gone before the step"
                told = f"after backward() they weren't zero; before the step all {told}"
            elif mine and all(is_adapter(name) for name in mine):
                kind, told = "adapters get no gradient", f"all gradients of {some(mine, 2)} {told}"
            elif outside and not mine:
                kind = "forgotten weights"
                told = (
                    f"all gradients of its {len(every)} weights {told}; {some(outside)} get one, "
                    "and no optimizer has them"
                )
            else:
                kind, told = "no gradient arrives", f"all gradients {told}"
            told = "{}: {}".format(held["type"], told)
            found.append(finding(kind, step, told, level=level, looks=looks, weights=len(every)))
        return found

    def still(self, step, known):
        """Matrices that should move by more than rounding, and never do."""
        # A bias before a norm layer, or of an attention's keys, has a gradient of round-off.
        fixed = [
            name
            for name, seen in known
            if seen.dim >= 2 and seen.stuck >= 3 and not seen.moved and seen.dtype not in HALF
        ]
        if not fixed:
            return []
        return [
            finding(
                "weights stand still",
                step,
                f"{some(fixed)} had a gradient and a rate that should move them by more than "
                "float32 rounds off, and no element of the sample changed in any step",
                parameters=fixed[:20],
            )
        ]

    def rounded(self, step, known):
        """Weights in half precision that are too coarse for their steps."""
        half = [seen for _, seen in known if seen.dtype in HALF and seen.pushed]
        pushed = sum(seen.pushed for seen in half)
        followed = sum(seen.followed for seen in half)
        if not pushed or followed >= 0.5 * pushed:
            return []
        plain = all(h["ours"].startswith("torch.optim") for h in self.optimizers.values())
        return [
            finding(
                "bf16 swallows steps",
                step,
                f"{len(half)} weights in {half[0].dtype}: {followed / pushed:.0%} of the elements "
                "with a gradient changed in a step",
                level=None if plain else "hint",
                share=round(followed / pushed, 4),
            )
        ]

    def forgotten(self, step, names, outside):
        """Parameters with a gradient that no optimizer has."""
        if not outside or not any(held["alive"] for held in self.optimizers.values()):
            return []
        orphans = self.orphans(names)
        told = f"{some(outside)} get a gradient that isn't zero, and no optimizer has them"
        if orphans:
            told += "; it holds weights that nothing else refers to, of shape " + some(orphans, 3)
        return [
            finding(
                "forgotten weights" if orphans else "outside the optimizer",
                step,
                told,
                parameters=outside[:20],
                count=len(outside),
            )
        ]

    def orphans(self, names):
        """Shapes of weights that never had a gradient and lie in optimizers alone."""
        lost = [
            seen.ref()
            for key, seen in self.seen.items()
            if key not in names and not seen.with_gradient and seen.ref() is not None
        ]
        lost = [p for p in lost if p.requires_grad][:64]
        if not lost:
            return []
        own = {id(lost)}
        for held in self.optimizers.values():
            optimizer = held["ref"]()
            if optimizer is not None:
                own |= {id(optimizer.state)} | {id(g["params"]) for g in optimizer.param_groups}
        elsewhere = set()
        for holder in gc.get_referrers(*lost):
            if id(holder) not in own and isinstance(holder, (dict, list, tuple, set)):
                inside = holder.values() if isinstance(holder, dict) else holder
                elsewhere |= {id(one) for one in list(inside)}
        return [str(tuple(p.shape)) for p in lost if id(p) not in elsewhere]

    def dull(self, step, known):
        """Steps that are tiny or huge beside the weights."""
        if any(seen.dtype in HALF for _, seen in known):
            return []
        steps, jumps = {}, {}
        for _, seen in known:
            for when, ratio in seen.ratios:
                steps.setdefault(when, []).append(ratio)
            for when, ratio in seen.jumps:
                jumps.setdefault(when, []).append(ratio)
        medians = [median(ratios) for when, ratios in sorted(steps.items()) if when > 2]
        if len(medians) < 3:
            return []
        warming = max(medians) == medians[-1] and medians[-1] > 1.2 * medians[0]
        told = (
            f"the median matrix changes by {median(medians):.1e} of its size in a step, "
            f"{max(medians):.1e} at most"
        )
        if max(medians) < 2e-5 and not warming:
            return [finding("tiny updates", step, told, ratio=median(medians))]
        sizes = [(middle_or_less(of), -when) for when, of in jumps.items() if len(of) >= 2]
        most, when = max(sizes, default=(0.0, 0))
        if most > HUGE:
            told = (
                f"in step {-when} the median matrix changed by {most:.2g} of its size; 1e-4 to "
                "1e-2 is usual"
            )
            return [finding("huge updates", -when, told, ratio=most)]
        return []

    def unreached(self, step, names):
        """Parameters that were used in the forward pass and never got a gradient."""
        ran = self.watch.parts["modes"].ran if "modes" not in self.watch.failed else {}
        learning = [ran[key] for key, seen in self.seen.items() if seen.nonzero and key in ran]
        silent = [
            key
            for key, seen in self.seen.items()
            if key in names
            and key in ran
            and seen.looks >= 3
            and seen.ref() is not None
            and seen.ref().requires_grad
            and not seen.with_gradient
            and key not in self.outside
            and not is_adapter(names[key])
        ]
        if not silent or not learning:
            return []
        behind = self.watch.parts["losses"].graphs.behind
        told = {"lost loss": [], "no gradient": [], "output without a loss": []}
        for key in silent:
            if behind.get(key, 0) >= 3:
                kind = "lost loss"
            elif ran[key] < min(learning):  # all that ran before it is cut off too
                kind = "no gradient"
            else:
                kind = "output without a loss"
            told[kind].append(names[key])
        return [
            finding(
                kind,
                step,
                f"{some(these)} are in the optimizer and their modules ran, but .grad is None in "
                "each step" + ("; a loss was computed from them" if kind == "lost loss" else ""),
                parameters=these[:20],
                count=len(these),
            )
            for kind, these in told.items()
            if these
        ]

    def of_adapters(self, step, named, held):
        """Adapters that aren't trained, or that no gradient reaches."""
        adapters = [n for n in named if is_adapter(n)]
        trains = [n for n in adapters if named[n].requires_grad and id(named[n]) in held]
        if adapters and not trains:
            return [
                finding(
                    "adapters don't train",
                    step,
                    f"none of {len(adapters)} adapter weights ({some(adapters, 2)}) is trainable "
                    "and in the optimizer",
                    count=len(adapters),
                )
            ]
        seen = [self.seen[id(named[n])] for n in trains if id(named[n]) in self.seen]
        alive = any(one["alive"] for one in self.optimizers.values())
        looks = min([one.looks for one in seen] or [0])
        if alive and looks >= 5 and not any(one.nonzero for one in seen):
            return [
                finding(
                    "adapters get no gradient",
                    step,
                    f"the gradients of {len(trains)} adapter weights ({some(trains, 2)}) were None "
                    f"or exactly 0 at each of {looks} steps that were looked at",
                    count=len(trains),
                )
            ]
        return []

    def parts_of_models(self, step):
        """Adapters and the parts of vision-language models, by their names."""
        held, found = self.held(), []
        for model in self.watch.models():
            named = dict(model.named_parameters())
            if not any(id(p) in held for p in named.values()):
                continue
            found += self.of_adapters(step, named, held)
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
