"""Which card a name means: the driver's own, or one that a person writes."""

import difflib
import re

from ...logs.kernel.tables import rows_of
from . import data_text

NAME_TABLE = data_text("names.txt")
MAKERS = re.compile(r"nvidia|geforce|tesla|amd|instinct|graphics|\(r\)|\(tm\)")
# GRID A100-10C, NVIDIA A40-8Q, GRID A100X-1-10CME: parts of a card in a virtual machine
PART_OF_A_CARD = re.compile(r"^GRID |(?:-\d)?-\d{1,3}(?:[QCAB]|CME)$")


OPTION = re.compile(r" *\[[^\]]*\]")


def squashed(name):
    """A name without case, blanks, signs and the words of makers: 'RTX_4090' -> 'rtx4090'."""
    return re.sub(r"[^a-z0-9]", "", MAKERS.sub(" ", name.lower()))


def way_of(text):
    """A way of writing as a pattern of squashed names: 'h100 [80gb] nvl' -> 'h100(?:80gb)?nvl'."""
    parts = re.split(r"\[([^\]]*)\]", text)
    for at in range(1, len(parts), 2):
        words = "|".join(map(squashed, parts[at].split(",")))
        parts[at] = f"(?:{words})?".replace("gb", "gb?")
    parts[::2] = [squashed(part).replace("gb", "gb?") for part in parts[::2]]
    return re.compile("".join(parts) + r"\Z")


# (SKU, the driver's names squashed, patterns of the ways in which people write it)
NAMES = [
    (
        sku,
        {squashed(name) for name in (sku, *drivers.split(","))} - {""},
        [way_of(way) for way in ways],
    )
    for sku, drivers, *ways in rows_of(NAME_TABLE)
]


def cards_of(name):
    """The SKUs that the driver's name of a card means, mostly one. -> [SKU]"""
    text = squashed(PART_OF_A_CARD.sub("", name))
    exact = [sku for sku, drivers, _ in NAMES if text in drivers]
    part = [] if not PART_OF_A_CARD.search(name) else meant_by(text)
    return exact or part


def meant_by(text):
    """The SKUs that a person means who writes this, none for an unknown name. -> [SKU]"""
    name = squashed(text)
    return [
        sku
        for sku, drivers, ways in NAMES
        if name in drivers or any(way.match(name) for way in ways)
    ]


def is_called(name, text):
    """Whether a card with this name of the driver is what a person means by the text."""
    return squashed(name) == squashed(text) or bool(set(cards_of(name)) & set(meant_by(text)))


def did_you_mean(text):
    """The nearest names of cards, as one may write them. -> at most three"""
    names = {}
    for sku, _, *ways in rows_of(NAME_TABLE):
        shortest = OPTION.sub("", [*ways, sku][0]).strip().upper()
        names.update({squashed(sku): sku, squashed(shortest): shortest})
    return [names[name] for name in difflib.get_close_matches(squashed(text), names, 3, 0.7)]
