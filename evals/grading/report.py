"""Grades as tables, for a terminal and for the page evals/RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable

from remote_gpu_trainer.catalogue import bundle

from .cases import Case
from .grade import Grade, Rates, Share, rates

# The families that the look-up began with; its targets were set for them.
TEN = frozenset({"C", "D", "DF", "DP", "L", "O", "P", "R", "V", "X"})
NAMES = ("first", "three", "eighteen", "claimed and right", "claims on strange")
LEGEND = """\
- **n**: reports that an entry explains + strange ones, which none explains
- **first**, **three**, **eighteen**: the right entry is the first, among the first three, among all that is shown, titles included
- **claimed and right**: the first match is right; an answer that gives titles only claims nothing
- **claims on strange**: strange reports that get a match
- in brackets: 95 % intervals (Wilson)"""  # noqa: E501


def beside(title: str, graded: dict[str, list[Grade]]) -> str:
    """A table of several systems on one set."""
    rows = [rates_row(name, rates(grades)) for name, grades in graded.items()]
    return table(title, ("system", "n", *NAMES), rows)


def apart(title: str, grades: list[Grade], families: bool = False) -> str:
    """A table of a set that is graded for itself: all of it, by part and by kind."""
    rows = [rates_row("all", rates(grades))]
    keys = [lambda g: part(g.case), lambda g: g.case.kind]
    for key in [*keys, *([lambda g: g.case.family] if families else [])]:
        for name in sorted({key(g) for g in grades} - {"none"}):
            rows.append(rates_row(name, rates([g for g in grades if key(g) == name])))
    return table(title, ("part", "n", *NAMES), rows)


def table(title: str, head: Iterable[str], rows: list[str]) -> str:
    """A table under its title."""
    head = tuple(head)
    return "\n".join([f"**{title}**", "", row(*head), row(*["---"] * len(head)), *rows])


def part(case: Case) -> str:
    """`training` or `platforms`, by the page of the best answer; `none` out of scope."""
    if not case.expect:
        return "none"
    entry = bundle.load().by_id.get(bundle.load().current(case.expect[0]))
    return "platforms" if entry and entry.path.startswith("profiles/") else "training"


def row(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def rates_row(name: str, found: Rates) -> str:
    """A row with the shares of NAMES."""
    cells = (found.first, found.three, found.eighteen, found.hit1, found.false)
    return row(name, f"{found.inside}+{found.outside}", *map(shown, cells))


def shown(value: Share) -> str:
    """A share with its interval; a dash where there is none."""
    mean, low, high = value
    return "–" if mean != mean else f"{mean:.3f} [{low:.2f}, {high:.2f}]"


def misses(cases: list[Case], answers) -> str:
    """Each case that was not answered right, for reading."""
    lines = []
    for case in cases:
        matches, further = answers[case.id]
        if (case.expect and [*matches, *further][:1] != [case.expect[0]]) or (
            not case.expect and matches
        ):
            lines.append(
                f"{case.id} {case.kind} expected {','.join(case.expect) or 'nothing'}, "
                f"found {','.join(matches) or 'nothing'} | {','.join(further)}\n"
                f"    {case.text[:300]!r}"
            )
    return "\n".join(lines)
