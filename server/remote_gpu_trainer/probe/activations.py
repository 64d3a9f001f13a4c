"""Outputs of layers: dead and saturated units, attention scores, routers."""

import weakref

from .table import finding
from .values import some, strided
from .watching import Observer


def has_experts(module, count):
    """Whether a module, or one right below it, has so many parts, or as many stacked weights."""
    import torch

    for one in (module, *module.children()):
        if isinstance(one, torch.nn.ModuleList) and len(one) == count:
            return True
        stacked = [p for p in one._parameters.values() if p is not None and p.dim() == 3]
        if any(p.shape[0] == count for p in stacked):
            return True
    return False


class Activations(Observer):
    """Looks at outputs in training."""

    name = "activations"

    def __init__(self, watch):
        super().__init__(watch)
        self.alive = {}  # (module, place of the call) -> [units that were above 0, rows, calls]
        self.calls = {}  # id of a module -> ReLU calls within it since it was entered
        self.full = {}  # id of a tanh or sigmoid -> [(share at the ends, place in the forward)]
        self.scores = []  # (step, largest attention score)
        self.routers = {}  # id -> (weak reference, tokens of each expert)
        self.counted = {}  # (id of a module, choices) -> whether it has as many experts
        self.unfinished = ""  # the first layer whose output isn't finite
        self.last_layer = 0
        self.held = {}  # id of a tanh or sigmoid -> weak reference

    def training(self, tensor):
        """Whether an output belongs to training."""
        import torch

        return (
            self.watch.gradients
            and not self.watch.in_backward
            and isinstance(tensor, torch.Tensor)
            and tensor.is_floating_point()
            and tensor.numel() > 0
        )

    def left(self, module, output):
        """A layer without layers of its own has an output."""
        import torch

        if not self.training(output):
            return
        self.last_layer = id(module)
        if output.dtype == torch.float16:
            self.watch.parts["gradients"].half_output = True
        if not self.unfinished and not bool(strided(output, 2048).isfinite().all()):
            self.unfinished = self.watch.name_of(module)
        if isinstance(module, (torch.nn.Tanh, torch.nn.Sigmoid)):
            part = strided(output, 4096)
            ends = (
                part.abs() > 0.99
                if isinstance(module, torch.nn.Tanh)
                else ((part > 0.99) | (part < 0.01))
            )
            self.held[id(module)] = weakref.ref(module)
            self.full.setdefault(id(module), []).append(float(ends.float().mean()))

    def after_choice(self, token, result, args, kwargs):
        """topk() or argmax() within a module: a router, where there are as many experts."""
        import torch

        scores = args[0] if args else kwargs.get("input")
        stack = getattr(self.watch.local, "stack", None)
        if not stack or not self.training(scores) or scores.dim() < 2:
            return
        chosen = result if isinstance(result, torch.Tensor) else result[1]
        count = scores.shape[-1]
        if not 2 <= count <= 512 or chosen.is_floating_point():
            return
        if chosen.dim() == scores.dim() and chosen.shape[:-1] == scores.shape[:-1]:
            chosen = chosen[..., 0]
        if chosen.shape != scores.shape[:-1]:
            return
        for module in stack[:-4:-1]:
            key = (id(module), count)
            if key not in self.counted:
                self.counted[key] = has_experts(module, count)
            if self.counted[key]:
                counts = torch.bincount(chosen.reshape(-1).cpu(), minlength=count)
                ref, old = self.routers.get(key, (weakref.ref(module), 0))
                self.routers[key] = (ref, counts + old)
                return

    def ended(self):
        """The outermost module has ended: the last layer may be an output on purpose."""
        self.full.pop(self.last_layer, None)
        self.calls = {}

    def after_relu(self, token, result, args, kwargs):
        """F.relu: which units were above 0 for any row."""
        if not self.training(result) or result.dim() < 2:
            return
        stack = getattr(self.watch.local, "stack", None)
        if not stack:
            return
        top = stack[-1]
        place = self.calls[id(top)] = self.calls.get(id(top), 0) + 1
        units = 1 if result.dim() >= 4 else result.dim() - 1
        rest = [d for d in range(result.dim()) if d != units]
        alive = (result > 0).amax(dim=rest)
        key = (id(top), place)
        seen = self.alive.get(key)
        if seen is None or seen[0].shape != alive.shape:
            if len(self.alive) < 200:
                self.alive[key] = [alive, result.numel() // result.shape[units], 1]
        else:
            seen[0] |= alive
            seen[1] += result.numel() // result.shape[units]
            seen[2] += 1

    def after_attention(self, token, result, args, kwargs):
        """F.scaled_dot_product_attention(query, key): the largest score of one head."""
        query = args[0] if args else kwargs.get("query")
        key = args[1] if len(args) > 1 else kwargs.get("key")
        if not self.training(query) or query.dim() < 3 or len(self.scores) > 200:
            return
        while query.dim() > 2:
            query, key = query[0], key[0]
        scale = kwargs.get("scale") or query.shape[-1] ** -0.5
        highest = (query[:256].float() @ key[:256].float().T).abs().max() * scale
        self.scores.append((self.watch.step + 1, float(highest)))

    def after_softmax(self, token, result, args, kwargs):
        """F.softmax of square matrices per head: attention written by hand."""
        scores = args[0] if args else kwargs.get("input")
        if self.training(scores) and scores.dim() == 4 and len(self.scores) <= 200:
            part = strided(scores, 8192).float()
            part = part[part.isfinite() & (part > -1e4)]
            if part.numel() and scores.shape[-1] == scores.shape[-2]:
                self.scores.append((self.watch.step + 1, float(part.abs().max())))

    def unseen(self):
        """Why nothing can be said, if so."""
        if self.alive or self.full or self.held or self.scores or self.routers:
            return ""
        return "no ReLU, tanh, sigmoid, attention or router ran in training"

    def findings(self):
        """What the outputs showed."""
        step, found, names = self.watch.step, [], self.watch.names()
        dead = []
        for (key, _), (alive, rows, calls) in self.alive.items():
            share = 1 - float(alive.float().mean())
            if calls >= 8 and rows >= 128 and alive.numel() >= 8 and share >= 0.5:
                dead.append((share, names.get(key, "?"), alive.numel()))
        if dead:
            share, name, units = max(dead)
            found.append(
                finding(
                    "dead units",
                    step,
                    f"{share:.0%} of {units} units after the ReLU in {name} were zero for every "
                    "input in every step",
                    share=round(share, 3),
                    units=units,
                )
            )
        full = [
            names.get(key, "?")
            for key, shares in self.full.items()
            if len(shares) >= 5 and min(shares[-5:]) > 0.9
        ]
        if full:
            found.append(
                finding(
                    "saturated layer",
                    step,
                    f"over 90 % of the outputs of {some(full)} lie at the ends of their range",
                    layers=full[:20],
                )
            )
        high = [score for _, score in self.scores if score > 100]
        if len(high) >= 3 and len(high) >= 0.3 * len(self.scores):
            found.append(
                finding(
                    "large attention scores",
                    step,
                    f"attention scores reach {max(high):.4g} before the softmax",
                    highest=max(high),
                )
            )
        for (key, _), (_ref, counts) in self.routers.items():
            total, experts = int(counts.sum()), len(counts)
            busiest = float(counts.max()) / max(1, total) * experts
            unused = int((counts < 0.05 * total / experts).sum())
            if total >= 512 and (busiest > 0.75 * experts or busiest > 4) and unused:
                found.append(
                    finding(
                        "uneven experts",
                        step,
                        "the busiest of {} experts in {} is the first choice of {:.0%} of {} "
                        "tokens, and {} experts get next to none".format(
                            experts, names.get(key, "?"), busiest / experts, total, unused
                        ),
                        busiest=round(busiest, 2),
                        unused=unused,
                    )
                )
                break
        return found
