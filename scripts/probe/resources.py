"""What grows from step to step, and where the time goes."""

import time
import weakref

from .table import finding
from .values import median
from .watching import Observer


class Token:
    """Lives as long as the graph that it hangs on."""


class Resources(Observer):
    """Counts graphs and hooks, and measures waiting for data."""

    name = "time and memory"

    def __init__(self, watch):
        super().__init__(watch)
        self.tokens = []
        self.hooks = []  # number of hooks on the models after each step
        self.anomaly = 0
        self.times = []
        self.last = None

    def before_backward(self, args, kwargs):
        """Hang a token on the graph of the loss, to see whether the graph goes."""
        import torch

        node = args[0].grad_fn
        if node is not None and len(self.tokens) < 64:
            token = Token()
            self.tokens.append((self.watch.step, weakref.ref(token)))
            node.register_hook(lambda *_, token=token: None)
        self.anomaly += torch.is_anomaly_enabled()

    def after_step(self, optimizer):
        """Count hooks, and stop the clock."""
        count = 0
        for model in self.watch.models():
            for module in model.modules():
                count += len(module._forward_hooks) + len(module._forward_pre_hooks)
                count += len(module._backward_hooks)
        self.hooks.append(count)
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(now - self.last)
        self.last = now

    def findings(self):
        """What grew, and what waits."""
        step, found = self.watch.step, []
        kept = [when for when, ref in self.tokens[:-2] if ref() is not None]
        if len(set(kept)) >= 8 and len(kept) >= 0.9 * len(self.tokens[:-2]):
            found.append(
                finding(
                    "graphs are kept",
                    step,
                    f"the graphs of {len(kept)} of the first {len(self.tokens[:-2])} losses are "
                    "still in memory",
                    kept=len(kept),
                )
            )
        rises = [b - a for a, b in zip(self.hooks, self.hooks[1:])]
        if len(rises) >= 6 and min(rises[-6:]) > 0:
            found.append(
                finding(
                    "hooks pile up",
                    step,
                    f"the models had {self.hooks[0]} hooks after step 1 and {self.hooks[-1]} "
                    f"after step {len(self.hooks)}",
                    first=self.hooks[0],
                    last=self.hooks[-1],
                )
            )
        if self.anomaly:
            found.append(
                finding(
                    "anomaly detection",
                    1,
                    f"torch.is_anomaly_enabled() was true in {self.anomaly} backward passes",
                    passes=self.anomaly,
                )
            )
        return found + self.waiting(step)

    def waiting(self, step):
        """The share of the time that goes into waiting for batches."""
        total = sum(self.times)
        if "batches" in self.watch.failed or len(self.times) < 8:
            return []
        for held in self.watch.parts["batches"].training():
            waited = sum(held.waits)
            later = held.firsts[1:]
            if held.workers and not held.persistent and len(later) >= 2 and held.waits:
                slow = sum(later)
                if slow > 0.3 * total and slow > 0.5 and median(later) > 5 * median(held.waits):
                    return [
                        finding(
                            "workers start anew",
                            step,
                            f"the first batch of an epoch took {median(later):.2f} s, another "
                            f"{median(held.waits):.3f} s; {slow / total:.0%} of "
                            "the time",
                            first=median(later),
                            other=median(held.waits),
                        )
                    ]
            if waited > 0.5 * total and waited > 0.5:
                kind = "loader too slow" if held.workers else "loading in the way"
                return [
                    finding(
                        kind,
                        step,
                        f"{waited / total:.0%} of {total:.1f} s went into waiting for batches, "
                        f"with {held.workers} workers",
                        share=round(waited / total, 3),
                        workers=held.workers,
                    )
                ]
        return []
