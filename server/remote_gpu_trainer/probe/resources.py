"""What grows from step to step, and where the time goes."""

import gc
import math
import os
import sys
import time
import weakref

from .facts import brief, fact, share
from .table import finding
from .values import median
from .watching import Observer


def usable_cores():
    """How many cores this process may use: of the affinity mask and the control group's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quotas = []
    for path, other in (
        ("/sys/fs/cgroup/cpu.max", ""),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    ):
        try:
            with open(path, encoding="ascii") as handle:
                words = handle.read().split()
            if other:
                with open(other, encoding="ascii") as handle:
                    words += handle.read().split()
            if words[0].isdigit() and int(words[1]) > 0:
                quotas.append(math.ceil(int(words[0]) / int(words[1])))
        except (OSError, ValueError, IndexError):
            continue
    return max(1, min([cores, *quotas]))


def share_of_memory():
    """(share of the device's memory that was used at most, its bytes)."""
    import torch

    if torch.cuda.is_available():
        whole = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        return torch.cuda.max_memory_reserved() / whole, whole
    try:
        import resource

        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used * (1 if sys.platform == "darwin" else 1024) / whole, whole
    except (ImportError, ValueError, OSError):
        return 1.0, 0


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
        self.times = []  # seconds from each step to the next
        self.last = None
        self.waited = self.newly_waited = 0.0  # for batches, over these steps and since the last
        self.checkpointed = 0  # calls of torch.utils.checkpoint.checkpoint in training
        self.graphs = []  # compiled graphs after each step
        self.pauses, self.pause = [], None  # (step, seconds) of each garbage collection
        gc.callbacks.append(self.collected)

    def collected(self, phase, info):
        """The garbage collector begins or ends. It calls this for as long as the probe looks."""
        parts = getattr(self.watch, "parts", {})  # not there yet while the parts are made
        if parts.get(self.name) is not self or self.watch.over:
            if parts and self.collected in gc.callbacks and phase == "stop":
                gc.callbacks.remove(self.collected)
        elif phase == "start":
            self.pause = time.perf_counter()
        elif self.pause is not None and self.last is not None:
            self.pauses.append((self.watch.step, time.perf_counter() - self.pause))

    def before_checkpoint(self, args, kwargs):
        """A part of the model drops its activations."""
        self.checkpointed += self.watch.gradients and not self.watch.in_backward

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
        """Count hooks, and stop the clock. Optimizers that take turns make one step together."""
        if self.watch.step and id(optimizer) not in self.watch.turn:
            return
        count = 0
        for model in self.watch.models():
            for module in model.modules():
                count += len(module._forward_hooks) + len(module._forward_pre_hooks)
                count += len(module._backward_hooks)
        self.hooks.append(count)
        compiler = sys.modules.get("torch._dynamo.utils")
        if compiler is not None:
            self.graphs.append(int(compiler.counters["stats"]["unique_graphs"]))
        now = time.perf_counter()
        if self.last is not None:
            self.times.append(now - self.last)
            self.waited += self.newly_waited
        self.newly_waited = 0.0
        self.watch.parts["series"].stepped(timed=self.last is not None)
        self.last = now

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if len(self.times) >= 8 else "less than nine steps"

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
        new = [i for i in range(4, len(self.graphs)) if self.graphs[i] > self.graphs[i - 1]]
        if len(new) >= 4:
            found.append(
                finding(
                    "compiles again and again",
                    new[0] + 1,
                    f"torch.compile had {self.graphs[3]} graphs after step 4 and "
                    f"{self.graphs[-1]} after step {len(self.graphs)}, with new ones in "
                    f"{len(new)} steps",
                    graphs=self.graphs[-1],
                    steps=len(new),
                )
            )
        return found + self.of_machine(step) + self.waiting(step)

    def facts(self):
        """Seconds of a step, the share that waits for data, and memory."""
        if len(self.times) < 3:
            return []
        text, total = f"{brief(median(self.times))} s a step", sum(self.times)
        if self.watch.parts["batches"].training() and total:
            text += f", {share(self.waited / total)} of it waiting for batches"
        inside = self.watch.parts["series"].forward()
        if inside and total and not self.watch.aside:  # modules of compiled code aren't timed
            text += f", {share(inside / total)} in the model's forward"
            text += " (a card goes on after it)" if self.on_a_card() else ""
        used, whole = share_of_memory()
        if whole:
            text += f"; at most {share(used)} of {whole / 2**30:.0f} GiB of memory"
        return [fact("time/step", text, seconds=median(self.times), memory=used)]

    def on_a_card(self):
        """Whether a model's weights lie on a device that computes beside the program."""
        every = (next(model.parameters(), None) for model in self.watch.models())
        return any(weight is not None and weight.device.type != "cpu" for weight in every)

    def of_machine(self, step):
        """Threads, memory and the garbage collector."""
        import torch

        found, total = [], sum(self.times)
        threads, cores = torch.get_num_threads(), usable_cores()
        local = int(os.environ.get("LOCAL_WORLD_SIZE") or 1)
        if threads * local > 1.5 * cores and threads > 1:
            found.append(
                finding(
                    "too many threads",
                    1,
                    f"torch computes with {threads} threads in each of {local} processes here, "
                    f"and {cores} cores may be used",
                    threads=threads,
                    processes=local,
                    cores=cores,
                )
            )
        share, whole = share_of_memory()
        if self.checkpointed >= 4 and share < 0.4:
            found.append(
                finding(
                    "checkpointing with room",
                    step,
                    f"torch.utils.checkpoint ran {self.checkpointed} times; at most {share:.0%} "
                    f"of {whole / 2**30:.0f} GiB were used",
                    calls=self.checkpointed,
                    share=round(share, 3),
                )
            )
        pauses = [(when, pause) for when, pause in self.pauses if pause > 0.01]
        held = sum(pause for _, pause in pauses)
        # Once in a while it walks everything, as between two trainings.
        often = len({when for when, _ in pauses}) >= 5
        if often and len(self.times) >= 8 and held > 0.15 * total and held > 0.2:
            found.append(
                finding(
                    "garbage collection",
                    step,
                    f"the garbage collector took {held:.2f} s of {total:.2f} s, "
                    f"{max(pause for _, pause in pauses):.3f} s at most",
                    share=round(held / total, 3),
                )
            )
        return found

    def bursts(self, held, total, step):
        """Every N-th batch is waited for, where N workers load."""
        waits, workers = held.waits, held.workers
        waits = waits[2 * workers :]
        if workers < 2 or len(waits) < 3 * workers or sum(waits) < 0.15 * total:
            return []
        groups = [sorted(waits[i : i + workers]) for i in range(0, len(waits), workers)]
        groups = [group for group in groups if len(group) == workers]
        slow, fast = (median([group[place] for group in groups]) for place in (-1, -2))
        if slow < 0.02 or slow < 5 * fast:
            return []
        return [
            finding(
                "bursts of batches",
                step,
                f"with {workers} workers one batch of {workers} was waited for {slow:.3f} s, "
                f"the others {fast:.3f} s at most; {sum(waits) / total:.0%} of the time",
                workers=workers,
                slow=slow,
                fast=fast,
            )
        ]

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
            bursts = self.bursts(held, total, step)
            if bursts:
                return bursts
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
