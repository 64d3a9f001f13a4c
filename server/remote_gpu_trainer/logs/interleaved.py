"""Read a traceback once that several processes wrote at once, line between line. Python 3.8.

Ranks that fail alike and share one file without labels print as many heads before the first
exception as they are, and each line of the traceback as often. Of so many equal lines the first is
kept. Copies that stand behind one another are none of these, and neither are doubled lines outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from .detectors import is_raised, template_of

HEAD = "Traceback (most recent call last)"
LONGEST = 4000  # lines of all copies


def find_copies(texts: Sequence[str]) -> set[int]:
    """Return the places of the lines that repeat one of the same interleaved traceback."""
    found: set[int] = set()
    behind = 0
    for at, text in enumerate(texts):
        if at >= behind and text.startswith(HEAD):
            places, count = _find_traceback(texts, at)
            behind = places[-1] + 1
            found |= _copies(texts, places, count)
    return found


def _find_traceback(texts: Sequence[str], begin: int) -> tuple[list[int], int]:
    """(places of the lines of all tracebacks from a head on, how many copies these are).

    A single copy, if the heads don't all end in the same exception.
    """
    places, heads, ends, raised = [], 0, 0, ""
    for at in range(begin, min(begin + LONGEST, len(texts))):
        text = texts[at]
        is_head = text.startswith(HEAD)
        if is_head and raised:
            break
        heads += is_head
        is_end = not is_head and is_raised(text)
        if is_head or is_end or text[:1].isspace():
            places.append(at)
        if not is_end:
            continue
        raised = raised or _key(text)
        if _key(text) != raised:
            break
        ends += 1
        if ends == heads:
            return places, heads
    return places, 1


def _copies(texts: Sequence[str], places: list[int], count: int) -> set[int]:
    """Those of the places that hold another copy of a line, none if some have fewer copies."""
    seen = Counter(_key(texts[at]) for at in places)
    if any(number % count for number in seen.values()):
        return set()
    found, met = set(), Counter()
    for at in places:
        key = _key(texts[at])
        if met[key] % count:
            found.add(at)
        met[key] += 1
    return found


def _key(text: str) -> str:
    """What copies of a line have in common. An exception may tell its own card or process."""
    return text if text[:1].isspace() else template_of(text)
