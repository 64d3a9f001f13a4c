"""Small, exact looks at tensors. Nothing here draws random numbers or changes a tensor."""

import math
import zlib

MOST = 1024  # elements of a tensor that are looked at


def local_part(tensor):
    """The part of a sharded tensor that lies here; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def strided(tensor, most=MOST):
    """At most `most` elements, spread evenly over a tensor. A view where the layout allows it."""
    flat = local_part(tensor).detach().reshape(-1)
    step = max(1, -(-flat.numel() // most))
    return flat[:: step | 1] if step > 1 else flat


def sample(tensor, most=MOST):
    """A copy of `strided`, so that a later change of the tensor doesn't change it."""
    return strided(tensor, most).clone()


def fingerprint(tensor, most=4096):
    """A hash of shape, type and up to `most` elements. The elements can't be had back from it."""
    import torch

    part = strided(tensor, most).cpu().contiguous()
    if part.is_complex():
        part = torch.view_as_real(part)
    head = repr((tuple(tensor.shape), str(tensor.dtype))).encode()
    raw = bytes(part.view(torch.uint8).reshape(-1).tolist()) if part.numel() else b""
    return zlib.crc32(raw, zlib.crc32(head))


def row_prints(tensors, most=256, elements=64):
    """A hash of each of the first `most` rows of a batch, by up to `elements` of each tensor.

    The first tensor with rows long enough to tell them apart says how many rows there are; all of
    that length count. Empty where there is none.
    """
    import torch

    whole = [t for t in tensors if t.dim() and t.numel() and not (t.is_complex() or t.is_quantized)]
    wide = next((t for t in whole if t.dim() > 1 and t.numel() >= 8 * len(t)), None)
    if wide is None:
        return []
    prints = [0] * min(most, len(wide))
    for tensor in whole:
        if len(tensor) != len(wide):
            continue
        rows = local_part(tensor).detach()[:most]
        # As its elements lie in memory, so that a permuted batch isn't copied.
        inner = sorted(range(1, rows.dim()), key=rows.stride, reverse=True)
        rows = rows.permute(0, *inner).reshape(len(rows), -1)
        rows = rows[:, :: -(-rows.shape[1] // elements) | 1].cpu().contiguous()
        raw = bytes(rows.view(torch.uint8).reshape(-1).tolist())
        width = len(raw) // len(rows)
        pieces = [raw[at : at + width] for at in range(0, len(raw), width)]
        prints = [zlib.crc32(one, past) for one, past in zip(pieces, prints)]
    return prints


def leaves(batch, name="", depth=4):
    """(name, tensor) for each tensor in a batch of nested dicts, lists and tuples."""
    import torch

    if isinstance(batch, torch.Tensor):
        yield name, batch
    elif depth and hasattr(batch, "items") and hasattr(batch, "keys"):
        for key, value in batch.items():
            yield from leaves(value, f"{name}.{key}".lstrip("."), depth - 1)
    elif depth and isinstance(batch, (list, tuple)):
        for place, value in enumerate(batch[:64]):
            yield from leaves(value, f"{name}[{place}]", depth - 1)
    elif depth and hasattr(batch, "__dict__"):
        for key, value in list(vars(batch).items())[:64]:
            yield from leaves(value, f"{name}.{key}".lstrip("."), depth - 1)


def bare(optimizer):
    """An optimizer without the wrappers of accelerate and its like."""
    while hasattr(optimizer, "optimizer") and hasattr(optimizer.optimizer, "param_groups"):
        optimizer = optimizer.optimizer
    return optimizer


def made_by(tensor):
    """The name of the operation that made a tensor, without those that only change its shape."""
    node = tensor.grad_fn
    for _ in range(4):
        if node is None:
            return ""
        name = type(node).__name__
        shaping = ("View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Alias", "T", "Permute")
        if name.rstrip("0123456789") not in {shape + "Backward" for shape in shaping}:
            return name
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def number(value):
    """A float of a number or of a tensor with one; None for anything else, as lr=None."""
    try:
        value = float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return value if math.isfinite(value) else None


def middle_or_less(numbers):
    """The middle of a list of numbers; of two, the smaller one."""
    return sorted(numbers)[(len(numbers) - 1) // 2]


def median(numbers):
    """The middle of a list of numbers, which isn't empty."""
    return sorted(numbers)[len(numbers) // 2]


def some(names, most=4):
    """The first few names in a list, and how many more there are."""
    names = list(names)
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
