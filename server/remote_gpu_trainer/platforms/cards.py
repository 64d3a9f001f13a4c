"""GPUs by the names that users write, and the memory that each has."""

from __future__ import annotations

import re


class SeveralCards(Exception):
    """A name fits several cards. The text is one line: what is wrong; what to do."""


# The memory of a card by CUDA, in GiB: the total in PyTorch's out-of-memory messages, the least one
# if drivers differ. It is less than the name promises, with ECC even less.
GPUS = {
    "B200": 178.35,
    "H200": 139.72,
    "H100-80GB": 79.10,
    "H100-NVL": 93.0,
    "H800": 79.10,
    "H20": 95.0,
    "A100-80GB": 79.11,
    "A100-40GB": 39.39,
    "A800-80GB": 79.11,
    "L40S": 44.39,
    "L40": 44.39,
    "A40": 44.35,
    "A6000": 47.38,
    "RTX-6000-ADA": 47.38,
    "RTX-5090": 31.36,
    "RTX-4090": 23.52,
    "RTX-3090": 23.52,
    "A5000": 23.52,
    "A10G": 21.98,
    "A10": 21.98,
    "L4": 21.96,
    "V100-32GB": 31.74,
    "V100-16GB": 15.77,
    "T4": 14.56,
    "P100-16GB": 15.89,
    "RTX-3080": 9.77,
    "RTX-2080-TI": 10.75,
    "GTX-1080-TI": 10.91,
}

# Dense tensor-core peak in TFLOPS, bf16 (fp16 before Ampere), of the cards for which the box check
# has one; `gpu_health/box_check/cards.py` names the sources, and a test compares both.
PEAK_TFLOPS = {
    "B200": 2250, "H200": 989, "H100-80GB": 989, "H100-NVL": 835, "A100-80GB": 312,
    "A100-40GB": 312, "L40S": 362, "L40": 181, "L4": 121, "A40": 149, "A10": 125,
    "V100-32GB": 112, "V100-16GB": 112, "T4": 65, "RTX-4090": 165,
}  # fmt: skip


_BEFORE_AMPERE = re.compile(r"\b(?:V100\w*|P100|P40|T4|GTX|TITAN|20[678]0)\b", re.I)


def has_bf16(name: str) -> bool:
    """Whether a card of this name multiplies in bf16, and has fused attention for it."""
    return not _BEFORE_AMPERE.search(name)


def gpu_named(name: str) -> tuple[str, float] | None:
    """The card that a user means and its memory in GiB; None if the table lacks it.

    A number is the memory itself. Raises SeveralCards if several cards have that name.
    """
    size = re.fullmatch(r"(\d{1,4}(?:\.\d{1,3})?) ?(?:Gi?B)?", name.strip(), re.I)
    if size and float(size[1]) > 0 and ("B" in name.upper() or not _fitting(name)):
        return f"a GPU with {size[1]} GiB", float(size[1])
    cards = _fitting(name)
    if len(cards) > 1:
        raise SeveralCards(
            f"{name[:40]!r} names several cards, which differ in memory; "
            f"give one of {', '.join(cards)}, or the memory in GiB"
        )
    return (cards[0], GPUS[cards[0]]) if cards else None


def _fitting(name: str) -> list[str]:
    """The card with most words, if the name has them all; else the cards with all its words."""
    words = set(re.findall(r"[A-Z0-9]+", name[:80].upper()))
    within = [card for card in GPUS if set(card.split("-")) <= words]
    if within:
        return [max(within, key=lambda card: card.count("-"))]
    return [card for card in GPUS if words and words <= set(card.split("-"))]
