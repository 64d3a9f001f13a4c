"""Training and evaluation mode, and running statistics."""

import weakref

from .facts import fact
from .table import finding
from .values import sample, some, strided
from .watching import Observer


class Modes(Observer):
    """Looks at modules as they are called."""

    name = "modes"

    def __init__(self, watch):
        super().__init__(watch)
        self.ran = {}  # id of a parameter -> its place in the order of modules with gradients
        self.now = {}  # id -> (weak reference, training, sensitive), since the last backward
        self.history = {}  # id -> (weak reference, [training at each backward], sensitive)
        self.count = 0  # backwards with a model
        self.evaluations = []  # count at each call without gradients
        self.steps = {}  # steps after which a model ran without gradients, as an ordered set
        self.in_training_mode = []  # (count, root) of evaluations in training mode
        self.trainable = {}  # id of a batch norm -> whether a weight was ever trainable
        self.statistics = {}  # id -> (weak reference, first running mean)
        self.sensitive_now = False

    def entered(self, module, outermost):
        """A module is called."""
        import torch

        gradients = self.watch.gradients and not self.watch.in_backward
        norm = isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
        drop = isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0
        if outermost:
            self.sensitive_now = False
        self.sensitive_now = self.sensitive_now or ((norm or drop) and module.training)
        if not gradients:
            return
        self.now[id(module)] = (weakref.ref(module), module.training, norm or drop)
        for parameter in module._parameters.values():
            if parameter is not None:
                self.ran.setdefault(id(parameter), len(self.ran))
        if norm and module.track_running_stats and module.running_mean is not None:
            free = any(p is not None and p.requires_grad for p in module._parameters.values())
            self.trainable[id(module)] = self.trainable.get(id(module), False) or free
            if id(module) not in self.statistics and len(self.statistics) < 200:
                self.statistics[id(module)] = (weakref.ref(module), sample(module.running_mean))

    def left(self, module):
        """The outermost module has ended."""
        if self.watch.gradients or self.watch.in_backward:
            return
        self.steps[self.watch.step] = None
        if not self.evaluations or self.evaluations[-1] != self.count:
            self.evaluations.append(self.count)
        other = self.watch.parts["batches"].other_than_training()
        if module.training and self.sensitive_now and other and self.count:
            self.in_training_mode.append((self.count, type(module).__name__))

    def trained(self):
        """A loss goes back: what ran since the last one was training."""
        if not self.now:
            return
        self.count += 1
        for key, (ref, training, sensitive) in self.now.items():
            self.history.setdefault(key, (ref, [], sensitive))[1].append(training)
        self.now = {}

    def facts(self):
        """Evaluations between the steps."""
        if not self.steps:
            return []
        text = f"evaluated after steps {some(map(str, self.steps), 4)}"
        return [fact("loss/evaluations", text)]

    def unseen(self):
        """Why nothing can be said, if so."""
        return "" if self.history else "no module ran before a loss went back"

    def findings(self):
        """What the modes showed."""
        step, found, names = self.watch.step, [], self.watch.names()
        held = self.watch.parts["parameters"].held()
        for root in self.watch.models():
            if id(root) not in self.history or not any(id(p) in held for p in root.parameters()):
                continue
            modes = self.history[id(root)][1]
            inside = [
                names.get(id(m), "?")
                for m in root.modules()
                if id(m) in self.history
                and self.history[id(m)][2]
                and not self.history[id(m)][1][-1]
            ]
            if len(modes) < 4 or not inside or modes[-1]:
                continue
            if not any(modes):
                found.append(
                    finding(
                        "evaluation mode from the start",
                        step,
                        f"{type(root).__name__} and its {len(inside)} layers with dropout or "
                        "batch norm were in evaluation mode in "
                        f"all of {len(modes)} training steps",
                        layers=inside[:20],
                    )
                )
                break
            since = len(modes) - next(i for i, mode in enumerate(reversed(modes)) if mode)
            if len(modes) - since >= 3 and since in self.evaluations and all(modes[:since]):
                found.append(
                    finding(
                        "left in evaluation mode",
                        since + 1,
                        f"{type(root).__name__} was in training mode in {since} steps, then "
                        "evaluated, and in evaluation mode "
                        f"in the {len(modes) - since} steps after; {len(inside)} layers have "
                        "dropout or batch norm",
                        layers=inside[:20],
                    )
                )
                break
        if len(self.in_training_mode) >= 2:
            found.append(
                finding(
                    "evaluated in training mode",
                    self.in_training_mode[0][0],
                    f"{self.in_training_mode[0][1]} ran {len(self.in_training_mode)} times "
                    "without gradients on batches of another loader, with dropout or "
                    "batch norm in training mode",
                    calls=len(self.in_training_mode),
                )
            )
        moved = []
        for key, (ref, first) in self.statistics.items():
            module = ref()
            if module is None or self.trainable.get(key) or module.running_mean is None:
                continue
            frozen = any(p is not None for p in module._parameters.values())
            if frozen and bool((strided(module.running_mean) != first).any()):
                moved.append(names.get(key, "?"))
        if moved:
            found.append(
                finding(
                    "frozen statistics move",
                    step,
                    f"running_mean changed in {some(moved)}, whose weights were frozen in each "
                    "step",
                    layers=moved[:20],
                )
            )
        return found
