"""backward(), clipping and the gradient scaler."""

import math
import weakref

from .facts import brief, fact, share
from .table import finding
from .values import bare, median, sample, strided
from .watching import Observer

MEAN_NODES = (
    "NllLoss",
    "MseLoss",
    "SmoothL1",
    "HuberLoss",
    "BinaryCrossEntropy",
    "L1Loss",
    "KlDiv",
)


def some_gradients(optimizer):
    """(weak reference to a parameter, sample of its gradient) for a few parameters."""
    every = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
    chosen = [every[i] for i in sorted({0, len(every) // 2, len(every) - 1})] if every else []
    return [
        (weakref.ref(p), sample(p.grad, 256))
        for p in chosen
        if p.grad is not None and not p.grad.is_sparse
    ]


def changed(held):
    """Whether gradients aren't what they were when last seen."""
    for ref, old in held:
        parameter = ref()
        if parameter is None or parameter.grad is None or parameter.grad.is_sparse:
            return True
        now = strided(parameter.grad, 256)
        if now.numel() != old.numel() or bool((now != old).any()):
            return True
    return False


class Gradients(Observer):
    """Looks at losses on their way into backward(), and at gradients up to the step."""

    name = "gradients"

    def __init__(self, watch):
        super().__init__(watch)
        self.known = {}  # id of the optimizer -> [(parameter, its gradient when last seen)]
        self.cleared = {}  # id of the optimizer -> whether they were set back since its last step
        self.piled, self.fresh = {}, {}
        self.arrived = set()  # ids of optimizers for which a backward() left a gradient
        self.backwards = self.undivided = 0  # since the last step
        self.windows = []  # (backwards, undivided, batches) of each step
        self.norms = []  # (step, norm before clipping, limit)
        self.clipped = {}  # id of the optimizer -> its gradients after clipping, as in `known`
        self.clips = self.others = 0  # steps behind a clipping, and those with other gradients
        self.scales = {}  # id of a scaler -> [scale, ...]
        self.scaled = False  # whether a scaled loss went back and wasn't unscaled
        self.while_scaled = []
        self.skipped, self.taken = 0, 0
        self.row = self.longest = 0
        self.half_output = False

    # backward

    def before_backward(self, args, kwargs):
        """The loss, and whether the last gradients are still there."""
        loss = args[0]
        self.watch.in_backward = True
        self.backwards += 1
        name = type(loss.grad_fn).__name__
        mean = name.startswith("MeanBackward") or (
            name.startswith(MEAN_NODES) and getattr(loss.grad_fn, "_saved_reduction", 0) == 1
        )
        self.undivided += mean
        for key, held in self.known.items():
            if self.backwards_of(key) and not self.carried(held):
                self.cleared[key] = True
        self.watch.parts["modes"].trained()
        self.watch.parts["batches"].trained()
        return None

    def backwards_of(self, key):
        """Whether an optimizer is still there."""
        return key in self.watch.parts["parameters"].optimizers

    def carried(self, held):
        """Whether gradients are what they were when last seen, and not all zero."""
        return not changed(held) and any(bool(old.any()) for _, old in held)

    def after_backward(self, token, result, args, kwargs):
        """Remember the gradients."""
        self.watch.in_backward = False
        for key in list(self.known):
            self.remember(key)
            if key not in self.arrived and any(bool(g.any()) for _, g in self.known.get(key, ())):
                self.arrived.add(key)

    def was_there(self, optimizer):
        """Whether a gradient that isn't zero was there after a backward()."""
        return id(optimizer) in self.arrived

    def remember(self, key):
        """Copy samples of the gradients of a few parameters of an optimizer."""
        optimizer = self.watch.parts["parameters"].optimizers[key]["ref"]()
        if optimizer is None:
            self.known.pop(key, None)
            return
        self.known[key] = some_gradients(optimizer)

    def before_step(self, optimizer):
        """Whether the gradients of this step are those that clipping left."""
        held = self.clipped.pop(id(optimizer), None)
        if held:
            self.clips += 1
            self.others += changed(held)

    def after_step(self, optimizer):
        """Close the window between two steps of an optimizer."""
        key = id(optimizer)
        if key in self.known and self.backwards:
            if self.known[key] and not self.cleared.get(key, True):
                self.piled[key] = self.piled.get(key, 0) + 1
            else:
                self.fresh[key] = self.fresh.get(key, 0) + 1
        self.cleared[key] = False
        self.clipped.pop(key, None)  # of a closure, which ran within the step
        self.remember(key)
        batches = self.watch.parts["batches"].drawn
        self.watch.parts["batches"].drawn = 0
        self.windows.append((self.backwards, self.undivided, batches))
        self.backwards = self.undivided = 0
        self.scaled = False

    def facts(self):
        """Clipping, and the scale of the loss."""
        found = []
        if self.norms:
            limit = self.norms[-1][2]
            over = sum(norm > limit for _, norm, limit in self.norms) / len(self.norms)
            middle = median([norm for _, norm, _ in self.norms])
            text = f"clipped at {limit:g}: {share(over)} of the steps, a norm of {brief(middle)}"
            usual = ""
            if self.others > self.clips / 2:
                text += f"; {self.others} of {self.clips} steps used other gradients than these"
                usual = "clipping comes after the last backward() of a step"
            found.append(
                fact("in force/clipping", text, usual, limit=limit, share=over, norm=middle)
            )
        else:
            found.append(fact("in force/clipping", "no clipping by norm was seen", limit=0))
        for scales in list(self.scales.values())[:1]:
            text = f"loss scale {scales[0]:g} to {scales[-1]:g}, {self.skipped} steps skipped"
            found.append(fact("in force/loss scale", text, scale=scales[-1], skipped=self.skipped))
        return found

    # clipping and scaling

    def after_clip(self, token, result, args, kwargs):
        """The norm before clipping, and whether the gradients still carry a scale."""
        norm = float(result)
        limit = float(args[1] if len(args) > 1 else kwargs.get("max_norm", math.inf))
        self.norms.append((self.watch.step + 1, norm, limit))
        if self.scaled:
            self.while_scaled.append((self.watch.step + 1, norm))
        if self.scaled or not math.isfinite(norm):
            return
        for key, held in self.known.items():
            optimizer = self.watch.parts["parameters"].optimizers[key]["ref"]()
            if optimizer is not None and changed(held):
                # A gradient that clipping left as it was tells nothing of where it came from.
                self.clipped[key] = some_gradients(optimizer)

    def after_scale(self, token, result, args, kwargs):
        """A loss was scaled."""
        scaler = args[0]
        if scaler.is_enabled() and scaler._scale is not None:
            scale = float(scaler._scale)
            self.scales.setdefault(id(scaler), []).append(scale)
            self.scaled = scale > 1

    def after_unscale(self, token, result, args, kwargs):
        """The scale was taken out."""
        self.scaled = False

    def before_scaler_step(self, args, kwargs):
        """How many steps the optimizer had taken."""
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        optimizer = bare(optimizer)
        return optimizer, self.watch.parts["parameters"].of(optimizer)["steps"]

    def after_scaler_step(self, token, result, args, kwargs):
        """Whether the scaler skipped the step."""
        optimizer, before = token
        held = self.watch.parts["parameters"].of(optimizer)
        if not args[0].is_enabled():
            return
        if held["steps"] > before:
            self.taken += 1
            self.row = 0
        else:
            self.skipped += 1
            self.row += 1
            self.longest = max(self.longest, self.row)
            held["skipped"] += 1
            self.scaled = False
            self.backwards = self.undivided = 0
            self.watch.stepped(optimizer)

    # what it shows

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if any(w[0] for w in self.windows) else "no backward() of a loss was seen"

    def findings(self):
        """What the gradients showed."""
        step = self.watch.step
        return self.each((self.of_backwards, step), (self.of_norms, step), (self.of_layers, step))

    def of_backwards(self, step):
        """Gradients that pile up, losses that aren't divided, and the scaler."""
        found = []
        for key, piled in self.piled.items():
            if piled >= 4 and not self.fresh.get(key):
                found.append(
                    finding(
                        "gradients pile up",
                        step,
                        f"in {piled} steps the gradients of the step before were still there at "
                        "the first "
                        "backward()",
                        steps=piled,
                    )
                )
                break
        windows = self.windows[1:-1]
        several = [w for w in windows if w[0] > 1 and w[1] == w[0] and w[2] == w[0]]
        if len(several) >= 3 and len(several) == len(windows):
            count = several[0][0]
            found.append(
                finding(
                    "undivided accumulation",
                    step,
                    f"{count} losses that are means went back in each step, each of its own "
                    "batch and none "
                    "divided",
                    accumulated=count,
                )
            )
        if self.while_scaled:
            when, norm = self.while_scaled[0]
            found.append(
                finding(
                    "clipped while scaled",
                    when,
                    f"clip_grad_norm_ saw a norm of {norm:.3g} before scaler.unscale_(), in "
                    f"{len(self.while_scaled)} steps",
                    norm=norm if math.isfinite(norm) else str(norm),
                    steps=len(self.while_scaled),
                )
            )
        if self.skipped >= 12 and self.longest == self.skipped and self.taken <= self.skipped:
            scales = next(iter(self.scales.values()), [0.0])
            found.append(
                finding(
                    "scaler skips",
                    step,
                    f"{self.skipped} of {self.skipped + self.taken} steps were skipped; the "
                    f"scale went from {scales[0]:g} to {scales[-1]:g}",
                    level="wrong" if self.longest >= 20 else "hint",
                    skipped=self.skipped,
                    taken=self.taken,
                )
            )
        return found

    def of_norms(self, step):
        """Spikes of the norm."""
        norms = [(when, n) for when, n, _ in self.norms if math.isfinite(n)]
        if len(norms) < 10 or self.while_scaled:
            return []
        middle = median([n for _, n in norms])
        spikes = [(when, n) for when, n in norms if when > 3 and n > 50 * middle > 0]
        if spikes:
            return [
                finding(
                    "gradient spikes",
                    spikes[0][0],
                    f"the norm is {spikes[0][1]:.3g} in step {spikes[0][0]}, with a median of "
                    f"{middle:.3g}",
                    norm=spikes[0][1],
                    median=middle,
                )
            ]
        return []

    def of_layers(self, step):
        """Sizes of gradients through the layers, and fp16 gradients that are zero."""
        if "parameters" in self.watch.failed or step < 3:
            return []
        parts, found = self.watch.parts["parameters"], []
        for model in self.watch.models():
            order = [(n, parts.seen.get(id(p))) for n, p in model.named_parameters()]
            order = [(n, seen) for n, seen in order if seen is not None and seen.sizes]
            if len(order) >= 4:
                sizes = [(n, median(seen.sizes)) for n, seen in order]
                third = max(1, len(sizes) // 4)
                first = max(size for _, size in sizes[:third])
                last = max(size for _, size in sizes[-third:])
                if min(first, last) < 1e-5 * max(first, last):
                    found.append(
                        finding(
                            "gradients fade",
                            step,
                            f"the mean gradient is {first:.1e} in {sizes[0][0]} and {last:.1e} "
                            f"in {sizes[-1][0]}",
                            first=first,
                            last=last,
                        )
                    )
                    break
        zeros = [median(seen.zeros) for seen in parts.seen.values() if seen.dim >= 2 and seen.zeros]
        if self.half_output and not self.scales and zeros and median(zeros) > 0.3:
            found.append(
                finding(
                    "fp16 without scaler",
                    step,
                    f"outputs are float16, no gradient scaler is used, and {median(zeros):.0%} "
                    "of the gradients of "
                    "the median matrix are exactly 0",
                    share=median(zeros),
                )
            )
        return found
