"""Evidence as JSON on its way from a box: `pack` makes it there, `unpack` checks it here.

A box may say anything, so `unpack` checks types, and cleans, masks and cuts texts. `failures` are
left out, because no caller needs them. Standard library, Python 3.8.
"""

from __future__ import annotations

import json
from typing import Any

from ..text.masking import mask, shown
from .detectors import Watch
from .evidence import MOST_DECISIVE, Evidence, Probed
from .files import Unreadable
from .kinds import KINDS, QUIET
from .lines import MAX_LINE, Line

MOST_LINES, MOST_RANKS, MOST_PROBED = 200_000, 100_000, 64  # that are taken from a box
MOST_RANKS_SHOWN = 4  # that failed on their own


def pack(evidence: Evidence, most: int) -> dict:
    """Return evidence as an object of JSON with lines of at most `most` bytes in all.

    Where there are more, the plain ones are left out first, the earliest first.
    """
    lines = _within(evidence, most)
    places = {line: place for place, line in enumerate(lines)}

    def pointed(line: Line) -> int | list:
        """The place of a line in the reply, or the line itself where it isn't among those."""
        return places.get(line, _row(line))

    return {
        "lines": [_row(line) for line in lines],
        "decisive": [pointed(line) for line in evidence.decisive],
        "first": None if evidence.first is None else pointed(evidence.first),
        "ranks": evidence.ranks,
        "is_log": evidence.is_log,
        "left_out": evidence.left_out,
        "numbers": evidence.numbers,
        "seen": evidence.seen,
        "victims": evidence.victims,
        "older": evidence.older,
        "of_file": evidence.of_file,
        "read": evidence.read,
        "ended": evidence.ended,
        "own": evidence.own,
        "says_all": evidence.says_all,
        "went_on": evidence.went_on,
        "calls_differ": evidence.calls_differ,
        "places": evidence.places,
        "culprits": [pointed(line) for line in evidence.culprits],
        "how": evidence.how,
        "quoted": [pointed(line) for line in evidence.quoted],
        "check": evidence.check,
        "job": evidence.job,
        "probed": [
            {
                "id": probed.id,
                "level": "wrong" if probed.wrong else "hint",
                "step": probed.step,
                "rank": probed.rank,
                "evidence": probed.said,
                "source": probed.source,
            }
            for probed in evidence.probed
        ],
    }


def _within(evidence: Evidence, most: int) -> list[Line]:
    """The lines that fit into `most` bytes, in order; those that decide are chosen first."""
    lines = evidence.lines
    sizes = [len(json.dumps(_row(line))) + 2 for line in lines]
    if sum(sizes) <= most:
        return lines
    must = {*evidence.decisive, evidence.first, *evidence.culprits, *evidence.quoted}
    chosen, size = set(), 0
    for place in sorted(
        range(len(lines)),
        key=lambda place: (lines[place] not in must, lines[place].kind in QUIET, -place),
    ):
        if size + sizes[place] > most:
            break
        size += sizes[place]
        chosen.add(place)
    return [line for place, line in enumerate(lines) if place in chosen]


def _row(line: Line) -> list:
    return [line.source, line.number, line.rank, line.text, line.kind, line.time]


def unpack(reply: bytes, host: str) -> Evidence:
    """Return a box's reply as evidence. Raises Unreadable."""
    try:
        packed = json.loads(reply)
        if "unreadable" in packed:
            raise Unreadable(f"on {host}: {shown(packed['unreadable'], 400)}")
        return _evidence(packed)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        raise Unreadable(f"the answer from {host} can't be read; copy the log here") from None


def _evidence(packed: dict) -> Evidence:
    """The evidence in an object that was read from JSON. Raises what a wrong type raises."""
    rows = packed["lines"][:MOST_LINES]
    watch = Watch([str(row[3])[:MAX_LINE] for row in rows])
    lines = [_line(row, watch) for row in rows]

    def pointed(value: Any) -> Line:
        """The line at a place, or the one that the reply holds there itself."""
        if isinstance(value, int) and 0 <= value < len(lines):
            return lines[value]
        return _line(value, watch)

    return Evidence(
        lines,
        [],
        decisive=[pointed(value) for value in packed["decisive"][:MOST_DECISIVE]],
        first=None if packed["first"] is None else pointed(packed["first"]),
        ranks=tuple(rank for rank in packed["ranks"][:MOST_RANKS] if _is_rank(rank)),
        is_log=packed["is_log"] is True,
        left_out=shown(packed.get("left_out", ""), 300),
        numbers=shown(packed.get("numbers", ""), 300),
        seen=shown(packed.get("seen", ""), 20),
        victims=shown(packed.get("victims", ""), 500),
        older=shown(packed.get("older", ""), 300),
        of_file=packed.get("of_file") is True,
        read=shown(packed.get("read", ""), 400),
        ended=shown(packed.get("ended", ""), 300),
        own=shown(packed.get("own", ""), 300),
        says_all=packed.get("says_all") is True,
        went_on=packed.get("went_on") is True,
        calls_differ=packed.get("calls_differ") is True,
        places=shown(packed.get("places", ""), 300),
        culprits=tuple(map(pointed, packed.get("culprits", [])[:MOST_RANKS_SHOWN])),
        how=shown(packed.get("how", ""), 60),
        quoted=tuple(map(pointed, packed.get("quoted", [])[:MOST_DECISIVE])),
        check=shown(packed.get("check", ""), 300),
        job=shown(packed.get("job", ""), 20),
        probed=_probed(packed.get("probed", [])),
    )


def _probed(packed: list) -> tuple[Probed, ...]:
    probed = [Probed.of(finding, shown(finding["source"], 200)) for finding in packed[:MOST_PROBED]]
    return tuple(finding for finding in probed if finding is not None)


def _line(row: Any, watch: Watch) -> Line:
    """A line from whatever a box sent as one. Raises what a wrong type raises."""
    source, number, rank, text, kind, time = row
    text = mask(str(text)[:MAX_LINE])
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c == "\t" else " " for c in text)
    rank = rank if _is_rank(rank) else None
    return Line(
        shown(source, 200),
        int(number) if abs(int(number)) < 10**12 else 0,
        rank,
        text,
        kind=kind if kind in KINDS else "plain",
        time=shown(time, 40),
        signs=watch.signs_of(text, rank is not None),
    )


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < 10**6
