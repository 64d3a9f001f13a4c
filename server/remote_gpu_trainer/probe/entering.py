"""How the probe comes into a process: at the import of torch."""

import atexit
import importlib.util
import os
import sys
import time

from .activations import Activations
from .batches import Batches
from .checkpoints import Checkpoints
from .copies import Copies
from .data_sets import DataSets
from .gradients import Gradients
from .inputs import Inputs
from .loading import Workers
from .losses import Losses
from .memory import FOLLOWED, CardCounters
from .modes import Modes
from .opened import Files
from .parameters import Parameters
from .ranks import Ranks
from .rates import Rates
from .resources import Resources
from .series import Series
from .settings import Settings
from .shapes import SHAPE_STEPS, Shapes
from .watching import Watch

CLASSES = (
    Parameters,
    Gradients,
    Rates,
    Modes,
    Losses,
    Batches,
    Activations,
    Shapes,
    Ranks,
    Resources,
    Checkpoints,
    Settings,
    Inputs,
    Copies,
    Files,
    DataSets,
    Series,
)

SITE = '''\
"""Starts the probe, then the sitecustomize that this file hides."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
try:
    import _rgt_probe

    _rgt_probe.enter(here)
except Exception as error:
    sys.stderr.write("probe: could not start ({})\\n".format(error))
sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
own = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize
except ImportError as error:
    if error.name != "sitecustomize":
        raise
    if own is not None:
        sys.modules["sitecustomize"] = own
'''


class TorchFinder:
    """Finds torch like the finders after it, and calls `attach` once it is imported.

    Libraries ask for the spec before anybody imports torch, so it stays until the import.
    """

    def __init__(self, attach):
        self.attach, self.asking = attach, False

    def find_spec(self, name, path=None, target=None):
        """The spec of torch; None for everything else."""
        if name != "torch" or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking = False
        loader = getattr(spec, "loader", None)
        if loader is None:
            return spec
        execute, attach = loader.exec_module, self.attach

        def exec_module(module):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            del loader.exec_module
            try:
                attach(module)
            except Exception as error:
                sys.stderr.write(f"probe: could not attach ({error})\n")

        loader.exec_module = exec_module
        return spec


def enter(folder):
    """In each Python process of the program, before its first line."""
    steps = int(os.environ.get("RGT_PROBE_STEPS") or 30)

    def attach_all(torch):
        watch = Watch(folder, steps, CLASSES)
        attach(watch, torch)
        atexit.register(leave, watch)
        if os.environ.get(FOLLOWED):
            memory = CardCounters(watch)
            memory.thread.start()
            atexit.register(memory.end_thread)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: after_fork(watch))

    sys.meta_path.insert(0, TorchFinder(attach_all))


def leave(watch):
    """Report at the end of the program, and let go of the interpreter before it ends.

    A thread of gloo may still want it for its last exchange; denied, it aborts the process.
    """
    watch.finish()
    if watch.parts["ranks"].world > 1:
        time.sleep(0.05)


def after_fork(watch):
    """A forked child begins with nothing seen, and reports before it ends."""
    watch.begin()
    from multiprocessing.util import Finalize

    Finalize(None, watch.finish, exitpriority=100)


def attach(watch, torch):
    """Put the hooks and wrappers on. What this torch lacks costs the rest nothing."""
    for put_on in (
        attach_steps,
        attach_losses,
        attach_modules,
        attach_files,
        attach_loaders,
        attach_compilers,
    ):
        try:
            put_on(watch, torch)
        except Exception as error:
            why = f"{put_on.__name__}: {type(error).__name__}: {error}"
            sys.stderr.write(f"probe: could not attach all ({why})\n")


def attach_losses(watch, torch):
    """Loss functions, attention and backward()."""
    import torch.utils.checkpoint

    functions = torch.nn.functional
    wrap = watch.wrap
    wrap(functions, "cross_entropy", "losses", after="after_cross_entropy", fragile=True)
    wrap(functions, "nll_loss", "losses", after="after_nll", fragile=True)
    wrap(
        functions, "binary_cross_entropy_with_logits", "losses", after="after_binary", fragile=True
    )
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        wrap(functions, name, "losses", after="after_regression", fragile=True)
    for name in ("Categorical", "Normal", "Independent", "MultivariateNormal", "Bernoulli"):
        kind = getattr(torch.distributions, name)
        wrap(kind, "log_prob", "losses", after="after_log_probability", fragile=True)
    wrap(functions, "relu", "activations", after="after_relu", fragile=True)
    wrap(functions, "softmax", "activations", after="after_softmax", fragile=True)
    for owner in (torch, torch.Tensor):
        for name in ("topk", "argmax"):
            wrap(owner, name, "activations", after="after_choice", fragile=True)
    wrap(
        functions,
        "scaled_dot_product_attention",
        "activations",
        after="after_attention",
        fragile=True,
    )
    wrap(functions, "scaled_dot_product_attention", "shapes", after="after_attention", fragile=True)
    wrap(
        torch.utils.checkpoint,
        "checkpoint",
        "time and memory",
        before="before_checkpoint",
        fragile=True,
    )
    wrap(torch.Tensor, "backward", "ranks", before="before_backward")
    wrap(torch.Tensor, "backward", "time and memory", before="before_backward")
    wrap(torch.Tensor, "backward", "losses", before="before_backward")
    wrap(torch.Tensor, "backward", "gradients", before="before_backward", after="after_backward")
    utils = torch.nn.utils
    wrap(utils.clip_grad, "clip_grad_norm_", "gradients", after="after_clip", places=(utils,))
    scaler = (
        torch.amp.grad_scaler.GradScaler
        if hasattr(torch, "amp") and hasattr(torch.amp, "grad_scaler")
        else torch.cuda.amp.GradScaler
    )
    wrap(scaler, "scale", "gradients", after="after_scale")
    wrap(scaler, "unscale_", "gradients", after="after_unscale")
    wrap(scaler, "step", "gradients", before="before_scaler_step", after="after_scaler_step")


def attach_steps(watch, torch):
    """Optimizers and schedulers."""
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    @watch.careful
    def before(optimizer, args, kwargs):
        watch.guard("checkpoints", "before_step", optimizer)
        watch.guard("parameters", "before_step", optimizer)
        watch.guard("gradients", "before_step", optimizer)

    @watch.careful
    def after(optimizer, args, kwargs):
        watch.in_backward = False
        for part in ("parameters", "gradients", "rates", "ranks", "time and memory", "copies"):
            watch.guard(part, "after_step", optimizer)
        if not watch.resting():
            watch.stepped(optimizer)

    watch.step_handles += [
        register_optimizer_step_pre_hook(before),
        register_optimizer_step_post_hook(after),
    ]
    watch.wrap(torch.optim.Optimizer, "__init__", "parameters", after="after_built")
    schedulers = torch.optim.lr_scheduler
    base = getattr(schedulers, "LRScheduler", None) or schedulers._LRScheduler
    watch.wrap(base, "__init__", "rates", after="after_scheduler")
    watch.wrap(base, "load_state_dict", "checkpoints", after="after_scheduler")


def attach_modules(watch, torch):
    """Calls of modules."""
    from torch.nn.modules.module import (
        register_module_forward_hook,
        register_module_forward_pre_hook,
    )

    @watch.careful
    def entered(module, args):
        if watch.resting():
            watch.tidy()
            return
        stack = watch.local.__dict__.setdefault("stack", [])
        if not stack and next(module.parameters(), None) is not None:
            watch.add_model(module)
        watch.guard("modes", "entered", module, not stack)
        watch.parts["series"].entered(len(stack))
        if not stack or type(module).__name__ == "DistributedDataParallel":
            watch.guard("ranks", "entered", module, args, not stack)
        if watch.step < SHAPE_STEPS:
            watch.guard("shapes", "entered", module, args, not stack)
        if not stack or watch.parts["inputs"].fresh:
            watch.guard("inputs", "entered", module, args, not stack)
        stack.append(module)

    @watch.careful
    def left(module, args, output):
        stack = watch.local.__dict__.get("stack")
        if watch.resting() or not stack:
            return
        while stack and stack.pop() is not module:
            pass
        watch.parts["series"].left(module, len(stack))
        if not module._modules:
            watch.guard("activations", "left", module, output)
            if watch.step < SHAPE_STEPS:
                watch.guard("shapes", "left", module, output)
        if not stack:
            watch.guard("activations", "ended")
            watch.guard("shapes", "ended")
            watch.guard("modes", "left", module)
            if not watch.gradients:
                watch.parts["copies"].left(module)

    watch.wrap(
        torch.nn.parallel.DistributedDataParallel, "__init__", "ranks", after="after_wrapping"
    )
    watch.handles += [
        register_module_forward_pre_hook(entered),
        register_module_forward_hook(left, always_call=True),
    ]


def attach_files(watch, torch):
    """Saving and loading."""
    wrap = watch.wrap
    wrap(
        torch.serialization,
        "save",
        "checkpoints",
        before="before_save",
        after="after_save",
        places=(torch,),
    )
    wrap(torch.serialization, "load", "checkpoints", after="after_load", places=(torch,))
    wrap(torch.nn.Module, "load_state_dict", "checkpoints", after="after_model")
    wrap(torch.optim.Optimizer, "load_state_dict", "checkpoints", after="after_optimizer")


def attach_loaders(watch, torch):
    """Data loaders, and their workers."""
    from torch.utils.data import _utils, dataloader

    iterator = dataloader._BaseDataLoaderIter
    watch.wrap(iterator, "__init__", "batches", after="after_begin")
    watch.wrap(iterator, "_reset", "batches", after="after_reset")
    watch.wrap(iterator, "__next__", "batches", before="before_next", after="after_next")
    fetcher = _utils.fetch._MapDatasetFetcher
    fetcher.fetch = Workers(watch.folder).around(fetcher.fetch)  # pyright: ignore[reportAttributeAccessIssue]


def attach_compilers(watch, torch):
    """Compiled and captured code must not contain the probe, so it stands down before."""

    def stand_down_before(owner, attribute, why):
        original = getattr(owner, attribute)

        def compiled(*args, **kwargs):
            if owner is torch:
                watch.guard("settings", "before_compile", args, kwargs)
            watch.stand_down(why)
            return original(*args, **kwargs)

        setattr(owner, attribute, _like(original, compiled))

    def step_aside_for(owner, attribute):
        original = getattr(owner, attribute)

        def scripted(*args, **kwargs):
            watch.switch(False)
            try:
                return original(*args, **kwargs)
            finally:
                if watch.handles:
                    watch.switch(True)

        setattr(owner, attribute, _like(original, scripted))

    compiled_code = "torch.compile: compiled code isn't looked into"
    stand_down_before(torch, "compile", compiled_code)
    if hasattr(torch.nn.Module, "compile"):
        stand_down_before(torch.nn.Module, "compile", compiled_code)
    graph = getattr(torch.cuda, "CUDAGraph", None)
    if hasattr(graph, "capture_begin"):
        captured = "CUDA graph: what a graph replays calls no Python, so it isn't looked into"
        stand_down_before(graph, "capture_begin", captured)
    for attribute in ("script", "trace"):
        step_aside_for(torch.jit, attribute)


def _like(original, function):
    """`function` under the name of `original`."""
    import functools

    return functools.wraps(original)(function)
