"""Counts operations for the proofs of the T entries, on the CPU: on a GPU each is a launch or more."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode


class Operations(TorchDispatchMode):
    """Within it `n` counts each operation by its name."""

    def __init__(self):
        super().__init__()
        self.n = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.n[str(function)] += 1
        return function(*args, **(kwargs or {}))


def operations(call):
    with Operations() as seen:
        call()
    return seen.n
