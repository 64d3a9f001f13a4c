"""How loss, gradients, updates and times went, a few numbers of each, for the page of a run."""

import math
import time
import weakref

from .values import median
from .watching import Observer

POINTS = 32  # of a series; a point is a step and a value
DEPTH, MODULES = 3, 16  # how deep modules are timed, and how many of them are told


def thinned(points, most=POINTS):
    """At most `most` of the (step, value) pairs, spread evenly; null where nothing is finite."""
    every = -(-len(points) // most) or 1
    return [
        [step, float(f"{value:.6g}") if math.isfinite(value) else None]
        for step, value in points[::every]
    ]


def by_step(pairs, of):
    """(step, `of` the values of that step) for (step, value) pairs, in the order of the steps."""
    found = {}
    for step, value in pairs:
        found.setdefault(step, []).append(value)
    return [(step, of(values)) for step, values in sorted(found.items())]


class Series(Observer):
    """Times modules, and puts together what the other parts wrote down. It finds nothing."""

    name = "series"

    def __init__(self, watch):
        super().__init__(watch)
        self.begun = []  # start of each module that is running, outermost first
        self.newest = {}  # id -> [weak reference, seconds, depth], since the last step
        self.modules = {}  # the same, over the steps that are timed

    def entered(self, depth):
        """A module begins, `depth` modules below the outermost."""
        if depth <= DEPTH:
            self.begun[depth:] = [time.perf_counter()]

    def left(self, module, depth):
        """A module has ended."""
        if depth < len(self.begun):
            seconds = time.perf_counter() - self.begun[depth]
            held = self.newest.setdefault(id(module), [weakref.ref(module), 0.0, depth])
            held[1] += seconds

    def stepped(self, timed):
        """A step has ended. The first one, whose start nobody saw, isn't `timed`."""
        for key, (ref, seconds, depth) in self.newest.items() if timed else ():
            self.modules.setdefault(key, [ref, 0.0, depth])[1] += seconds
        self.newest = {}

    def forward(self):
        """Seconds in the outermost modules over the timed steps, evaluations between them too."""
        return sum(seconds for _, seconds, depth in self.modules.values() if not depth)

    def told(self):
        """{name: [[step, value], ...]}, and `modules`: [[name, seconds a step], ...]."""
        parts, names = self.watch.parts, self.watch.names()
        times = parts["time and memory"].times
        parameters = parts["parameters"]
        pairs = [pair for seen in parameters.seen.values() for pair in seen.ratios]
        clipped = by_step([(step, norm) for step, norm, _ in parts["gradients"].norms], max)
        squares = by_step(parameters.squares, sum)
        spent = [
            (names.get(id(ref()), type(ref()).__name__), seconds)
            for ref, seconds, _ in self.modules.values()
            if ref() is not None
        ]
        spent.sort(key=lambda one: -one[1])
        return {
            "loss": thinned(by_step(parts["losses"].values, lambda of: sum(of) / len(of))),
            "gradient norm": thinned(clipped or [(n, math.sqrt(of)) for n, of in squares]),
            "before clipping": bool(clipped),
            "update": thinned(by_step(pairs, median)),
            "seconds": thinned(list(enumerate(times, 2))),
            "modules": [
                [name[:120], float(f"{seconds / max(len(times), 1):.4g}")]
                for name, seconds in spent[:MODULES]
            ],
        }
