"""Which entries something else in a report rules out, and which ones may explain it instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ..numbers.entries import (
    AFTER_RESUME,
    CPU_BUILD,
    HANGS,
    HOST_MEMORY,
    MAPPED_FILE,
    NEVER_MET,
    SHARED_MEMORY_FULL,
)
from .divergence import RAISE_RATE, says_diverges

# tmpfs           492G     0  492G   0% /dev/shm
_SHM = re.compile(
    r"^\S+\s+(\d{1,9}(?:\.\d)?)([KMGT]?)i?B?\s+\S+\s+\S+\s+(\d{1,3})%\s+/dev/shm\s*$", re.M
)
_GIB = {"": 1 / 2**20, "K": 1 / 2**20, "M": 1 / 2**10, "G": 1.0, "T": 2.0**10}  # df counts KiB
LARGE, EMPTY = 16, 50  # GiB of shared memory that suffice; percent in use below which it has room

# Packages and devices of cards for which torch isn't built with CUDA: Intel's, Huawei's, Habana's
# and TPUs. Above each, where its name stands.
_OTHER_CARD = re.compile(
    # site-packages/intel_extension_for_pytorch/xpu/__init__.py
    r"\bintel_extension_for_pytorch\b|\boneccl_bindings_for_pytorch\b|\btorch/xpu/|\bxpu:\d"
    # site-packages/torch_npu/npu/__init__.py
    r"|\btorch_npu\b|\bnpu:\d|\bhabana_frameworks\b|\bhpu:\d|\btorch_xla\b"
)
_FRAME = re.compile(r'^\s*File "([^"\n]{1,400})", line \d', re.M)
_NO_CUDA = "Torch not compiled with CUDA enabled"


def runs_on_other_card(text: str) -> bool:
    """Return whether a report is of a run on a card that needs no build with CUDA.

    It names such a card, or torch's own distributed code asks for CUDA: that code has a group of
    processes and a device by then, which a build for the CPU alone doesn't get this far.
    """
    if _OTHER_CARD.search(text):
        return True
    above = text[: text.find(_NO_CUDA)] if _NO_CUDA in text else ""
    callers = [file for file in _FRAME.findall(above) if "torch/cuda/" not in file]
    return bool(callers) and "/torch/distributed/" in callers[-1]


def has_shared_memory(text: str) -> bool:
    """Return whether a row of df shows a large /dev/shm that is mostly empty."""
    rows = _SHM.findall(text)
    return bool(rows) and all(
        float(size) * _GIB[unit] >= LARGE and int(share) < EMPTY for size, unit, share in rows
    )


# "after the first epoch", "hangs in the second epoch", "跑完一个epoch", "第二轮", "一两百个batch后"
_TRAINED = re.compile(
    r"""\b(?:after|finish\w*|complet\w*)\ (?:\w+\ ){0,2}(?:first|one|1|two|several|some|a\ few|\d+)
    \ (?:\w+\ )?(?:epochs?|steps|batches|iterations)\b | \b(?:second|third|later)\ epoch\b
    | (?:跑完|训完|训练完|完成)了?(?:第?[一1两2]个?|几个?)?\ ?(?:epoch|轮) | 几个\ ?epoch
    | 第\ ?[二三四五2-9]\ ?(?:个\ ?epoch|轮) | [百千万]个?\ ?(?:batch|step|步)""",
    re.IGNORECASE | re.VERBOSE,
)


def has_trained(text: str) -> bool:
    """Return whether a text says that the ranks trained together before: they have met."""
    return bool(_TRAINED.search(text))


_RESUMED = re.compile(
    r"resum|contin|re-?start|relaunch|reload|restor|load|checkpoint|ckpt|interrupt|again|pick\w* up"
    r"|from epoch|start_epoch|stopped|crash|pause|state_dict|\.pth?\b"
    r"|续|恢复|接着|断点|中断|中止|打断|加载|读取|重启|重新|再训|上次|上一天|之前训|权重|存档",
    re.IGNORECASE,
)


def was_never_resumed(text: str) -> bool:
    """Return whether a text without an error has no word of a run that went on from a checkpoint.

    An error may be of the load itself, and says so in its own words.
    """
    return "Error" not in text and not _RESUMED.search(text)


# Entries, what rules them out, and what may be instead.
_TABLE: tuple[tuple[frozenset[str], Callable[[str], bool], tuple[str, ...]], ...] = (
    (RAISE_RATE, says_diverges, ()),
    (frozenset((CPU_BUILD,)), runs_on_other_card, ()),
    (frozenset(AFTER_RESUME), was_never_resumed, ()),
    (frozenset((NEVER_MET,)), has_trained, tuple(reversed(HANGS))),
    (frozenset((SHARED_MEMORY_FULL,)), has_shared_memory, (HOST_MEMORY, MAPPED_FILE)),
)


def ruled_out(text: str, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return {id: what may be instead} for those of the entries that the text rules out."""
    asked = set(ids)
    return {
        entry_id: instead
        for entries, rules_out, instead in _TABLE
        if entries & asked and rules_out(text)
        for entry_id in entries & asked
    }
