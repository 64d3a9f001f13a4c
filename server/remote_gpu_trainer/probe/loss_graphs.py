"""The last operations before a loss, as autograd remembers them."""

import math

from .table import finding
from .values import median

GRAPH_STEPS = 8  # steps whose graphs are looked at
NODES = 24  # operations from the loss down
LN2 = math.log(2)


def shape_of(node, place=0):
    """The shape of one output of a node of the graph, or None."""
    metadata = getattr(node, "_input_metadata", None)
    if not metadata or place >= len(metadata):
        return None
    return tuple(metadata[place].shape)


def is_leaf(node):
    """Whether a node adds to the gradient of a parameter."""
    return type(node).__name__ == "AccumulateGrad"


def from_the_loss(node, most=NODES):
    """The first few operations behind a loss, nearest first."""
    todo, found = [node], []
    while todo and len(found) < most:
        node = todo.pop(0)
        if node is None or any(node is one for one in found):
            continue
        found.append(node)
        todo += [below for below, _ in node.next_functions]
    return found


class LossGraphs:
    """Looks at the operations behind a loss, before its backward()."""

    def __init__(self, watch):
        self.watch = watch
        self.log_probabilities = []  # nodes of log_prob() since the last backward()
        self.broadcast = []  # (step, shape of the predictions, of the difference)
        self.unequal = []  # (step, shape of the input, of the target) of a loss function
        self.weights = []  # (mean size, mean, deviation) of what multiplies log-probabilities
        self.preferences = []  # losses that are made of logsigmoid
        self.behind = {}  # id of a parameter -> losses computed from it, in the first steps

    def remember(self, loss):
        """A loss function gave a result: which parameters lie next behind it."""
        if self.watch.step >= GRAPH_STEPS or getattr(loss, "grad_fn", None) is None:
            return
        found = {id(node.variable) for node in from_the_loss(loss.grad_fn, 64) if is_leaf(node)}
        for key in found:
            self.behind[key] = self.behind.get(key, 0) + 1

    def regression(self, prediction, target):
        """A loss function got a prediction and a target."""
        one, two = tuple(prediction.shape), tuple(target.shape)
        if one == two or not prediction.requires_grad:
            return
        if prediction.numel() == target.numel() > 1 and (one[-1:] == (1,) or two[-1:] == (1,)):
            self.unequal.append((self.watch.step + 1, one, two))

    def look(self, loss):
        """A loss goes back."""
        nodes = []
        if self.watch.step < GRAPH_STEPS and loss.grad_fn is not None:
            nodes = from_the_loss(loss.grad_fn)
        for node in nodes:
            name = type(node).__name__
            if name.startswith("SubBackward"):
                self.difference(node)
            elif name.startswith("MulBackward"):
                self.product(node)
        names = [type(node).__name__ for node in nodes[:6]]
        if self.preferences or any(name.startswith("LogSigmoid") for name in names):
            self.preferences.append(float(loss.detach()))
        self.log_probabilities = []

    def difference(self, node):
        """Predictions of shape [N, 1] minus targets of shape [N]."""
        sides = node.next_functions
        differentiable = [(fn, place) for fn, place in sides if fn is not None]
        whole = shape_of(node)
        if len(differentiable) != 1 or whole is None or len(whole) != 2:
            return
        rows = whole[0]
        if whole[0] == whole[1] and rows > 1 and shape_of(*differentiable[0]) == (rows, 1):
            self.broadcast.append((self.watch.step + 1, (rows, 1), whole))

    def product(self, node):
        """Log-probabilities times numbers without a gradient."""
        if len(node.next_functions) != 2:  # times one number of Python
            return
        for side, other in ((0, "_saved_other"), (1, "_saved_self")):
            below = node.next_functions[side][0]
            for _ in range(4):
                if below is None or any(below is one for one in self.log_probabilities):
                    break
                below = below.next_functions[0][0] if below.next_functions else None
            if below is None or node.next_functions[1 - side][0] is not None:
                continue
            factor = getattr(node, other, None)
            if factor is not None and factor.numel() >= 8:
                factor = factor.detach().float()
                self.weights.append(
                    (float(factor.abs().mean()), float(factor.mean()), float(factor.std()))
                )

    def findings(self, step):
        """What the graphs showed."""
        found = []
        if len(self.unequal) >= 3:
            when, one, two = self.unequal[0]
            found.append(
                finding(
                    "targets are broadcast",
                    when,
                    f"the loss function got an input of shape {list(one)} and a target of shape "
                    f"{list(two)}",
                    input=list(one),
                    target=list(two),
                )
            )
        if len(self.broadcast) >= 3:
            when, one, whole = self.broadcast[0]
            found.append(
                finding(
                    "differences are broadcast",
                    when,
                    f"predictions of shape {list(one)} minus targets gave {list(whole)} on the "
                    f"way to the loss, in {len(self.broadcast)} steps",
                    predictions=list(one),
                    difference=list(whole),
                )
            )
        sizes = [size for size, _, _ in self.weights]
        if len(sizes) >= 4 and min(sizes) > 20:
            _, mean, deviation = self.weights[0]
            found.append(
                finding(
                    "returns of any scale",
                    step,
                    f"what multiplies the log-probabilities has a mean of {mean:.3g} and a "
                    f"deviation of {deviation:.3g}, and a median size of {median(sizes):.3g}",
                    size=median(sizes),
                )
            )
        still = [value for value in self.preferences if abs(value - LN2) < 0.003]
        if len(still) >= 12 and len(still) == len(self.preferences):
            found.append(
                finding(
                    "preferences stand still",
                    step,
                    f"{len(still)} losses made of logsigmoid lie between {min(still):.6g} and "
                    f"{max(still):.6g}; ln 2 is {LN2:.4g}",
                    lowest=min(still),
                    highest=max(still),
                )
            )
        return found
