"""What enters the model: the first layer's input, and tokens beside their labels."""

from .facts import brief, count_of, fact
from .values import strided
from .watching import Observer

CALLS = 32  # that are looked at


class Inputs(Observer):
    """Looks at what the first layer of each call gets, whoever made the batch."""

    name = "inputs"

    def __init__(self, watch):
        super().__init__(watch)
        self.fresh = False  # whether the outermost module was entered, and no layer yet
        self.calls = []  # (name of the layer, type, shape, lowest, highest, mean, deviation)

    def entered(self, module, args, outermost):
        """A module is called."""
        import torch

        if outermost:
            self.fresh = self.watch.gradients and not self.watch.in_backward
        if not self.fresh or module._modules or len(self.calls) >= CALLS:
            return
        given = next((one for one in args if isinstance(one, torch.Tensor)), None)
        if given is None or not given.numel() or not given.dim():
            return
        self.fresh = False
        part = strided(given, 4096).double() if not given.is_complex() else None
        if part is None or not bool(part.isfinite().all()):
            return
        kind = str(given.dtype).replace("torch.", "")
        numbers = [float(f(part)) for f in (torch.min, torch.max, torch.mean)]
        numbers.append(float(part.std(unbiased=False)))
        self.calls.append((type(module).__name__, kind, tuple(given.shape), *numbers))

    def rows(self):
        """The rows of a call."""
        return self.calls[0][2][0] if self.calls else 0

    def facts(self):
        """The input of the first layer in all calls."""
        if not self.calls:
            return []
        layer, kind, shape = self.calls[0][:3]
        low, high = min(call[3] for call in self.calls), max(call[4] for call in self.calls)
        usual = ""
        text = f"{layer} gets {kind} {'x'.join(map(str, shape))}, {brief(low)} to {brief(high)}"
        if kind.startswith(("float", "bfloat")):
            mean = sum(call[5] for call in self.calls) / len(self.calls)
            spread = sum(call[6] for call in self.calls) / len(self.calls)
            text += f", mean {brief(mean)}, deviation {brief(spread)}"
            if spread and (not 0.02 < spread < 20 or abs(mean) > 20):
                usual = "a deviation near 1"
        others = {call[2] for call in self.calls} - {shape}
        text += f"; {count_of(len(others), 'other shape')}" if others else ""
        return [fact("data/first input", text, usual, shape=list(shape[1:]), low=low, high=high)]
