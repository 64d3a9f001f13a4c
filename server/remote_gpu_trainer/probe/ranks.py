"""What wraps a model for several ranks: DDP, FSDP, DeepSpeed."""

import gc
import os
import sys
import weakref
import zlib

from .facts import fact
from .table import finding
from .values import fingerprint, median
from .watching import Observer

WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DeepSpeedEngine")
FEW_ROWS = 32  # rows or tokens of a rank, below which a gather costs more than it serves
BYTES = 16  # of each parameter under Adam in mixed precision


def shards(module):
    """Whether FSDP, the older or the newer, treats a module as a unit."""
    names = {cls.__name__ for cls in type(module).__mro__}
    return bool(names & {"FullyShardedDataParallel", "FSDPModule"})


def memory_of_a_device():
    """Bytes of memory of the device that trains."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def weights_of(model, most=256):
    """Hashes of samples of at most `most` weights that DDP keeps equal."""
    own = set(getattr(model, "parameters_to_ignore", None) or ())
    every = [p for n, p in model.module.named_parameters() if p.requires_grad and n not in own]
    return [fingerprint(p, 64) for p in every[:: max(1, -(-len(every) // most))]]


class Ranks(Observer):
    """Looks at wrappers for several ranks."""

    name = "ranks"

    def __init__(self, watch):
        super().__init__(watch)
        self.forwards = self.exchanging = 0  # calls of a DDP model since the last step
        self.windows = []  # (forwards, exchanging, backwards) of each step
        self.backwards = 0
        self.rows = []  # rows or tokens in a call of an FSDP model
        self.engine = None
        self.steps, self.world = 0, 1
        self.has_replicas = False  # each rank holds, or held, the whole model
        self.wrapped = []  # weak references to DDP models; a program may never call them
        self.weights = {}  # steps so far -> hash of the weights, where all ranks should have them

    def after_wrapping(self, token, result, args, kwargs):
        """A model was wrapped in DistributedDataParallel."""
        if len(self.wrapped) < 16:
            self.wrapped.append(weakref.ref(args[0]))
            self.has_replicas = self.has_replicas or bool(self.replicas())

    def entered(self, module, args, outermost):
        """A module is called."""
        import torch

        if not self.watch.gradients or self.watch.in_backward:
            return
        if type(module).__name__ == "DistributedDataParallel":
            self.forwards += 1
            self.exchanging += bool(module.require_backward_grad_sync)
        given = args[0] if args else None
        if outermost and isinstance(given, torch.Tensor) and given.dim() and shards(module):
            tokens = not given.is_floating_point() or given.dim() == 3
            self.rows.append(given[..., 0].numel() if given.dim() == 3 else
                             given.numel() if tokens else given.shape[0])  # fmt: skip

    def before_backward(self, args, kwargs):
        """A loss goes back."""
        self.backwards += 1

    def after_step(self, optimizer):
        """Close the window between two steps."""
        self.windows.append((self.forwards, self.exchanging, self.backwards))
        self.forwards = self.exchanging = self.backwards = 0
        self.steps += 1
        # Who steps without an exchange, as local SGD does, has unlike weights on purpose.
        local = any(forwards and not exchanging for forwards, exchanging, _ in self.windows)
        if self.size() > 1 and self.steps in (2, 4, 8, 16, 24) and not local:
            weights = [weights_of(model) for model in self.replicas()]
            if weights:
                self.weights[self.steps] = zlib.crc32(repr(weights).encode())

    def replicas(self):
        """The models of which each rank of the program holds a copy that DDP keeps equal."""
        found = []
        for one in [ref() for ref in self.wrapped]:
            # A hook may keep ranks apart on purpose, as local SGD does.
            if one is not None and not getattr(one, "_comm_hooks", None):
                found += [one] if one.process_group.size() == self.size() else []
        return found

    def told(self):
        """What the parent compares between ranks."""
        return {"weights": self.weights, "world": self.size()}

    def facts(self):
        """How many ranks there are, and what wraps the model."""
        if self.size() < 2:
            return []
        kinds = [type(m).__name__ for m in self.watch.models()[:1]]
        kinds = [kind for kind in kinds if kind in WRAPPERS or kind.startswith("FSDP")]
        kinds = kinds or ["DistributedDataParallel"] * self.has_replicas
        kinds = kinds or ["no wrapper that is known"]
        return [fact("in force/ranks", f"{self.size()} ranks, {kinds[0]}", world=self.size())]

    def unseen(self):
        """Why nothing can be said, if so. The parent compares the weights."""
        if self.size() < 2:
            return "one process"
        return "" if self.weights else "weights of ranks are compared only under DDP"

    def size(self):
        """The number of ranks."""
        import torch

        spread = torch.distributed
        if spread.is_available() and spread.is_initialized():
            self.world = max(self.world, spread.get_world_size())
        return self.world  # a program may leave the group before it ends

    def findings(self):
        """What the wrappers showed."""
        step = self.watch.step
        if step < 4:
            return []
        return self.each((self.of_ddp, step), (self.of_fsdp, step), (self.of_deepspeed, step))

    def of_ddp(self, step):
        """Exchanges in each micro-batch, and batch norm of one rank."""
        found = []
        inner = self.windows[1:]
        every = [w for w in inner if w[0] >= 2 and w[0] == w[1] == w[2]]
        if self.size() > 1 and len(every) >= 3 and len(every) == len(inner):
            found.append(
                finding(
                    "exchange in each micro-batch",
                    step,
                    f"{every[0][0]} micro-batches made a step, and DistributedDataParallel "
                    "exchanged gradients in each",
                    micro_batches=every[0][0],
                )
            )
        shapes = self.watch.parts["shapes"]
        few = [] if "shapes" in self.watch.failed else [n for n in shapes.few() if n[1] <= 8]
        wrapped = [m for m in self.watch.models() if type(m).__name__ == "DistributedDataParallel"]
        if self.size() > 1 and few and wrapped:
            found.append(
                finding(
                    "batch norm of one rank",
                    step,
                    f"{few[0][0]} got {few[0][1]} samples in a call on this rank of "
                    f"{self.size()}, and isn't SyncBatchNorm",
                    samples=few[0][1],
                    layers=len(few),
                )
            )
        return found

    def of_fsdp(self, step):
        """Units, rows for each gather, and the type of the weights."""
        import torch

        found = []
        for root in [model for model in self.watch.models() if shards(model)][:1]:
            units = [module for module in root.modules() if shards(module)]
            kinds = {}
            for module in root.modules():
                if module is not root and len(module._modules) and not shards(module):
                    kinds.setdefault(type(module).__name__, []).append(module)
            blocks = max(kinds.items(), key=lambda kind: len(kind[1]), default=("", []))
            if len(units) == 1 and len(blocks[1]) >= 4:
                found.append(
                    finding(
                        "one unit",
                        step,
                        f"FSDP has one unit, the whole {type(root).__name__}, with "
                        f"{len(blocks[1])} blocks of type {blocks[0]}",
                        blocks=len(blocks[1]),
                    )
                )
            if len(self.rows) >= 3 and median(self.rows) < FEW_ROWS:
                found.append(
                    finding(
                        "few rows for each gather",
                        step,
                        f"a rank computes {median(self.rows)} rows between two gathers of all "
                        "weights",
                        rows=median(self.rows),
                    )
                )
            held = self.watch.parts["parameters"].held()
            types = {p.dtype for p in root.parameters() if p.requires_grad and id(p) in held}
            if types and types <= {torch.bfloat16, torch.float16}:
                found.append(
                    finding(
                        "sharded in half precision",
                        step,
                        "all weights that FSDP shards and the optimizer holds are "
                        + str(next(iter(types))).replace("torch.", ""),
                    )
                )
        return found

    def find_engine(self):
        """DeepSpeed's engine. Compiled code in DeepSpeed takes the hooks on modules off."""
        place = sys.modules.get("deepspeed.runtime.engine")
        if place is None:
            return None
        engine = self.engine() if self.engine else None
        if engine is None:
            every = [thing for thing in gc.get_objects() if type(thing) is place.DeepSpeedEngine]
            engine = every[0] if every else None
            self.engine = weakref.ref(engine) if every else None
        return engine

    def of_deepspeed(self, step):
        """The stage, and who accumulates."""
        engine, found = self.find_engine(), []
        if engine is None:
            return found
        if engine.zero_optimization_stage() == 3:
            count = sum(getattr(p, "ds_numel", p.numel()) for p in engine.module.parameters())
            share = count * BYTES / memory_of_a_device()
            if share < 0.25:
                found.append(
                    finding(
                        "stage 3 for a model that fits",
                        step,
                        f"{count} parameters with gradients and Adam's state take {share:.1%} of "
                        f"one device's memory, and stage 3 splits them over {self.size()}",
                        parameters=count,
                        share=round(share, 4),
                    )
                )
        usual = engine.gradient_accumulation_steps()
        made = median([backwards for _, _, backwards in self.windows])
        if usual > 1 and made >= 2 * usual:
            found.append(
                finding(
                    "accumulated twice",
                    step,
                    f"gradient_accumulation_steps is {usual}, and {made} losses went back for "
                    "each step of the optimizer",
                    set=usual,
                    made=made,
                )
            )
        return found
