"""The part of a report that its meaning is taken from."""

from __future__ import annotations

from .evidence import Evidence
from .features import _NO_DIGITS, _readable, _telling_first

MAX_GIST = 1000  # characters


def gist(evidence: Evidence) -> str:
    """The distinct readable lines that tell most, decisive ones first, cut at MAX_GIST characters."""
    marked = {id(line) for line in evidence.decisive[:5]} if evidence.is_log else set()
    found, seen, room = [], set(), MAX_GIST
    for line in _telling_first(evidence, marked):
        text = _readable(line).strip()
        shape = text.translate(_NO_DIGITS)
        if shape and shape not in seen:
            seen.add(shape)
            found.append(text[:room])
            room -= len(text) + 1
            if room <= 0:
                break
    return "\n".join(found)
