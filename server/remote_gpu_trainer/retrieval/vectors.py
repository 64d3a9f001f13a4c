"""`vectors.txt`: what the cards of each entry mean, a line an entry, in groups by family.

    # O
    O1 57eb20c0a1b2c3d4 PnAAOz…
    O2 …

The second word of a line is a hash of the cards and the encoder, see `index.made_from`. The third
is the vectors in Base64: a scale for each card as a float32, then 384 numbers for each as int8.

`rgt dev docs --write` makes the file. A line depends on its own entry alone, and a heading stands
between two families: so git merges two branches that add entries to two families.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from ..catalogue.bundle import CatalogueError
from ..catalogue.entry import family_of
from . import numpy
from .encoder import WIDTH

PLACE = Path(__file__).with_name("vectors.txt")
CARDS = 2  # of an entry, see `index.cards`
_LINE = re.compile(r"([A-Za-z0-9]+) ([0-9a-f]{16}) ([A-Za-z0-9+/]+=*)")
_BYTES = CARDS * (4 + WIDTH)


@dataclass(frozen=True)
class EntryVectors:
    """The vectors of one entry as the file has them, and the hash of what they follow from."""

    made_from: str
    packed: str


def pack(points: numpy.ndarray) -> str:
    """Vectors, shape (CARDS, WIDTH), in 8 bits with one scale each, as the file has them."""
    scale = numpy.abs(points).max(1) / 127 + 1e-12
    rounded = numpy.round(points / scale[:, None]).astype("int8")
    return b64encode(scale.astype("<f4").tobytes() + rounded.tobytes()).decode()


def unpack(packed: Iterable[str]) -> numpy.ndarray:
    """The vectors of many entries, shape (CARDS, entries, WIDTH), float32; '' gives zeros.

    Raises ValueError for a text of another length.
    """
    parts = [b64decode(text) if text else bytes(_BYTES) for text in packed]
    if any(len(part) != _BYTES for part in parts):
        raise ValueError(f"an entry hasn't {_BYTES} bytes")
    form = numpy.dtype([("scale", "<f4", (CARDS,)), ("points", "i1", (CARDS, WIDTH))])
    entries = numpy.frombuffer(b"".join(parts), form)
    points = entries["points"] * entries["scale"][..., None]
    return numpy.ascontiguousarray(points.transpose(1, 0, 2))


def as_text(vectors: Mapping[str, EntryVectors]) -> str:
    """The whole file for these entries by id, the same for the same ones in any order."""
    lines = []
    for family, ids in groupby(sorted(vectors, key=_place), key=family_of):
        lines.append(f"# {family}")
        lines += [f"{id} {vectors[id].made_from} {vectors[id].packed}" for id in ids]
    return "".join(f"{line}\n" for line in lines)


def _place(entry_id: str) -> tuple[str, int, str]:
    """The key by which ids are sorted: O2 before O10."""
    family = family_of(entry_id)
    number = re.match(r"[0-9]*", entry_id[len(family) :])
    return family, int(number[0]) if number and number[0] else 0, entry_id


def read(place: Path = PLACE) -> dict[str, EntryVectors]:
    """The vectors in a file by id. Raises CatalogueError for one that is missing or damaged."""
    vectors = {}
    try:
        for number, line in enumerate(place.read_text(encoding="ascii").splitlines(), 1):
            if line.startswith("# "):
                continue
            match = _LINE.fullmatch(line)
            if not match:
                raise ValueError(f"line {number} isn't an id, a hash and vectors")
            vectors[match[1]] = EntryVectors(match[2], match[3])
        if not vectors:
            raise ValueError("it names no entry")
    except (OSError, ValueError) as error:
        raise CatalogueError(f"can't read {place} ({error}); run rgt dev docs --write") from None
    return vectors


def read_whole_lines(place: Path) -> dict[str, EntryVectors]:
    """The lines of a file that are whole, by id; {} where there is no file.

    A file with a conflict of git's is read as well. Where it has an id twice, the last line counts:
    if that is the wrong one, its hash differs from the entry's, and the entry is encoded again.
    """
    try:
        text = place.read_text(encoding="ascii", errors="replace")
    except OSError:
        return {}
    matches = filter(None, map(_LINE.fullmatch, text.splitlines()))
    return {match[1]: EntryVectors(match[2], match[3]) for match in matches if _is_whole(match[3])}


def is_written_so(place: Path, vectors: Mapping[str, EntryVectors]) -> bool:
    """Whether a file holds these entries as `as_text` writes them, and nothing else."""
    return place.is_file() and place.read_bytes() == as_text(vectors).encode()


def _is_whole(packed: str) -> bool:
    try:
        return len(b64decode(packed, validate=True)) == _BYTES
    except Base64Error:
        return False
