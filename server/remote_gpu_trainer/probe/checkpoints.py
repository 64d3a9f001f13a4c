"""What is saved and loaded."""

import os
import platform
import sys

from .copies import bare_name
from .facts import fact
from .files import UNFINISHED, beside, crc, handler_above, numbered, path_of
from .opened import flat
from .table import finding
from .values import number, some, strided
from .watching import Observer


def is_class(thing):
    """Whether a saved thing is a class or a type, which a checkpoint may name in its settings."""
    return isinstance(thing, type) or hasattr(thing, "__origin__")


def is_model(thing):
    """Whether a saved thing is a model."""
    has_state = hasattr(thing, "state_dict") and hasattr(thing, "parameters")
    return has_state and not is_class(thing)


def parts_of(thing, depth=3):
    """Which kinds of state a saved object holds: weights, optimizer, scheduler."""
    found = set()
    if not depth or not hasattr(thing, "items"):
        return {"weights"} if is_model(thing) else found
    if is_class(thing):
        return found
    keys = set(thing.keys())
    if {"state", "param_groups"} <= keys:
        return {"optimizer"}
    if "last_epoch" in keys:
        return {"scheduler"}
    tensors = sum(hasattr(value, "untyped_storage") for value in thing.values())
    if tensors >= 2 and tensors >= 0.5 * len(keys):
        return {"weights"}
    for value in thing.values():
        if isinstance(value, (list, tuple)):
            for one in value[:8]:
                found |= parts_of(one, depth - 1)
        else:
            found |= parts_of(value, depth - 1)
    return found


def tensors_in(thing, depth=4):
    """Name -> tensor of all tensors in a saved thing, by the names of their weights."""
    if is_model(thing):
        thing = thing.state_dict()
    found = {}
    if depth and hasattr(thing, "items") and not is_class(thing):
        for key, value in thing.items():
            if hasattr(value, "untyped_storage"):
                found.setdefault(bare_name(str(key)), value)
            else:
                for name, tensor in tensors_in(value, depth - 1).items():
                    found.setdefault(name, tensor)
    return found


SETTINGS = ("config", "cfg", "args", "opt", "hparams", "hyper_parameters")


class Checkpoints(Observer):
    """Looks at torch.save, torch.load and load_state_dict."""

    name = "checkpoints"

    def __init__(self, watch):
        super().__init__(watch)
        self.saved, self.read = [], []  # (step, parts)
        self.loaded_optimizer = self.loaded_scheduler = 0
        self.loaded_model = False
        self.pretrained = ""  # the class of a known vision model that weights were loaded into
        self.missed = []
        self.counts = []  # (steps in the optimizer's state, scheduler) at the first step
        self.started = False
        self.written, self.opened = [], []  # (step, path)
        self.older = None  # (path, numbers, newer numbers) of a checkpoint that was read
        self.lower = None  # (step, numbers, higher numbers) of a save, nothing having been loaded
        self.settings = []  # (path, {dotted name: value}) of checkpoints that hold settings
        self.compared = []  # (step, how the weights in a save compare with those that train)
        self.handlers = []  # (step, signal) of saves within a handler
        self.own = {}  # id of a parameter that was loaded -> its name
        self.new_connectors = []  # names of connector weights that a state lacks
        self.connected = set()  # ids of connector weights that were loaded

    def before_save(self, args, kwargs):
        """What lay beside the file before."""
        path = path_of(args[1] if len(args) > 1 else kwargs.get("f"))
        saved = numbered(path) if path else None
        if saved is None or self.lower or self.loaded_model:
            return
        higher = [numbers for numbers, _ in beside(path) if numbers > saved[2]]
        if higher and self.watch.step:
            self.lower = (self.watch.step, saved[2], max(higher), path)

    def after_save(self, token, result, args, kwargs):
        """torch.save(obj, f)."""
        thing = args[0] if args else kwargs.get("obj")
        self.saved.append((self.watch.step, parts_of(thing)))
        if len(self.compared) < 8:
            self.compared.append((self.watch.step, self.beside_models(thing)))
        path = path_of(args[1] if len(args) > 1 else kwargs.get("f"))
        if path and len(self.written) < 200:
            self.written.append((self.watch.step, path))
        name = handler_above()
        if name:
            self.handlers.append((self.watch.step, name))

    def after_load(self, token, result, args, kwargs):
        """torch.load(f)."""
        self.read.append((self.watch.step, parts_of(result)))
        self.note_settings(args[0] if args else kwargs.get("f"), result)
        path = path_of(args[0] if args else kwargs.get("f"))
        loaded = numbered(path) if path else None
        if loaded is None:
            return
        self.opened.append(loaded)
        times = dict((tuple(numbers), when) for numbers, when in beside(path))
        mine = times.get(tuple(loaded[2]), 0)
        newer = [list(n) for n, when in times.items() if list(n) > loaded[2] and when >= mine]
        if newer and self.older is None:
            self.older = (path, loaded, max(newer), self.watch.step)

    def note_settings(self, target, thing):
        """Keep the settings of the run that wrote a checkpoint, where it holds them."""
        path = path_of(target)
        if not path or not isinstance(thing, dict):
            return
        for key in SETTINGS:
            own = thing.get(key)
            own = own if isinstance(own, dict) else getattr(own, "__dict__", None)
            if own and len(self.settings) < 8:
                self.settings.append((path, flat(own)))

    def after_model(self, token, result, args, kwargs):
        """Module.load_state_dict(state_dict, strict=True)."""
        module = args[0]
        state = args[1] if len(args) > 1 else kwargs.get("state_dict")
        strict = args[2] if len(args) > 2 else kwargs.get("strict", True)
        home = type(module).__module__
        if home.startswith(("torchvision.models", "timm.models")) and not self.watch.step:
            self.pretrained = type(module).__name__
        self.loaded_model = True
        self.note(module, state)
        own = set(module.state_dict().keys())
        if not strict and own and len(state) >= 2 and not own & set(state):
            self.missed.append((len(own), len(state), sorted(own)[0], sorted(state)[0]))

    def note(self, module, state):
        """Which weights were loaded, and whether those of a connector weren't."""
        names = dict(module.named_parameters())
        there = {name for name in names if name in state}
        if not self.watch.step:
            self.own.update((id(names[name]), name) for name in there)
        bridge = [
            n for n in names if any(word in n for word in ("projector", "connector", "merger"))
        ]
        self.connected.update(id(names[n]) for n in there if n in bridge or not bridge)
        if bridge and there and not there & set(bridge):
            self.new_connectors = [(n, id(names[n])) for n in bridge]

    def told(self):
        """What the parent compares between ranks."""
        made = sorted({crc(path) for when, path in self.written if when and path != os.devnull})
        return {"saved": made[:64], "host": crc(platform.node())}

    def after_optimizer(self, token, result, args, kwargs):
        """Optimizer.load_state_dict."""
        self.loaded_optimizer += 1

    def after_scheduler(self, token, result, args, kwargs):
        """LRScheduler.load_state_dict."""
        self.loaded_scheduler += 1

    def before_step(self, optimizer):
        """The first step: where optimizer and scheduler stand."""
        if self.started:
            return
        self.started = True
        states = [state for state in optimizer.state.values() if isinstance(state, dict)]
        steps = [number(state.get("step")) for state in states]
        steps = [count for count in steps if count is not None]
        for held in self.watch.parts["rates"].schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer and steps:
                self.counts.append((max(steps), scheduler.last_epoch))

    def beside_models(self, thing):
        """(weights that train, those of them in the saved thing, those that are equal there)."""
        there, held = tensors_in(thing), self.watch.parts["parameters"].held()
        trained = [
            (bare_name(name), parameter)
            for model in self.watch.models()
            for name, parameter in model.named_parameters()
            if id(parameter) in held
        ]
        mine = dict(trained)
        named = [name for name in mine if name in there and there[name].shape == mine[name].shape]
        equal = [
            name
            for name in named
            if bool((strided(there[name], 256).cpu() == strided(mine[name], 256).cpu()).all())
        ]
        return len(mine), len(named), len(equal)

    def facts(self):
        """What was saved, beside the weights that train, and what was loaded."""
        found = []
        kinds = set().union(*(parts for _, parts in self.saved)) if self.saved else set()
        for when, (mine, named, equal) in self.compared[-1:]:
            if not mine or not named:
                continue
            also = ", ".join(sorted(kinds - {"weights"})) or "nothing else"
            text = (
                f"after step {when}: {named} of {mine} trained weights, {equal} of them equal to "
                f"the model's; and {also}"
            )
            usual = "all, and equal" if min(named, equal) < mine else ""
            found.append(fact("saved/weights", text, usual, trained=mine, saved=named, equal=equal))
        read = [parts for _, parts in self.read if parts]
        if read:
            listed = ", ".join(sorted(set().union(*read)))
            text = f"loaded before or between the steps: {listed}"
            text += f"; optimizers {self.loaded_optimizer}, schedulers {self.loaded_scheduler}"
            found.append(
                fact(
                    "saved/loaded",
                    text,
                    optimizers=self.loaded_optimizer,
                    schedulers=self.loaded_scheduler,
                )
            )
        return found

    def unseen(self):
        """Why nothing can be said, if so."""
        there = self.saved or self.read or self.loaded_model or self.loaded_optimizer
        return "" if there else "nothing was saved or loaded"

    def findings(self):
        """What was saved and loaded."""
        step = self.watch.step
        return self.each((self.of_states, step), (self.of_files, step), (self.of_weights, step))

    def of_states(self, step):
        """Which states were saved and loaded."""
        found = []
        early = [(when, parts) for when, parts in self.saved if 0 < when < step]
        kinds = set().union(*(parts for _, parts in self.saved)) if self.saved else set()
        if early and any("weights" in parts for _, parts in early) and "optimizer" not in kinds:
            found.append(
                finding(
                    "checkpoint lacks the optimizer",
                    early[0][0],
                    f"torch.save wrote weights after step {early[0][0]} and training went on; no "
                    "file holds an "
                    "optimizer's state",
                    saves=len(early),
                )
            )
        start = [parts for when, parts in self.read if when == 0]
        has_state = any("optimizer" in parts for parts in start)
        if has_state and step and self.loaded_model and not self.loaded_optimizer:
            found.append(
                finding(
                    "optimizer not restored",
                    1,
                    "torch.load read a file with an optimizer's state before step 1; the model "
                    "was loaded and no optimizer.load_state_dict() was called",
                )
            )
        for steps, stands in self.counts:
            if self.loaded_optimizer and steps > 0 and stands == 0 and not self.loaded_scheduler:
                found.append(
                    finding(
                        "scheduler not restored",
                        1,
                        f"at the first step the optimizer's state counted {steps:g} steps, the "
                        "scheduler 0",
                        optimizer=steps,
                    )
                )
                break
        for own, given, mine, theirs in self.missed[:1]:
            found.append(
                finding(
                    "nothing was loaded",
                    0,
                    f"none of {given} names in the state matches one of the {own} in the model: "
                    f"{theirs} there, {mine} "
                    "here",
                    names=given,
                )
            )
        return found

    def of_files(self, step):
        """Which files were chosen, written and deleted."""
        found = []
        if self.older and self.loaded_model:
            path, loaded, newer, when = self.older
            if not any(one[:2] == loaded[:2] and one[2] >= newer for one in self.opened):
                found.append(
                    finding(
                        "older checkpoint",
                        when + 1,
                        f"{os.path.basename(path)} was loaded; a newer one beside it has "
                        f"{newer[-1]} in place of {loaded[2][-1]}",
                        loaded=loaded[2][-1],
                        newest=newer[-1],
                    )
                )
        if self.lower and not self.loaded_model:
            when, mine, higher, path = self.lower
            trainer = "checkpoint-" in path and "transformers.trainer" in sys.modules
            found.append(
                finding(
                    "Trainer began anew" if trainer else "counting from the start",
                    when,
                    f"torch.save wrote number {mine[-1]} while number {higher[-1]} lay beside "
                    "it, and no weights were loaded before",
                    saved=mine[-1],
                    there=higher[-1],
                )
            )
        for when, name in self.handlers[:1]:
            found.append(
                finding(
                    "saved by a signal handler",
                    when + 1,
                    f"torch.save ran within the handler of {name} after step {when}, before the "
                    "loop had ended its turn",
                    signal=name,
                )
            )
        return found + self.of_deleted(step)

    def of_deleted(self, step):
        """Numbered checkpoints of this run of which the newest is gone."""
        groups = {}
        for when, path in self.written:
            found = numbered(path)
            if found and when and not path.endswith(UNFINISHED):
                groups.setdefault(found[:2], []).append((found[2], path))
        for saves in groups.values():
            saves.sort()
            there = [numbers for numbers, path in saves if os.path.exists(path)]
            if len({tuple(numbers) for numbers, _ in saves}) < 3 or not there:
                continue
            if max(there) < saves[-1][0]:
                return [
                    finding(
                        "newest was deleted",
                        step,
                        f"number {saves[-1][0][-1]} was saved last and is gone; number "
                        f"{max(there)[-1]} is the newest that is left",
                        saved=saves[-1][0][-1],
                        left=max(there)[-1],
                    )
                ]
        return []

    def of_weights(self, step):
        """Rates of loaded and new weights, and connectors that nobody loaded."""
        parameters, found = self.watch.parts["parameters"], []
        if "parameters" in self.watch.failed or step < 3 or self.loaded_optimizer:
            return found
        held = parameters.held()
        for model in self.watch.models():
            free = {
                id(p): name
                for name, p in model.named_parameters()
                if p.requires_grad and id(p) in held and id(p) in parameters.seen
            }
            rates = {key: max(parameters.seen[key].rates, default=0.0) for key in free}
            old = [key for key in free if key in self.own]
            new = [key for key in free if key not in self.own]
            adam = any("Adam" in one["type"] for one in parameters.optimizers.values())
            one = {rates[key] for key in free}
            if old and new and adam and len(one) == 1 and max(one) >= 1e-3:
                found.append(
                    finding(
                        "old and new at one rate",
                        1,
                        f"{len(old)} loaded weights ({some([free[k] for k in old], 2)}) and "
                        f"{len(new)} new ones ({some([free[k] for k in new], 2)}) train at "
                        f"{max(one):g} under Adam",
                        rate=max(one),
                        loaded=len(old),
                        new=len(new),
                    )
                )
            fresh = [n for n, key in self.new_connectors if key in free]
            fresh = [] if {key for _, key in self.new_connectors} & self.connected else fresh
            others = [free[key] for key in old if "vision" not in free[key]]
            if fresh and others:
                found.append(
                    finding(
                        "new connector trains along",
                        1,
                        f"the state that was loaded has no weights for the connector "
                        f"({some(fresh, 2)}), and {len(others)} loaded weights of the language "
                        f"model ({some(others, 2)}) train together with it",
                        connector=len(fresh),
                        others=len(others),
                    )
                )
            if found:
                break
        return found
