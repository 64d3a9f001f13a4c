"""What is saved and loaded."""

from .table import finding
from .watching import Observer


def parts_of(thing, depth=3):
    """Which kinds of state a saved object holds: weights, optimizer, scheduler."""
    found = set()
    if not depth or not hasattr(thing, "items"):
        if hasattr(thing, "state_dict") and hasattr(thing, "parameters"):
            found.add("weights")
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

    def after_save(self, token, result, args, kwargs):
        """torch.save(obj, f)."""
        thing = args[0] if args else kwargs.get("obj")
        self.saved.append((self.watch.step, parts_of(thing)))

    def after_load(self, token, result, args, kwargs):
        """torch.load(f)."""
        self.read.append((self.watch.step, parts_of(result)))

    def after_model(self, token, result, args, kwargs):
        """Module.load_state_dict(state_dict, strict=True)."""
        module = args[0]
        state = args[1] if len(args) > 1 else kwargs.get("state_dict")
        strict = args[2] if len(args) > 2 else kwargs.get("strict", True)
        home = type(module).__module__
        if home.startswith(("torchvision.models", "timm.models")) and not self.watch.step:
            self.pretrained = type(module).__name__
        self.loaded_model = True
        own = set(module.state_dict().keys())
        if not strict and own and len(state) >= 2 and not own & set(state):
            self.missed.append((len(own), len(state), sorted(own)[0], sorted(state)[0]))

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
        steps = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
        for held in self.watch.parts["rates"].schedulers:
            scheduler = held["ref"]()
            if scheduler is not None and held["optimizer"]() is optimizer and steps:
                self.counts.append((max(steps), scheduler.last_epoch))

    def findings(self):
        """What was saved and loaded."""
        step, found = self.watch.step, []
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
        held = any("optimizer" in parts for parts in start)
        if held and step and self.loaded_model and not self.loaded_optimizer:
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
