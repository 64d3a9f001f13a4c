"""Computes on each GPU what has one right answer, and prints what came out wrong, as JSON.

Three questions: are matrix products right in each type that the card has, does its memory keep what
was written, does a copy arrive as it was sent. The argument is JSON: {seconds, device: cuda or cpu,
size}; a size is for a trial without a card, and keeps everything small.

What a product may be off by isn't tuned, it is derived. A sum of k products that keeps p bits of
each intermediate result is off by at most 2 k 2^(1-p) times the sum of their magnitudes, in any
order, split in any way, rounded or cut off: Higham, Accuracy and Stability of Numerical Algorithms
(2002), sections 3.1 and 4.2, with twice the terms for the alignment within a tensor core (Fasi et
al. 2021, doi:10.7717/peerj-cs.330; Blanchard et al. 2020, doi:10.1137/19M1289546). Rounding a sum
to the type of the results keeps the order of numbers, so the rounded limits hold for the results.
Nothing is lost where all values are whole and no sum of magnitudes reaches 2^p: such products must
be right to the last bit, also where a library adds up in the narrow type of the results.
"""

import json
import sys
import time

import torch

# The types of inputs and results, the bits of an input's significand, and the bits that each sum
# keeps. TF32 cuts fp32 to 11 bits. Hopper's fp8 keeps 14 (DeepSeek-V3, 2024, section 3.5.2).
TYPES = {
    "fp64": ("float64", "float64", 53, 53),
    "fp32": ("float32", "float32", 24, 24),
    "tf32": ("float32", "float32", 11, 24),
    "bf16": ("bfloat16", "bfloat16", 8, 24),
    "fp16": ("float16", "float16", 11, 24),
    "fp8": ("float8_e4m3fn", "float32", 4, 13),
}
# Faulty cards err only for some magnitudes (Zheng et al., OSDI 2026, figure 7). Each matrix is
# multiplied by a power of two from this range, within which no type overflows or loses a bit.
SCALES = {"fp64": (-200, 200), "fp16": (-2, 2), "fp8": (-5, 5)}
OTHER_SCALES = (-30, 30)
NEEDS = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9)}  # compute capability
NARROW_SUMS = {  # what lets cuBLAS add up in the type of the results
    "bf16": "allow_bf16_reduced_precision_reduction",
    "fp16": "allow_fp16_reduced_precision_reduction",
}
EVEN, ODD, DEEP = (256, 512, 256), (251, 509, 263), (64, 4096, 64)
TILES = 15  # of a product in each direction: enough to occupy each multiprocessor of a card
EXACT = 40  # bits; whole numbers of this size leave fp64 room to check the truth itself
WORDS = 1 << 25  # of 8 bytes in a block of memory: 256 MiB
SPREAD = -7046029254386353131  # odd, so that no two words of a pattern are alike
MOST_TOLD = 6  # faulty products of a card that are told one by one
ENOUGH, MOST, START = 0.2, 60.0, 8.0  # of the load's seconds; seconds; seconds of the first round


class Untrue(Exception):
    """This machine's CPU computes the truth in two ways, and they differ."""


def say(**values):
    """One line with a stage."""
    print("GPU_HEALTH " + json.dumps(values), flush=True)


def wait(card):
    """Wait until the card has finished. Raises RuntimeError where an error broke it."""
    if card.type == "cuda":
        torch.cuda.synchronize(card)


# Products.


def bits_of(dtype):
    """The bits of a significand, the hidden one included."""
    return 1 - round(torch.log2(torch.tensor(torch.finfo(dtype).eps, dtype=torch.float64)).item())


def whole_numbers(shape, bits, kept, seed):
    """Two fp64 matrices of whole numbers below 2^bits, so that no sum of magnitudes reaches 2^kept.

    Less than half of that is aimed at, so that chance doesn't reach it. Where even ones are too
    large, some become zero.
    """
    rows, terms, columns = shape
    mean = 0.4 * 2.0**kept / terms  # of the magnitude of a product
    most = max(1, min(2**bits - 1, int(2 * mean**0.5) - 1))
    filled = min(1.0, mean**0.5 / ((most + 1) / 2))
    return [
        torch.randint(1, most + 1, size, generator=seed).double()
        * (torch.randint(0, 2, size, generator=seed) * 2 - 1)
        * (torch.rand(size, generator=seed) < filled)
        for size in ((rows, terms), (terms, columns))
    ]


def full_numbers(shape, bits, seed):
    """Two fp64 matrices of magnitudes from 1/8 to 1 that use all bits of the significand."""
    rows, terms, columns = shape
    made = []
    for size in ((rows, terms), (terms, columns)):
        values = torch.rand(size, generator=seed, dtype=torch.float64) * 0.875 + 0.125
        step = torch.pow(2.0, torch.floor(torch.log2(values)) + 1 - bits)
        signs = torch.randint(0, 2, size, generator=seed) * 2 - 1
        made.append(torch.floor(values / step) * step * signs)
    return made


def limits(left, right, kept, results, scale=1.0):
    """The least and the greatest that each element of a product may be, in the type `results`.

    The product is left @ right * scale; `left` and `right` are fp64, `scale` is a power of two.
    `kept`: the bits that each sum keeps; see the head of this file. Raises Untrue where the limits
    are a single value each, and the CPU finds another for their sums.
    """
    truth, size = left @ right, left.abs() @ right.abs()
    if is_whole(left) and is_whole(right) and size.max() < 2.0 ** min(kept, bits_of(results)):
        if not torch.equal(truth.sum(1), left @ right.sum(1)):  # exact, and another computation
            raise Untrue
        return (truth * scale).to(results), (truth * scale).to(results)
    lost = 2 * left.shape[1] * (2.0 ** (1 - kept) + 2.0**-52)  # the truth is rounded as well
    # Some cards turn results below the least normal number into zero.
    slack = size * scale * (lost / (1 - lost)) + torch.finfo(results).tiny
    return (truth * scale - slack).to(results), (truth * scale + slack).to(results)


def is_whole(values):
    """Whether all values are whole numbers."""
    return bool((values == values.round()).all())


class Case:
    """Two matrices of some magnitude, and between which values their product is right.

    `left`, `right`: fp64; `low`, `high`: in the type of the results.
    """

    def __init__(self, name, shape, kind, seed):
        """`kind`: whole or full. Raises Untrue."""
        inputs, results, bits, kept = TYPES[name]
        self.name, self.shape, self.kind = name, shape, kind
        self.inputs, self.results = getattr(torch, inputs), getattr(torch, results)
        if kind == "whole":
            narrow = min(kept, bits_of(self.results), EXACT)
            self.left, self.right = whole_numbers(shape, bits, narrow, seed)
        else:
            self.left, self.right = full_numbers(shape, bits, seed)
        least, most = SCALES.get(name, OTHER_SCALES)
        one, other = (2.0 ** int(torch.randint(least, most + 1, (), generator=seed)) for _ in "ab")
        self.low, self.high = limits(self.left, self.right, kept, self.results, one * other)
        self.left, self.right = self.left * one, self.right * other

    def on(self, card, tiles):
        """The matrices on a card, in their type, `tiles` times below and beside each other.

        Each part of the product is then the product of the case.
        """
        wide = torch.float64 if self.name == "fp64" else torch.float32  # fp8 can't be repeated
        left = self.left.to(wide).to(card).repeat(tiles, 1).to(self.inputs)
        right = self.right.to(wide).to(card).repeat(1, tiles)
        if self.name == "fp8":  # columns must be contiguous
            return left, right.t().contiguous().to(self.inputs).t()
        return left, right.to(self.inputs)


def cases_of(name, wide_sums):
    """The (shape, kind) to try in a type. fp8 takes only multiples of 16.

    A full sum of fp8 tells too little: it keeps too few bits. So does one whose sums may be rounded
    to the narrow type of the results, which the whole numbers are made for.
    """
    shapes = [EVEN] if name == "fp8" else [EVEN, ODD]
    kinds = ["whole", "full"] if wide_sums and name != "fp8" else ["whole"]
    return [(shape, kind) for shape in shapes for kind in kinds] + [(DEEP, "whole")]


def product(name, left, right):
    """Multiply two matrices on their device, as a training does in this type."""
    if name == "fp8":
        one = torch.ones((), device=left.device)
        scaled = getattr(torch, "_scaled_mm", None)  # no public name; see `lacks`
        assert scaled is not None
        result = scaled(left, right, scale_a=one, scale_b=one, out_dtype=torch.float32)
        return result[0] if isinstance(result, tuple) else result  # torch before 2.5: with amax
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    return torch.mm(left, right)


def outside(result, low, high):
    """How many elements aren't within the limits of their tile. NaN isn't."""
    rows, columns = low.shape
    tiles = result.reshape(-1, rows, result.shape[1] // columns, columns)
    low, high = low.view(1, rows, 1, columns), high.view(1, rows, 1, columns)
    return tiles.numel() - ((tiles >= low) & (tiles <= high)).sum()


def unlike(first, second):
    """How many elements of two results differ in a bit."""
    word = {2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return (first.view(word) != second.view(word)).sum()


def furthest(results, case):
    """How far an element is from its limits, as a share of the largest value that is right."""
    rows, columns = case.low.shape
    low, high = (limit.double().view(1, rows, 1, columns) for limit in (case.low, case.high))
    most = 0.0
    for result in results:
        tiles = result.cpu().double().reshape(-1, rows, result.shape[1] // columns, columns)
        off = torch.maximum(low - tiles, tiles - high)
        off = torch.where(torch.isfinite(off), off, torch.full_like(off, float("inf")))
        most = max(most, off.max().item())
    return min(most / max(high.abs().max().item(), 1e-300), 1e30)


def multiply_twice(case, card, tiles, multiply=None):
    """Compute the case's product twice on a card -> a function that waits and says what is wrong.

    That returns None where all is right, otherwise the values of a line.
    """
    multiply = multiply or product
    left, right = case.on(card, tiles)
    results = [multiply(case.name, left, right) for _ in range(2)]
    low, high = case.low.to(card), case.high.to(card)
    counts = [outside(result, low, high) for result in results]
    counts.append(unlike(*results))

    def judged():
        first, second, changed = (int(count.item()) for count in counts)
        if not (first or second or changed):
            return None
        rows, terms, columns = left.shape[0], left.shape[1], right.shape[1]
        return {
            "type": case.name,
            "shape": f"{rows}x{terms}x{columns}",
            "kind": case.kind,
            "wrong": max(first, second),
            "changed": changed,
            "of": results[0].numel(),
            "off": furthest(results, case) if first or second else 0.0,
        }

    return judged


def lacks(name, card):
    """Why a type isn't looked at on a card, "" where it can be."""
    if not hasattr(torch, TYPES[name][0]) or (name == "fp8" and not hasattr(torch, "_scaled_mm")):
        return f"torch {torch.__version__} has none"
    if card.type == "cuda" and name in NEEDS:
        if torch.version.hip:
            return "not on AMD" if name in ("fp8", "tf32") else ""
        if torch.cuda.get_device_capability(card) < NEEDS[name]:
            return "the card has none"
    return ""


def keeps_wide_sums(name):
    """Forbid sums in the narrow type of the results. Whether this torch lets us."""
    switch_off("allow_fp16_accumulation")
    return name not in NARROW_SUMS or switch_off(NARROW_SUMS[name])


def switch_off(flag):
    """Switch off a way to multiply less exactly. Whether this torch knows it."""
    flags = torch.backends.cuda.matmul
    try:
        getattr(flags, flag)
    except (AttributeError, AssertionError):  # the second: torch before 2
        return False
    setattr(flags, flag, False)
    return True


def multiply_on(cards, tiles, seed, told, until):
    """One round of all products, on all cards at once. `told`: {card's number: Told}."""
    for name in TYPES:
        say(stage=f"numbers, {name}")
        able = {}
        for at, card in enumerate(cards):
            why = lacks(name, card)
            if why:
                told[at].left_out[name] = why
            elif name not in told[at].left_out:
                able[at] = card
        for shape, kind in cases_of(name, keeps_wide_sums(name)) if able else []:
            if time.monotonic() > until:
                return
            case = Case(name, shape, kind, seed)
            started = {}
            for at, card in able.items():
                try:
                    tiled = tiles if shape != DEEP else 1
                    started[at] = multiply_twice(case, card, tiled)
                except RuntimeError as error:  # no such product, or no memory for it
                    wait(card)
                    told[at].left_out[name] = str(error).split("\n")[0][:80]
            for at, judged in started.items():
                told[at].product(at, name, judged())


# Memory and copies.


def words(start, count, card):
    """Part of a pattern in which no two words are alike: `count` words from number `start` on."""
    return torch.arange(start, start + count, dtype=torch.int64, device=card).mul_(SPREAD)


def blocks_in(card, small):
    """The numbers of words in blocks that fill most of the free memory: nine tenths less 1 GiB.

    A card that shares the memory of the host gets half of what is free.
    """
    if small or card.type != "cuda":
        return [1 << 18] * 4
    torch.cuda.empty_cache()
    is_shared = getattr(torch.cuda.get_device_properties(card), "is_integrated", False)
    free = int(torch.cuda.mem_get_info(card)[0] * (0.5 if is_shared else 0.9)) - (1 << 30)
    return [WORDS] * max(0, free // (WORDS * 8))


def fill(card, counts, until, touch=None):
    """Write a pattern, read it, turn every bit, read it again -> (bytes, wrong words, first one).

    `touch`: what a trial does with the blocks in between. The first wrong word is a number of bytes
    from the start, or None.
    """
    held, wrong, first = [], 0, None
    for count in counts:
        if time.monotonic() > until:
            break
        try:
            held.append(words(sum(map(len, held)), count, card))
        except RuntimeError:  # somebody else took memory meanwhile
            wait(card)
            break
    for turned in (False, True):
        if touch:
            touch(held)
        start = 0
        for block in held:
            right = words(start, len(block), card)
            bad = block != (right.bitwise_not_() if turned else right)
            found = int(bad.sum().item())
            if found and first is None:
                first = 8 * (start + int(bad.nonzero()[0].item()))
            wrong += found
            start += len(block)
            block.bitwise_not_()
    return 8 * sum(map(len, held)), wrong, first


def move(block, place):
    """Copy a block to another card, or to the host."""
    return block.to(place)


def copy_between(places, count, until, mover=None):
    """Copy a pattern from each place to each other -> (how many copies, [(from, to, wrong words)]).

    `places`: [(label, device)].
    """
    done, wrong = 0, []
    pairs = [(one, other) for one in places for other in places if one is not other]
    for (source, here), (target, there) in pairs:
        if time.monotonic() > until:
            break
        block = words(done * count + 1, count, here)
        moved = (mover or move)(block, there)
        found = int((moved != words(done * count + 1, count, there)).sum().item())
        done += 1
        if found:
            wrong.append((source, target, found))
    return done, wrong


# All of it.


class Told:
    """What was looked at on one card, and what wasn't."""

    def __init__(self):
        """Nothing yet."""
        self.products, self.types, self.left_out = 0, [], {}
        self.faults, self.bytes, self.copies = 0, 0, 0

    def product(self, gpu, name, fault):
        """Count a product. Print it if it is wrong."""
        self.products += 1
        if name not in self.types:
            self.types.append(name)
        if fault:
            self.faults += 1
            if self.faults <= MOST_TOLD:
                say(stage="numbers wrong", gpu=gpu, **fault)


def look(cards, seconds, small=None):
    """Look at all cards. Stop after `seconds`, at most a minute; the first round is done first."""
    began = time.monotonic()
    enough = began + min(MOST, ENOUGH * seconds)
    until = began + min(MOST, START + ENOUGH * seconds)
    told = {at: Told() for at in range(len(cards))}
    seed, tiles = torch.Generator().manual_seed(int(time.time())), 1 if small else TILES
    multiply_on(cards, tiles, seed, told, until)
    for at, card in enumerate(cards):
        say(stage="numbers, memory", gpu=at)
        told[at].bytes, wrong, first = fill(card, blocks_in(card, small), until)
        if card.type == "cuda":
            torch.cuda.empty_cache()
        if wrong:
            say(stage="numbers memory", gpu=at, wrong=wrong, bytes=told[at].bytes, first=first)
    say(stage="numbers, copies")
    places = [("host", torch.device("cpu"))] + [(str(at), card) for at, card in enumerate(cards)]
    copies, wrong = copy_between(places, 1 << 18 if small else 1 << 23, until)
    for source, target, count in wrong:
        say(stage="numbers copy", source=source, target=target, wrong=count)
    rounds = 1
    while time.monotonic() < enough:
        multiply_on(cards, tiles, seed, told, until)
        rounds += 1
    for at, card in told.items():
        for name in TYPES:
            if name not in card.types:
                card.left_out.setdefault(name, "no time")
        say(
            stage="numbers done",
            gpu=at,
            products=card.products,
            rounds=rounds,
            faults=card.faults,
            types=" ".join(card.types),
            not_looked_at="; ".join(f"{name}: {why}" for name, why in card.left_out.items()),
            memory_gib=round(card.bytes / (1 << 30), 1),
            copies=copies,
            seconds=round(time.monotonic() - began, 1),
        )


def main(config):
    """Look at what the configuration names."""
    cards = [torch.device("cpu")]
    if config.get("device", "cuda") == "cuda":
        cards = [torch.device("cuda", at) for at in range(torch.cuda.device_count())]
    try:
        look(cards, config["seconds"], config.get("size"))
    except Untrue:
        say(stage="numbers host")
    say(stage="end")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
