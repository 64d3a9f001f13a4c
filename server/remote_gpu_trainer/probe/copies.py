"""Copies of a model beside the one that trains: averages, teachers, what is evaluated."""

import gc
import math
import weakref

from .facts import brief, count_of, fact, share
from .values import strided
from .watching import Observer

FIRST = 2  # the step after which copies are looked for
ELEMENTS = 256  # of each weight
MOST_WEIGHTS = 64  # of a model


def bare_name(name):
    """A weight's name without what wrappers put before it."""
    for part in ("module.", "_orig_mod.", "model."):
        if name.startswith(part):
            return bare_name(name[len(part) :])
    return name


def matrices_of(model):
    """name -> weight of a model, of matrices, spread over all of them."""
    every = [(bare_name(n), p) for n, p in model.named_parameters() if p.dim() >= 2]
    return dict(every[:: max(1, -(-len(every) // MOST_WEIGHTS))])


def way_between(one, two):
    """The distance between two {name: sample}."""
    return math.sqrt(sum(float((one[n] - two[n]).double().pow(2).sum()) for n in one))


def steps_to_half(part, steps):
    """In how many steps an average goes half of the way to a model that stands still.

    `part`: how far it went, beside a model that went on steadily for `steps` steps.
    """
    if not part:
        return math.inf
    low, high = 1e-12, 1.0  # how much of the distance it goes in a step
    weight = high
    for _ in range(60):
        weight = math.sqrt(low * high)
        kept = math.exp(steps * math.log1p(-weight)) if weight < 1 else 0.0
        if 1 - (1 - kept) / (weight * steps) < part:
            low = weight
        else:
            high = weight
    return math.log(2) / -math.log1p(-weight) if weight < 1 - 1e-9 else 0.0


class Copy:
    """A model with the shapes of another one, whose weights no optimizer has."""

    def __init__(self, module, weights, of):
        self.ref, self.of = weakref.ref(module), of
        self.kind = type(module).__name__
        self.names = list(weights)
        self.start = samples(weights)

    def now(self):
        """Its weights now, or None if it is gone."""
        module = self.ref()
        if module is None:
            return None
        every = {bare_name(n): p for n, p in module.named_parameters()}
        return samples({n: every[n] for n in self.names if n in every})


def samples(weights):
    """name -> sample of a weight, in double precision."""
    return {n: strided(p, ELEMENTS).double().cpu().clone() for n, p in weights.items()}


class Copies(Observer):
    """Compares the way that a copy goes with the way of the model that trains."""

    name = "copies"

    def __init__(self, watch):
        super().__init__(watch)
        self.trained = []  # (weak reference to a model that trains, its samples)
        self.copies = []
        self.done = False
        self.evaluated = {}  # id of a model -> calls without gradients
        self.steps = 0

    def after_step(self, optimizer):
        """Look for copies once, early."""
        self.steps += 1
        if self.done or self.steps < FIRST:
            return
        self.done = True
        held = self.watch.parts["parameters"].held()
        for model in self.watch.models():
            weights = matrices_of(model)
            if weights and any(id(p) in held for p in weights.values()):
                self.trained.append((weakref.ref(model), samples(weights)))
        self.find(held)

    def find(self, held):
        """Modules with the names and shapes of a model that trains, and other weights."""
        import torch

        shapes = []
        for ref, _ in self.trained:
            model = ref()
            every = {bare_name(n): tuple(p.shape) for n, p in model.named_parameters()}
            shapes.append((every, matrices_of(model)))
        if not shapes:
            return
        inside = set()
        every = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
        for module in every:
            inside |= {id(child) for child in module._modules.values() if child is not None}
        for module in every:
            if id(module) in inside:
                continue
            mine = {bare_name(n): p for n, p in module.named_parameters()}
            for place, (table, weights) in enumerate(shapes):
                if len(mine) < 2 or {n: tuple(p.shape) for n, p in mine.items()} != table:
                    continue
                if any(id(p) in held for p in mine.values()):
                    continue
                chosen = {n: mine[n] for n in weights}
                if all(chosen[n] is not weights[n] for n in weights):
                    self.copies.append(Copy(module, chosen, place))
                break

    def left(self, module):
        """A model has run without gradients."""
        if len(self.evaluated) < 32 or id(module) in self.evaluated:
            self.evaluated[id(module)] = self.evaluated.get(id(module), 0) + 1

    def half_life(self, copy):
        """(its way beside the model's, steps in which it goes half of the way) or None."""
        ref, start = self.trained[copy.of]
        model, now = ref(), copy.now()
        steps = self.steps - FIRST
        if model is None or now is None or set(now) != set(start) or steps < 3:
            return None
        every = {bare_name(n): p for n, p in model.named_parameters()}
        way = way_between(samples({n: every[n] for n in start}), start)
        mine = way_between(now, copy.start)
        if not way:
            return None
        return mine / way, steps_to_half(mine / way, steps)

    def facts(self):
        """How far copies follow, and whose weights were evaluated."""
        found, planned = [], self.watch.parts["settings"].planned()
        for copy in self.copies[:3]:
            life = self.half_life(copy)
            if life is None:
                continue
            way, half = life
            module = copy.ref()
            ran = self.evaluated.get(id(module), 0)
            ran += sum(self.evaluated.get(id(m), 0) for m in module._modules.values() if m)
            used = f", evaluated {count_of(ran, 'time')}" if ran else ""
            if math.isinf(half):
                text = (
                    f"a copy of the model ({copy.kind}{used}) has not moved in {self.steps} steps"
                )
                found.append(fact(f"weights/copy {copy.kind}", text, way=0))
                continue
            text = (
                f"a copy of the model ({copy.kind}{used}) went {share(way)} as far as the model "
                f"in {self.steps} steps; half of the way takes it about {brief(half)} steps"
            )
            usual = ""
            if planned and half > planned / 4:
                text += f", and the run has about {planned:,}"
                usual = "it follows within a small part of the run"
            found.append(fact(f"weights/copy {copy.kind}", text, usual, way=way))
        return found
