"""What is seen in one process, the guards around it, and how it ends."""

import functools
import json
import os
import sys
import threading
import types
import weakref

from .table import KINDS, OBSERVATIONS


class Replaced:
    """A function that stands in for an attribute of its owner."""

    def __init__(self, owner, attribute, original, around):
        self.owner, self.attribute = owner, attribute
        self.original, self.around = original, around

    def switch(self, on):
        """Put it in the attribute's place, or take it out, unless something else is there now."""
        old, new = (self.original, self.around) if on else (self.around, self.original)
        if self.owner.__dict__.get(self.attribute) is old:
            setattr(self.owner, self.attribute, new)


class Detoured:
    """A function that calls `around` first, and stays the same object all the time.

    Models hold on to functions such as `relu`. Where such a model is pickled, the function has to
    be the one that its module knows under its name.
    """

    def __init__(self, function):
        self.function, self.code = function, function.__code__
        self.own = types.FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__
        )
        self.own.__kwdefaults__ = function.__kwdefaults__
        self.own.__annotations__ = function.__annotations__
        self.name = "_rgt_probe_" + function.__name__

    def lead(self, around):
        """Call `around` from now on. The code still says where its source is."""
        self.around = around
        call = eval(f"lambda *args, **kwargs: {self.name}(*args, **kwargs)")
        self.call = call.__code__.replace(
            co_name=self.code.co_name,
            co_filename=self.code.co_filename,
            co_firstlineno=self.code.co_firstlineno,
        )
        self.switch(True)

    def switch(self, on):
        """Call `around`, or what the function did before."""
        if self.function.__code__ is not (self.code if on else self.call):
            return
        if on:
            self.function.__globals__[self.name] = self.around
            self.function.__wrapped__ = self.own
        self.function.__code__ = self.call if on else self.code
        if not on:
            del self.function.__wrapped__, self.function.__globals__[self.name]


def plain(owner, function):
    """Whether it is a module's own function without a closure, written in Python."""
    return (
        isinstance(owner, types.ModuleType)
        and isinstance(function, types.FunctionType)
        and not function.__closure__
        and not hasattr(function, "__wrapped__")
        and function.__globals__ is owner.__dict__
    )


class Observer:
    """One part of what is looked at. `watch` is shared; the rest is its own."""

    name = ""

    def __init__(self, watch):
        self.watch = watch

    def findings(self):
        """What was found, at the end."""
        return []


class Watch:
    """What one process shows until it has taken `limit` steps.

    Every look goes through `guard`: an error there ends that part alone, never the program.
    """

    def __init__(self, folder, limit, classes):
        self.folder, self.limit, self.classes = folder, limit, classes
        self.patches, self.handles, self.step_handles = [], [], []
        self.local = threading.local()
        self.begin()

    def begin(self):
        """Forget everything: at the start, and in a forked child."""
        self.failed = {}
        self.over = False
        self.step = 0
        self.turn = set()  # the optimizers that took the newest step
        self.in_backward = self.gradients = False
        self.owner = threading.get_ident()
        self.pid = os.getpid()
        self.roots = {}  # id -> weak reference, of modules that were called from outside
        self.parts = {cls.name: cls(self) for cls in self.classes}

    def resting(self):
        """Whether nothing may be looked at: it is over, or another thread runs."""
        return self.over or threading.get_ident() != self.owner

    def guard(self, part, method, *args):
        """Call a method of a part, within no_grad. An error ends the part."""
        if part in self.failed or self.resting():
            return None
        import torch

        try:
            # While a CUDA graph is captured, reading a value from the card ends the capture with an
            # error ("operation not permitted when stream is capturing"), and the program with it.
            if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
                return None
            if torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():
                return None
            if torch._C._functorch.peek_interpreter_stack() is not None:
                return None
            self.gradients = torch.is_grad_enabled()
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return getattr(self.parts[part], method)(*args)
        except Exception as error:
            self.failed[part] = f"{type(error).__name__}: {error}"[:200]
            return None

    def wrap(self, owner, attribute, part, before="", after="", fragile=False, places=()):
        """Put a function around `owner.attribute` that looks before and after it.

        `fragile` ones are taken off while code is compiled. `places` are further owners.
        """
        function = original = getattr(owner, attribute, None)
        if original is None:
            return
        watch = self
        detour = Detoured(function) if plain(owner, function) else None
        if detour:
            original = detour.own

        @functools.wraps(original)
        def around(*args, **kwargs):
            if watch.resting():
                watch.tidy()
                return original(*args, **kwargs)
            token = watch.guard(part, before, args, kwargs) if before else None
            result = original(*args, **kwargs)
            if after:
                watch.guard(part, after, token, result, args, kwargs)
            return result

        if detour:
            detour.lead(around)
            self.patches.append((fragile, detour))
            return
        for place in (owner, *places):
            if getattr(place, attribute, None) is original:
                self.patches.append((fragile, Replaced(place, attribute, original, around)))
                setattr(place, attribute, around)

    def switch(self, on, fragile_only=True):
        """Take the functions off, or put them back."""
        for fragile, patch in self.patches[:: 1 if on else -1]:
            if fragile or not fragile_only:
                patch.switch(on)

    def stand_down(self, why):
        """Take off what compiled or captured code would contain, for good."""
        self.switch(False)
        for handle in self.handles:
            handle.remove()
        self.handles = []
        for part in ("activations", "modes", "losses", "shapes"):
            self.failed.setdefault(part, why)

    def tidy(self):
        """Once it is over: take everything off."""
        if self.over and self.patches and threading.get_ident() == self.owner:
            self.switch(False, fragile_only=False)
            for handle in self.handles + self.step_handles:
                handle.remove()
            self.patches, self.handles, self.step_handles = [], [], []

    def name_of(self, thing):
        """The name of a module or parameter within the models that were called."""
        return self.names().get(id(thing), "?")

    def names(self):
        """id -> name, of all modules and parameters of the models that were called."""
        found = {}
        for root in self.models():
            for name, module in root.named_modules():
                found.setdefault(id(module), name or type(root).__name__)
            for name, parameter in root.named_parameters():
                found.setdefault(id(parameter), name)
        return found

    def models(self):
        """The models that were called and are still there, outermost first."""
        return [root for root in (ref() for ref in self.roots.values()) if root is not None]

    def add_model(self, module):
        """Remember a module that was called from outside."""
        if id(module) not in self.roots and len(self.roots) < 64:
            self.roots[id(module)] = weakref.ref(module)

    def stepped(self, optimizer):
        """An optimizer took a step, or its scaler skipped it.

        Optimizers that take turns, as in a GAN, count as one step; those that follow each other
        go on counting.
        """
        if self.step and id(optimizer) not in self.turn:
            self.turn.add(id(optimizer))
            return
        self.turn = {id(optimizer)}
        self.step += 1
        if self.step in (1, 2, 4, 8, 16) and self.step < self.limit:
            self.write()
        if self.step >= self.limit:
            self.finish()

    def finish(self):
        """Write what was seen, and let everything else pass through from now on."""
        if not self.over and self.pid == os.getpid():
            self.write()
            self.over = True

    def write(self):
        """Write the findings so far into the folder, whole."""
        if not self.step or self.pid != os.getpid():
            return
        report = self.report()
        path = os.path.join(self.folder, "rank-{}-{}.json".format(report["rank"], self.pid))
        try:
            with open(path + ".part", "w", encoding="utf-8") as handle:
                json.dump(report, handle)
            os.replace(path + ".part", path)
        except (OSError, ValueError):
            pass

    def report(self):
        """What this process hands to the parent."""
        import torch

        found, looked = [], {}
        for name in OBSERVATIONS:
            if name not in self.parts:
                continue
            before = self.failed.get(name)
            part = [] if before else self.guard(name, "findings") or []
            why = self.failed.get(name)
            found += part
            state = "not looked at" if why else ("found" if part else "sound")
            looked[name] = {"state": state, **({"why": why} if why else {})}
        rank = int(os.environ.get("RANK") or 0)
        spread = torch.distributed
        if spread.is_available() and spread.is_initialized():
            rank = spread.get_rank()
        for one in found:
            one["rank"] = rank
        assert all(one["kind"] in KINDS for one in found)
        told = {}
        for name in ("batches", "checkpoints"):
            told.update({} if name in self.failed else self.parts[name].told())
        return {
            "rank": rank,
            "pid": self.pid,
            "steps": self.step,
            "whole": self.step >= self.limit,
            "series": self.guard("series", "told") or {},
            "findings": found,
            "observations": looked,
            "torch": str(torch.__version__),
            "python": sys.version.split()[0],
            **told,
        }
