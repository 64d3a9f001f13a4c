"""Evidence as JSON on its way from a box: `pack` makes it there, `unpack` checks it here.

Both go by the fields of the record `Evidence` and by what each field holds, so that a new field
travels without a word here. A box may say anything, so `unpack` checks types, and cleans, masks and
cuts texts. Standard library, Python 3.8.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

from ..text.masking import mask, shown
from .detectors import Watch
from .evidence import MOST_DECISIVE, Evidence, Failure, Probed
from .files import Unreadable
from .kinds import KINDS, PLAIN, QUIET
from .lines import MAX_LINE, Line

# What is taken from a box at most.
MOST_LINES, MOST_RANKS, MOST_PROBED = 200_000, 100_000, 64
LONGEST = 500  # characters of a sentence
LARGEST = 10**12  # number of a line


def pack(evidence: Evidence, most: int) -> dict:
    """Return evidence as an object of JSON with lines of at most `most` bytes in all.

    Where there are more, the plain ones are left out first, the earliest first. A failure whose
    line is left out is left out too.
    """
    lines = _within(evidence, most)
    places = {line: place for place, line in enumerate(lines)}
    packed = {each.name: _FORMS[str(each.type)].pack for each in fields(Evidence)}
    return {
        **{name: form(getattr(evidence, name), places) for name, form in packed.items()},
        "lines": [_row(line) for line in lines],
    }


def unpack(reply: bytes, host: str) -> Evidence:
    """Return a box's reply as evidence. Raises Unreadable."""
    try:
        packed = json.loads(reply)
        if "unreadable" in packed:
            raise Unreadable(f"on {host}: {shown(packed['unreadable'], 400)}")
        return _evidence(packed)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise Unreadable(f"the answer from {host} can't be read; copy the log here") from None


def _within(evidence: Evidence, most: int) -> list[Line]:
    """The lines that fit into `most` bytes, in order; those that decide are chosen first."""
    lines = evidence.lines
    sizes = [len(json.dumps(_row(line))) + 2 for line in lines]
    if sum(sizes) <= most:
        return lines
    must = {*evidence.decisive, evidence.first, *evidence.culprits, *evidence.quoted}
    failed = {line for f in evidence.failures for line in (f.line, *f.frames)}
    chosen, size = set(), 0
    for place in sorted(
        range(len(lines)),
        key=lambda place: (
            lines[place] not in must,
            lines[place] not in failed,
            lines[place].kind in QUIET,
            -place,
        ),
    ):
        if size + sizes[place] > most:
            break
        size += sizes[place]
        chosen.add(place)
    return [line for place, line in enumerate(lines) if place in chosen]


def _evidence(packed: dict) -> Evidence:
    """The evidence in an object that was read from JSON. Raises what a wrong type raises."""
    rows = packed["lines"][:MOST_LINES]
    watch = Watch([str(row[3])[:MAX_LINE] for row in rows])
    box = _Box([_line(row, watch) for row in rows], watch)
    values = {
        each.name: _FORMS[str(each.type)].unpack(packed[each.name], box)
        for each in fields(Evidence)
    }
    return Evidence(**{**values, "lines": box.lines})


class _Box(NamedTuple):
    """What a box sent: its lines, and what finds their signs."""

    lines: list[Line]
    watch: Watch

    def line(self, place: int) -> Line:
        """Return the line at a place. Raises IndexError where there is none."""
        if type(place) is not int or not 0 <= place < len(self.lines):
            raise IndexError(place)
        return self.lines[place]

    def pointed(self, value: Any) -> Line:
        """Return the line at a place, or the one that the reply holds there itself."""
        return self.line(value) if isinstance(value, int) else _line(value, self.watch)


class _Form(NamedTuple):
    """How a value of one type goes into JSON, and back. `pack` gets the places of the lines."""

    pack: Callable[[Any, dict[Line, int]], Any]
    unpack: Callable[[Any, _Box], Any]


def _row(line: Line) -> list:
    return [line.source, line.number, line.rank, line.text, line.kind, line.time]


def _line(row: Any, watch: Watch) -> Line:
    """A line from whatever a box sent as one. Raises what a wrong type raises."""
    source, number, rank, text, kind, time = row
    text = mask(str(text)[:MAX_LINE])
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    rank = rank if _is_rank(rank) else None
    return Line(
        shown(source, 200),
        int(number) if abs(int(number)) < LARGEST else 0,
        rank,
        text,
        kind=kind if kind in KINDS else PLAIN,
        time=shown(time, 40),
        signs=watch.signs_of(text, rank is not None),
    )


def _pointer(line: Line, places: dict[Line, int]) -> int | list:
    """The place of a line in the reply, or the line itself where it isn't among those."""
    place = places.get(line)
    return _row(line) if place is None else place


def _pointers(lines: Any, places: dict[Line, int]) -> list:
    return [_pointer(line, places) for line in lines]


def _pointed(values: list, box: _Box) -> list[Line]:
    return [box.pointed(value) for value in values[:MOST_DECISIVE]]


def _packed_failures(failures: list[Failure], places: dict[Line, int]) -> list:
    return [
        [
            places[failure.line],
            failure.secondary,
            [places[frame] for frame in failure.frames if frame in places],
        ]
        for failure in failures
        if failure.line in places
    ]


def _failures(values: list, box: _Box) -> list[Failure]:
    return [
        Failure(box.line(place), secondary is True, tuple(map(box.line, frames)))
        for place, secondary, frames in values
    ]


def _packed_probed(probed: tuple[Probed, ...], _: dict[Line, int]) -> list:
    return [
        {
            "id": finding.id,
            "level": "wrong" if finding.wrong else "hint",
            "step": finding.step,
            "rank": finding.rank,
            "evidence": finding.said,
            "source": finding.source,
        }
        for finding in probed
    ]


def _probed(values: list, _: _Box) -> tuple[Probed, ...]:
    probed = [Probed.of(finding, shown(finding["source"], 200)) for finding in values[:MOST_PROBED]]
    return tuple(finding for finding in probed if finding is not None)


def _as_is(value: Any, _: dict[Line, int]) -> Any:
    return value


def _number(value: Any, _: _Box) -> int:
    return value if type(value) is int and 0 <= value < LARGEST else 0


def _is_rank(value: object) -> bool:
    return type(value) is int and 0 <= value < 10**6


# By the type that the record gives a field. `lines` itself is packed and read first, as all others
# point into it.
_FORMS = {
    "list[Line]": _Form(_pointers, _pointed),
    "tuple[Line, ...]": _Form(_pointers, lambda values, box: tuple(_pointed(values, box))),
    "Line | None": _Form(
        lambda line, places: None if line is None else _pointer(line, places),
        lambda value, box: None if value is None else box.pointed(value),
    ),
    "list[Failure]": _Form(_packed_failures, _failures),
    "tuple[Probed, ...]": _Form(_packed_probed, _probed),
    "tuple[int, ...]": _Form(
        _as_is, lambda values, _: tuple(filter(_is_rank, values[:MOST_RANKS]))
    ),
    "str": _Form(_as_is, lambda value, _: shown(value, LONGEST)),
    "bool": _Form(_as_is, lambda value, _: value is True),
    "int": _Form(_as_is, _number),
}
