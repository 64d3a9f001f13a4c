"""What is seen in one process, the guards around it, and how it ends."""

import functools
import json
import os
import sys
import threading
import types
import weakref

from .table import FOUND, KINDS, NOT_LOOKED, OBSERVATIONS, SOUND


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


class Named:
    """Calls `around` in the place of a builtin function, and is pickled as that function.

    A model may hold on to it, and be saved whole, long after the probe is gone.
    """

    def __init__(self, original, around):
        functools.update_wrapper(self, original)
        self.original, self.around = original, around

    def __call__(self, *args, **kwargs):
        """Do what the builtin does, with the looks around it."""
        return self.around(*args, **kwargs)

    def __reduce_ex__(self, protocol):
        """How to find the builtin again."""
        reduced = self.original.__reduce_ex__(protocol)
        if isinstance(reduced, str):  # a name in its module, where this one may stand now
            import pydoc

            return pydoc.locate, (f"{self.original.__module__}.{reduced}",)
        return reduced


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

    def each(self, *checks):
        """What checks find, given as (method, arguments). An error ends that check alone."""
        found = []
        for check, *arguments in checks:
            try:
                found += check(*arguments)
            except Exception as error:
                why = f"{check.__name__}: {type(error).__name__}: {error}"[:200]
                self.watch.failed.setdefault(self.name, why)
        return found

    def facts(self):
        """What was seen beside the findings: a list of facts."""
        return []

    def unseen(self):
        """Why nothing can be said about it, or an empty text."""
        return ""

    def partly(self):
        """What of it couldn't be looked at, or an empty text."""
        return ""


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
        self.aside = set()  # parts that stand aside for compiled code
        self.over = self.final = False
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
            if torch._C._len_torch_dispatch_stack() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
                return None
            functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
            if functorch.peek_interpreter_stack() is not None:
                return None
            self.gradients = torch.is_grad_enabled()
            with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
                return getattr(self.parts[part], method)(*args)
        except Exception as error:
            self.failed[part] = f"{type(error).__name__}: {error}"[:200]
            return None

    def careful(self, hook):
        """A hook whose errors end the looking, never the program."""

        @functools.wraps(hook)
        def around(*args):
            try:
                hook(*args)
            except Exception as error:
                self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])

        return around

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
        builtin = not isinstance(original, types.FunctionType)
        named = isinstance(owner, types.ModuleType) and builtin
        put = Named(original, around) if named else around
        for place in (owner, *places):
            if getattr(place, attribute, None) is original:
                self.patches.append((fragile, Replaced(place, attribute, original, put)))
                setattr(place, attribute, put)

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
            self.aside.add(part)

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
        """id -> name, of all modules and parameters of the models that were called.

        Where two models have equal names, the model stands before the name.
        """
        found, owners = {}, {}
        for place, root in enumerate(self.models(), 1):
            model = type(root).__name__
            try:
                for name, module in root.named_modules():
                    found.setdefault(id(module), (name or model, model, place))
                for name, parameter in root.named_parameters():
                    found.setdefault(id(parameter), (name, model, place))
            except Exception as error:  # a model may have such methods of its own
                self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])
        for name, _, place in found.values():
            owners.setdefault(name, set()).add(place)
        return {
            key: name if len(owners[name]) == 1 else f"{model} {place}: {name}"
            for key, (name, model, place) in found.items()
        }

    def models(self):
        """The models that were called and are still there, outermost first."""
        return [root for root in (ref() for ref in self.roots.values()) if root is not None]

    def add_model(self, module):
        """Remember a module that was called from outside."""
        held = self.roots.get(id(module))
        if (held is None or held() is not module) and len(self.roots) < 64:
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
            self.final = True
            self.write(last=True)
            self.guard("data sets", "look")
            self.over = True

    def write(self, last=False):
        """Write the findings so far into the folder, whole."""
        if not self.step or self.pid != os.getpid():
            return
        try:
            report = self.report()
            path = os.path.join(self.folder, "rank-{}-{}.json".format(report["rank"], self.pid))
            try:
                with open(path + ".part", "w", encoding="utf-8") as handle:
                    json.dump(report, handle, default=str)
                os.replace(path + ".part", path)
            except OSError as error:
                if last and os.path.isdir(self.folder):  # else the parent is gone
                    self.say(report, error)
        except Exception as error:
            self.failed.setdefault("series", f"{type(error).__name__}: {error}"[:200])

    def say(self, report, error):
        """Print the findings where the folder takes no file, as on a full disk."""
        sys.stderr.write(f"probe: the report can't be written ({error.strerror}); seen so far:\n")
        for one in report["findings"]:
            sys.stderr.write("{level} [{id}] {what}: {evidence}\n".format(**one))

    def rank(self):
        """The rank of this process."""
        import torch

        spread = torch.distributed
        if spread.is_available() and spread.is_initialized():
            return spread.get_rank()
        text = os.environ.get("RANK") or "0"
        return int(text) if text.isdigit() else 0

    def report(self):
        """What this process hands to the parent. A part that fails costs the others nothing."""
        import torch

        found, looked, told = [], {}, {}
        rank = self.rank()
        for name in OBSERVATIONS:
            if name not in self.parts:
                continue
            # What a part saw before an error is still told.
            before = None if name in self.aside else self.failed.pop(name, None)
            told_by_part = [] if name in self.aside else self.guard(name, "findings")
            mine = [dict(one, rank=rank) for one in told_by_part or [] if one["kind"] in KINDS]
            if before:
                self.failed[name] = before
            why = self.failed.get(name)
            if told_by_part is None and not why:
                why = "another thread or a graph's capture was in the way"
            why = why or ("" if mine else self.guard(name, "unseen")) or self.failed.get(name)
            state = FOUND if mine else NOT_LOOKED if why else SOUND
            partly = self.guard(name, "partly")
            found += mine
            looked[name] = {"state": state}
            looked[name].update({"why": why} if why else {})
            looked[name].update({"partly": partly} if partly else {})
            looked[name].update({"broken": True} if self.failed.get(name) else {})
        for name in ("batches", "checkpoints", "ranks"):
            told.update(self.guard(name, "told") or {})
        facts = [one for name in self.parts for one in self.guard(name, "facts") or []]
        return {
            "rank": rank,
            "pid": self.pid,
            "steps": self.step,
            "whole": self.step >= self.limit,
            "series": self.guard("series", "told") or {},
            "findings": found,
            "observations": looked,
            "facts": facts,
            "program": os.path.basename(sys.argv[0] if sys.argv else ""),
            "torch": str(torch.__version__),
            "python": sys.version.split()[0],
            **told,
        }
