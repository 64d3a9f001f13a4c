"""Faults for the check of numbers: one bit of a product or of its inputs is flipped, on a CPU.

The product is wrapped, so that the worker's own code judges what a faulty card would have returned.
Beside it stand products as sound cards compute them: sums in other orders and pieces, cut off as in
tensor cores, inputs cut as TF32 does, results rounded piece by piece.
"""

import math
from functools import lru_cache

import torch

from tests.conftest import ROOT
from tests.programs import loaded

worker = loaded(ROOT / "server/remote_gpu_trainer/gpu_health/box_check/data/numbers_worker.py")
CPU = torch.device("cpu")
WHERE = ("result", "left", "right")
SAMPLES = {"result": 20, "left": 3, "right": 3}  # elements for each bit; an input's need a product
MATTERS = 2.0**-8  # of the largest value: flips with a larger effect have to be found
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@lru_cache(maxsize=64)
def case_of(name, shape, kind, seed):
    """A case of the worker; making one takes longer than trying it."""
    return worker.Case(name, shape, kind, torch.Generator().manual_seed(seed))


def jobs():
    """Every (type, shape, kind, where, bit)."""
    return [
        (name, shape, kind, where, bit)
        for name in worker.TYPES
        for shape, kind in worker.cases_of(name, True)
        for where in WHERE
        for bit in range(8 * size_of(name, where))
    ]


def size_of(name, where):
    """Bytes of an element."""
    inputs, results, _, _ = worker.TYPES[name]
    return torch.empty(
        0, dtype=getattr(torch, results if where == "result" else inputs)
    ).element_size()


def cut_to_tf32(matrix):
    """An fp32 matrix as a card reads it for TF32: without the last 13 bits of each value."""
    return (matrix.view(torch.int32) & ~0x1FFF).view(torch.float32)


def plain(name, left, right):
    """The product as torch computes it on this machine; of TF32 the inputs are cut."""
    if name == "tf32":
        return torch.mm(cut_to_tf32(left), cut_to_tf32(right))
    return worker.product(name, left, right)


def flipped(matrix, bit, place):
    """A copy with one bit of the element at `place`, counted row by row, flipped."""
    word = _WORDS[matrix.element_size()]
    values = matrix.contiguous().clone()
    words = values.view(word).view(-1)
    width = 8 * matrix.element_size()
    mask = 1 << bit
    if word != torch.uint8 and bit == width - 1:
        mask -= 1 << width
    words[place] = words[place] ^ torch.tensor(mask, dtype=word)
    return values if matrix.is_contiguous() else values.t().contiguous().t()


class Flips:
    """What became of the flips of one kind: how many there were and how many were found."""

    def __init__(self):
        """None yet."""
        self.all = self.above = self.found_above = self.found = self.found_once = 0

    def add(self, other):
        """Count those of another too."""
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)


def tried(job, seed):
    """Flip a bit of some elements -> Flips. A fault counts twice: in both products, and in one."""
    name, shape, kind, where, bit = job
    chance = torch.Generator().manual_seed(seed)
    case, counts = case_of(name, shape, kind, seed % 2), Flips()
    left, right = case.on(CPU, 1)
    clean = plain(name, left, right)
    scale = clean.double().abs().max().item()
    for _ in range(SAMPLES[where]):
        of = {"result": clean, "left": left, "right": right}[where]
        place = int(torch.randint(0, of.numel(), (1,), generator=chance).item())
        if where == "result":
            faulty = flipped(clean, bit, place)
        elif where == "left":
            faulty = plain(name, flipped(left, bit, place), right)
        else:
            faulty = plain(name, left, flipped(right, bit, place))
        effect = (faulty.double() - clean.double()).abs().max().item() / scale
        effect = effect if math.isfinite(effect) else math.inf
        in_both, in_one = iter([faulty, faulty]), iter([clean, faulty])
        found = (
            worker.multiply_twice(case, CPU, 1, lambda *_, them=in_both: next(them))() is not None
        )
        once = worker.multiply_twice(case, CPU, 1, lambda *_, them=in_one: next(them))() is not None
        counts.all += 1
        counts.found += found
        counts.above += effect > MATTERS
        counts.found_above += found and effect > MATTERS
        counts.found_once += once and effect > MATTERS
    return counts


# Sound cards.


def reversed_sum(name, left, right):
    """The terms in the other order."""
    left, right = left.flip(1), right.flip(0)
    return (
        torch.mm(cut_to_tf32(left), cut_to_tf32(right)) if name == "tf32" else torch.mm(left, right)
    )


def pieces(left, right, count):
    """The products of `count` uneven parts of the sum, in fp64: exact but for fp64's rounding."""
    ends = sorted(
        {0, *(round(left.shape[1] * (part / count) ** 1.3) for part in range(1, count + 1))}
    )
    for start, end in zip(ends, ends[1:], strict=False):
        yield left[:, start:end].double() @ right[start:end].double()


def split_sum(name, left, right):
    """Seven parts of the sum, added up in fp32 (fp64 in fp64), and rounded at the end: split-K."""
    wide = torch.float64 if name == "fp64" else torch.float32
    total = sum((part.to(wide) for part in pieces(left, right, 7)), torch.zeros((), dtype=wide))
    return total.to(getattr(torch, worker.TYPES[name][1]))


def narrow_split_sum(name, left, right):
    """Seven parts, each rounded to the type of the results and added in it (reduced precision)."""
    narrow = getattr(torch, worker.TYPES[name][1])
    return sum((part.to(narrow) for part in pieces(left, right, 7)), torch.zeros((), dtype=narrow))


def cut_off(values, last):
    """Values without what is below their place `last`, a power of two: rounded toward zero."""
    return torch.trunc(values / last) * last


def tensor_core_sum(name, left, right):
    """Blocks of eight terms, aligned to the largest and cut off behind the bits that a sum keeps."""
    kept = {"fp64": 53, "fp8": 14}.get(name, 24)
    if name == "tf32":
        left, right = cut_to_tf32(left), cut_to_tf32(right)
    left, right = left.double(), right.double()
    total = torch.zeros(left.shape[0], right.shape[1], dtype=torch.float64)
    for start in range(0, left.shape[1], 8):
        terms = left[:, None, start : start + 8] * right.t()[None, :, start : start + 8]
        largest = torch.maximum(terms.abs().amax(2), total.abs()).clamp_min(2.0**-400)
        last = torch.exp2(torch.floor(torch.log2(largest)) + 1 - kept)
        total = cut_off(cut_off(terms, last[..., None]).sum(2) + cut_off(total, last), last)
        places = torch.exp2(torch.floor(torch.log2(total.abs().clamp_min(2.0**-400))) + 1 - kept)
        total = cut_off(total, places)
    return total.to(getattr(torch, worker.TYPES[name][1]))


NARROW = "in seven parts of the narrow type"
SOUND = {
    "as torch does": plain,
    "in the other order": reversed_sum,
    "in seven parts": split_sum,
    NARROW: narrow_split_sum,
    "as in a tensor core": tensor_core_sum,
}


def sound_jobs():
    """A thousand (type, shape, kind, way, seed): each way that a type has, again and again.

    Sums in the narrow type are met only by what is tried where they can't be forbidden. Tensor
    cores take long to imitate, so that they come four times for each type, shape and kind.
    """
    once = [
        (name, shape, kind, way)
        for name in worker.TYPES
        for shape, kind in worker.cases_of(name, True)
        for way in SOUND
        if way != NARROW or (shape, kind) in worker.cases_of(name, False)
        if not (name == "fp8" and way == "in the other order")
    ]
    rounds = [once] * 4 + [[job for job in once if job[3] != "as in a tensor core"]] * 20
    return [(*job, seed) for seed, jobs in enumerate(rounds) for job in jobs][:1000]


def is_sound(job):
    """Whether nothing was found in a product that a sound card may return."""
    name, shape, kind, way, seed = job
    case = case_of(name, shape, kind, seed)
    return worker.multiply_twice(case, CPU, 1, SOUND[way])() is None
