"""The part of a report that its meaning is taken from."""

from __future__ import annotations

from ..logs.lines import Line

MAX_GIST = 1000  # characters


def gist(told: list[tuple[Line, str, bool]]) -> str:
    """The texts that `telling` gave, one a line, cut at MAX_GIST characters."""
    found, room = [], MAX_GIST
    for _, text, _ in told:
        text = text.strip()
        found.append(text[:room])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(found)
