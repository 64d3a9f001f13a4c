"""Counts bytes for the proofs of the M entries, on the CPU: weights, gradients, optimizer state, what autograd keeps, and the most alive at one time."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def size(tensors):
    """Bytes of the storages of `tensors`, each storage once."""
    return sum(
        {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values()
    )


def weights(model):
    return size(model.parameters())


def gradients(model):
    return size(p.grad for p in model.parameters() if p.grad is not None)


def state(optimizer):
    return size(v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v))


def kept_by_dtype(forward, but=()):
    """{dtype: bytes} of the storages that forward() leaves for backward, without those of the tensors in `but`."""
    skipped = {tensor.untyped_storage().data_ptr() for tensor in but}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in skipped:
            kept[storage.data_ptr()] = (
                tensor.dtype,
                storage,
            )  # holds the storage, so that no address comes twice
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = forward()
    total = {}
    for dtype, storage in kept.values():
        total[dtype] = total.get(dtype, 0) + storage.nbytes()
    del result
    return total


def kept(forward, but=()):
    """Bytes that forward() leaves for backward, without those of the tensors in `but`."""
    return sum(kept_by_dtype(forward, but).values())


def kept_by(forward, model=None):
    """Bytes that forward() leaves for backward, without the parameters of `model`."""
    return kept(forward, model.parameters() if model is not None else ())


class Alive(TorchDispatchMode):
    """Within it `peak` is the most bytes that tensors made in it held at one time; set it to `now` to begin again."""

    def __init__(self):
        super().__init__()
        self.sizes, self.now, self.peak = {}, 0, 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        for tensor in torch.utils._pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self.sizes:
                    self.sizes[storage._cdata] = storage.nbytes()
                    self.now += storage.nbytes()
                    self.peak = max(self.peak, self.now)
                    weakref.finalize(storage, self._freed, storage._cdata)
        return result

    def _freed(self, key):
        self.now -= self.sizes.pop(key, 0)


def peak(step):
    """The most bytes of new tensors that step() holds at one time."""
    with Alive() as alive:
        step()
    return alive.peak


class Card(Alive):
    """Within it the counters of torch.cuda tell the bytes of new tensors, so a check for a GPU runs on the CPU."""

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        for name, counter in {
            "memory_allocated": lambda: self.now,
            "max_memory_allocated": lambda: self.peak,
            "memory_reserved": lambda: self.peak,
            "reset_peak_memory_stats": self.reset,
        }.items():
            self.patch.setattr(torch.cuda, name, counter)
        return super().__enter__()

    def __exit__(self, *error):
        self.patch.undo()
        return super().__exit__(*error)

    def reset(self):
        self.peak = self.now
