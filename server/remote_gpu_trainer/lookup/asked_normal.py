"""Answers to "is this normal": a number of the user's beside the value that an entry gives.

Each function returns no sentence where a text doesn't hold what it compares.
"""

from __future__ import annotations

import itertools
import math
import re

NORMAL = "Yes, that is normal"  # how an answer begins that nothing need be mended
SAME = 0.02  # two readings of memory, relative to each other
NOT_RANDOM = 12.5  # a loss of an untrained language model; ln of 262,144 tokens
VOCABULARIES = (32_000, 128_256, 151_936)
MOST_PARTS = 64  # that a summed loss may be the sum of
SPIKE = 5  # times, from one loss to the next

_SIZE = re.compile(r"(?<![\w.])(\d{1,6}(?:\.\d{1,3})?) ?\+? ?(g|m)(?:i?b)?(?![a-z\d])", re.I)
_SPAN = re.compile(
    r"(?<![\w.])(\d{1,3}) ?[gm]? ?(?:-|~|to) ?(\d{1,3}) ?(g|m)(?:i?b)?(?![a-z\d])", re.I
)
_FLOAT = r"(\d{1,6}(?:\.\d{1,6})?)"
_LOSS = re.compile(rf"(?<![_a-z])[a-z]{{0,6}}loss[\"']?[\s:=]{{1,3}}{_FLOAT}(?![\w.]*\w)", re.I)
_AT_START = re.compile(
    rf"(?:loss\b[^.\n]{{0,40}}?\b(?:start\w*|begin\w*|goes up|is|of|around"
    rf"|about)\b[^\d.\n]{{0,20}}|"
    rf"(?:initial|starting|begin\w*|first)\b[^\d.\n]{{0,24}}loss\b[^\d.\n]{{0,20}})~?{_FLOAT}"
    rf"(?: ?(?:-|~|to) ?{_FLOAT})?",
    re.I,
)
_RATE_ZERO = re.compile(r"learning_rate[\"']?: ?0(?:\.0)?[,}\s]")
_NORM = re.compile(rf"grad(?:ient)?[_ ]norm\b[^\d\n]{{0,40}}?{_FLOAT}(?: ?[~-] ?{_FLOAT})?", re.I)
_INFINITE = re.compile(r"\binf\b", re.I)
_PERCENT = re.compile(r"(?<![\d.])(\d{1,3}) ?(?:%|％)")
_PLATEAU_VALUE = re.compile(
    r"(?:stagnat\w+|stays?|flat|stuck|plateau\w*|remain\w*)\b[^\d\n]{0,24}(\d{1,2}\.\d{1,6})",
    re.I,
)
_DROPS = re.compile(
    r"\b(?:sudden\w*|then|after (?:that|this|which)|until|finally|at around)\b.{0,60}"
    r"\b(?:drops?|dropped|falls?|fell|decreas\w+|improv\w+|learn\w*)\b|\bsudden drop\b"
    r"|(?:然后|之后|突然).{0,20}(?:下降|降)",
    re.I,
)
_GROWS_ON = re.compile(
    r"\b(?:every|each|all) (?:iteration|step|epoch)|keeps? (?:on )?(?:increas|grow|ris)\w*"
    r"|continu\w+|gradual\w*|until|oom|out of memory|一直|不断|越来越",
    re.I,
)
_ONE_AT_A_TIME = re.compile(
    r"\b(?:only )?(?:1|one) (?:gpu|card)s? (?:is |are )?(?:work\w*|busy|used|active|running)"
    r"|\bone (?:gpu )?at a time\b",
    re.I,
)


def memory(line: str) -> list[str]:
    """Memory of the GPU that rises at the start."""
    spans = [(float(a) * _mib(u), float(b) * _mib(u)) for a, b, u in _SPAN.findall(line)]
    sizes = [value for span in spans for value in span] or [
        float(number) * _mib(unit) for number, unit in _SIZE.findall(line)
    ]
    sizes = [size for size in sizes if 100 <= size <= 1_000_000]
    if len(sizes) < 2 or max(sizes) <= sizes[0]:
        return []
    grown = f"from {sizes[0]:,.0f} to {max(sizes):,.0f} MiB"
    why = (
        "The first backward pass adds the gradients, the first `optimizer.step()` the optimizer's "
        "state, cuDNN tries its ways, and torch keeps for later what the largest batch so far "
        "needed; `nvidia-smi` shows what is kept, not what is in use."
    )
    adam = ""
    parameters = (max(sizes) - sizes[0]) * 2**20 / 8 / 1e6
    if len(sizes) == 2 and parameters >= 1:
        adam = (
            f" Adam holds 8 bytes for each trained weight: {max(sizes) - sizes[0]:,.0f} "
            f"MiB would be that of {parameters:,.0f} million."
        )
    test = (
        "To be sure print `torch.cuda.memory_allocated()` at the same point of steps 50, 500 and "
        "5000: equal within the sizes of your batches is healthy, more each time is a leak "
        "(`rgt lookup --id M20`). Inputs of varying size raise it now and then, ever more rarely."
    )
    if len(sizes) >= 3 and abs(sizes[-1] - sizes[-2]) <= SAME * sizes[-1]:
        return [f"{NORMAL}: it rises {grown} and stays there.", why, test]
    if _GROWS_ON.search(line):
        return [
            f"A rise {grown} is normal if it levels off, and a leak if it goes on with inputs of "
            "equal size.",
            why,
            test,
        ]
    return [f"{NORMAL} if it stays there: it rises {grown}.", why + adam, test]


def _mib(unit: str) -> float:
    return 1024.0 if unit.lower() == "g" else 1.0


def plateau(line: str) -> list[str]:
    """A loss that is flat at first."""
    found = _PLATEAU_VALUE.search(line)
    named = ""
    if found and 0.5 < float(found[1]) < 12:
        guess = round(math.exp(float(found[1])))
        named = f" Yours, {found[1]}, is the loss of an even guess among {guess:,}."
    if not _DROPS.search(line):
        if not named:
            return []
        return [
            "For the first few hundred steps it may be normal, and not beyond: a loss that stays "
            f"where it began is that of a constant answer, ln(classes).{named}",
            "Train on one kept batch of a few examples: a loss that then falls to 0 clears the "
            "loop, and leaves data or learning rate (`rgt lookup --id O1`).",
        ]
    return [
        f"{NORMAL} where it falls by itself, as yours does: a network first learns to give the "
        "mean, and leaves that flat stretch only later; it comes again with other seeds. A long "
        "warm-up of the learning rate lengthens it.",
        "The value tells: ln(classes) for cross-entropy, ln(batch) for a contrastive loss, the "
        f"variance of the targets for MSE is what a constant answer gets.{named} See whether the "
        "learning rate was still rising there, and judge by the score afterwards.",
        "Not normal is a loss that stays at that value: train on one kept batch "
        "(`rgt lookup --id O1`).",
    ]


def first_loss(line: str) -> list[str]:
    """A loss at the start of training a language model, beside ln(vocabulary)."""
    rows = [float(value) for value in _LOSS.findall(line)]
    found = _AT_START.search(line)
    if not (rows or found):
        return []
    loss = rows[0] if rows else float(found[2] or found[1]) if found else 0.0
    if not 0.5 <= loss <= 10_000:
        return []
    guess = (
        "An even guess over the vocabulary has a loss of ln(tokens): "
        + ", ".join(f"{math.log(size):.1f} for {size:,}" for size in VOCABULARIES)
        + " (with classes: ln(classes))."
    )
    zero = (
        " In the first rows the learning rate is 0: nothing has been learned there yet."
        if _RATE_ZERO.search(line)
        else ""
    )
    if loss > NOT_RANDOM:
        parts = [
            (round(loss / math.log(size)), math.log(size))
            for size in VOCABULARIES[:1]
            if abs(loss / math.log(size) - round(loss / math.log(size))) < 0.15
        ]
        summed = ""
        if parts and 2 <= parts[0][0] <= MOST_PARTS:
            summed = (
                f" {loss:g} is about {parts[0][0]} times {parts[0][1]:.1f}: then it is a sum over "
                "that many accumulation steps, ranks or parts, and the true one is that much "
                "smaller, at the end too (`rgt lookup --id O9`)."
            )
        return [
            f"{loss:g} is more than a model that knows nothing would have.{zero} {guess}{summed}",
            "For weights made anew that means a start too wide, or a sum in place of a mean "
            "(`rgt lookup --id P17`). For a pretrained model that was rebuilt (another attention, "
            "new tokens, low rank) it may be so for the first hundred steps, and must be below "
            "that guess soon; else weights weren't loaded (`rgt lookup --id O36`).",
        ]
    if loss > math.log(VOCABULARIES[0]) - 0.5:
        return [
            f"{NORMAL} for weights made anew: {loss:g} is near an even guess.{zero} {guess}",
            "A pretrained model starts far lower, 1 to 3 on text; if yours is one, its weights "
            "weren't loaded (`rgt lookup --id O36`).",
        ]
    return [
        f"{loss:g} is better than an even guess, so pretrained weights are at work.{zero} {guess}",
        "High for a pretrained model (1 to 3 on text), and normal where a part of it is new, as a "
        "projector or head: it must fall within the first hundred steps after the warm-up. If it "
        "doesn't, print the learning rate in force and the norm of the gradients "
        "(`rgt lookup --id O22`).",
    ]


def gradient_norm(line: str) -> list[str]:
    """A norm of the gradients that is large or inf."""
    losses = [float(value) for value in _LOSS.findall(line)]
    jumps = [(a, b) for a, b in itertools.pairwise(losses) if a > 0 and b > SPIKE * a]
    values = [max(float(a), float(b or 0)) for a, b in _NORM.findall(line)]
    first = ""
    if jumps:
        first = (
            f"No: with the loss going from {jumps[0][0]:g} to {jumps[0][1]:g} in the "
            f"same rows it is "
            "a spike. Clip the norm (`clip_grad_norm_`, at 2 to 5 times its median) and lengthen "
            "the warm-up or lower the rate if it comes back (`rgt lookup --id P13`)."
        )
    elif values and max(values) >= 10:
        first = (
            f"A norm of {max(values):g} in the first steps is normal if it falls within "
            f"the warm-up: "
            "an untrained part makes large gradients."
        )
    sentences = [first] if first else []
    if _INFINITE.search(line):
        sentences.append(
            "`inf` is normal now and then in fp16: the scaler skips that step and "
            "halves its scale, "
            "in the first steps several times, later at most once in some thousand steps. Print "
            "`scaler.get_scale()`: falling on and on isn't normal (`rgt lookup --id O24`), nor is "
            "`inf` in bf16 or fp32."
        )
    if not sentences:
        return []
    sentences.append(
        "The logged norm is mostly the one before clipping. Keep 200 of them after the warm-up: a "
        "maximum of 10 medians or more is single odd batches, which clipping cures; rising "
        "medians announce a divergence (`rgt lookup --id P12`)."
    )
    return sentences


def swings(line: str) -> list[str]:
    """A share of utilisation that goes up and down."""
    shares = [int(share) for share in _PERCENT.findall(line) if int(share) <= 100]
    span = f" between {min(shares)} and {max(shares)} %" if len(shares) > 1 else ""
    if _ONE_AT_A_TIME.search(line):
        return [
            f"No: cards that take turns{span} mostly hold one model whose layers are "
            f"spread over them, as "
            '`device_map="auto"` does; N cards are then no faster than one.',
            "Start one process a card, each with the whole model: `torchrun --nproc-per-node=N "
            "train.py`, without `device_map` (`rgt lookup --id D36`). A model too large for one "
            "card wants FSDP or ZeRO-3 (`rgt lookup --id D7`).",
        ]
    return [
        f"Short dips{span} say little: `nvidia-smi` looks at a second or less, and "
        f"logging, evaluation "
        "and the loader's next batch each leave a gap. What counts is the mean: `nvidia-smi "
        "--query-gpu=utilization.gpu --format=csv,noheader -l 1` over some minutes.",
        "A mean above 90 % is healthy. Far below it, time 100 batches of the loader without the "
        "model: near the time of your steps, the loader sets the pace (`rgt lookup "
        "--id U24`). Dips "
        "every N steps are what runs then: logging, evaluation, saving.",
    ]


def slow_start(line: str) -> list[str]:
    """A first step or epoch that is slower."""
    if re.search(r"\bepoch|轮|輪|epochs", line, re.I):
        return [
            f"{NORMAL}, once: in the first epoch files are read from disk that later come from the "
            "page cache, features and spectrograms are computed and stored, workers start, and "
            "kernels are chosen or compiled.",
            "Compare the second epoch with the third. A pause at each epoch's start is "
            "workers that "
            "start anew (`rgt lookup --id T5`); a first epoch of hours on a network "
            "mount: copy the "
            "data to the box first (`rgt lookup --id U8`).",
        ]
    return [
        f"{NORMAL}, once: the first step initializes CUDA, compiles or chooses kernels, and fills "
        "the loader; with `torch.compile` it takes half a minute to several minutes.",
        "Time steps 10 to 60, with `torch.cuda.synchronize()` before each reading. Slow steps that "
        "come again with new shapes are recompiles (`rgt lookup --id T26`).",
    ]


# Warnings of runs that go on, and what each means; read in torch 2.13 and transformers 5.
WARNINGS = (
    (
        r"use_cache=True`? is incompatible with gradient checkpointing",
        "Harmless: transformers sets `use_cache=False` by itself. The cache serves generation "
        "alone; in training it is of no use. To silence it: `model.config.use_cache = "
        "False` before "
        "training, and True again to generate.",
    ),
    (
        r"Grad strides do not match bucket view strides",
        "Harmless for the result: DDP must copy a gradient whose layout in memory differs from its "
        "bucket's, which costs a little time. `param.grad` of 1×1 convolutions or transposed "
        "weights is the usual cause; `.contiguous()` on what feeds them ends it.",
    ),
    (
        r"find_unused_parameters=True was specified in DDP constructor, but did not find any",
        "Harmless, and costs time: each step searches for unused parameters and finds none. Set "
        "`find_unused_parameters=False`; an error in the second step then tells that it was needed "
        "(`rgt lookup --id D8`).",
    ),
    (
        r"Redirects are currently not supported in Windows",
        "Harmless: on Windows and macOS torchrun can't write each rank's output into files.",
    ),
    (
        r"Setting OMP_NUM_THREADS environment variable for each process to be 1",
        "Normal: torchrun sets it so that the ranks don't fight for cores. Where tokenizing or "
        "augmentation sets the pace, `export OMP_NUM_THREADS=` cores / ranks (`rgt "
        "lookup --id U40`).",
    ),
    (
        r"The current process just got forked, after parallelism has already been used",
        "Harmless: tokenizers switches its threads off in the workers. `export "
        "TOKENIZERS_PARALLELISM=false` says the same without the warning.",
    ),
    (
        r"destroy_process_group\(\) was not called",
        "Harmless at the end of a run; call `torch.distributed.destroy_process_group()` last.",
    ),
)


def warning(line: str) -> list[str]:
    """A warning that a text quotes, and whether it matters."""
    meaning = next((meaning for words, meaning in WARNINGS if re.search(words, line, re.I)), "")
    compare = (
        "Whether a warning belongs to your trouble shows a good run's log: what it also printed "
        "doesn't count (`rgt lookup --good good.log --log bad.log`)."
    )
    return [meaning, compare] if meaning else []
