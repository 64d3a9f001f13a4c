"""Read the cells of a queue: the lines of a text file, or the combinations of a sweep."""

from __future__ import annotations

import itertools
import math
import re
import shlex

from ..text.masking import shown
from .job_errors import JobError
from .written import Written

MOST_CELLS = 10_000
_ODD = re.compile(r"[^A-Za-z0-9._=+-]+")
A_GRID = "grid: {--lr: [1e-4, 3e-4], --seed: [1, 2]}"


def read_queue(text: str, where: str = "queue") -> tuple[list[dict], list[int]]:
    """Return the cells of a queue file and the line of each: `NAME ARGUMENT …` a line, quoted as in
    a shell but never run by one.

    A quoted argument may hold line breaks. Empty lines and # lines don't count. Raises JobError.
    """
    cells, firsts = [], []
    lines, first, quote = [], 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        if not lines and (not line.strip() or line.lstrip().startswith("#")):
            continue
        first = first if lines else number
        lines.append(line)
        quote = _quote_behind(line, quote)
        if quote == "\\":
            raise JobError(
                f"{where} line {number}: a backslash ends it; write the cell on one line, or \\\\ "
                "for a backslash"
            )
        if quote:  # a quoted value may hold line breaks
            continue
        name, *arguments = shlex.split("\n".join(lines))
        cells.append({"name": name, "arguments": arguments})
        firsts.append(first)
        lines = []
    if lines:
        raise JobError(
            f"{where} line {first}: no closing quote; write NAME ARGUMENT …, with the same quote "
            "before and behind a text"
        )
    if not cells:
        raise JobError(f"{where}: it holds no cells; write one a line, such as seed1 --seed 1")
    return cells, firsts


def _quote_behind(line: str, quote: str) -> str:
    """Return the quote that is open behind a line, given the one that is open before it; a
    backslash where one ends the line outside of quotes."""
    at = 0
    while at < len(line):
        character = line[at]
        if character == "\\" and quote != "'":
            if at + 1 == len(line):
                return quote or "\\"
            at += 1
        elif character == quote:
            quote = ""
        elif character in "'\"" and not quote:
            quote = character
        at += 1
    return quote


def expand(sweep: Written) -> list[dict]:
    """Return the cells of a sweep: every combination, in the order in which it is written.

    A sweep is {"grid": {"--lr": [1e-4, 3e-4], "--seed": [1, 2]}, "arguments": [...]}. A cell is
    named by its values: lr=1e-4_seed=1. Raises JobError.
    """
    if unknown := sorted(set(sweep) - {"grid", "arguments"}):
        raise _fault(sweep, (unknown[0],), "unknown field; a sweep has grid and arguments")
    grid = sweep.get("grid")
    if not isinstance(grid, dict) or not grid:
        raise _fault(
            sweep, ("grid",), f"must be an object with a list for each option; write {A_GRID}"
        )
    for option, values in grid.items():
        if not isinstance(values, list) or not values:
            fault = f"must be a list of values; write {shown(option, 60)}: [1, 2]"
            raise _fault(sweep, ("grid", option), fault)
    always = sweep.get("arguments") or []
    if not isinstance(always, list):
        raise _fault(sweep, ("arguments",), "must be a list of words; write arguments: [--fast]")
    always = [_word_of(sweep, ("arguments", at), value) for at, value in enumerate(always)]
    texts_of = {
        option: [_word_of(sweep, ("grid", option, at), value) for at, value in enumerate(values)]
        for option, values in grid.items()
    }
    if math.prod(len(texts) for texts in texts_of.values()) > MOST_CELLS:
        fault = f"makes more than {MOST_CELLS:,} combinations; give fewer values"
        raise _fault(sweep, ("grid",), fault)
    cells, seen = [], {}
    for texts in itertools.product(*texts_of.values()):
        pairs = list(zip(grid, texts, strict=True))
        name = "_".join(f"{_short(option)}={_short(text)}" for option, text in pairs)
        name = name[:90].strip("._-=+") or "cell"
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name}-{seen[name]}"
        given = [word for pair in pairs for word in pair]
        cells.append({"name": name, "arguments": [*always, *given]})
    return cells


def _word_of(sweep: Written, path: tuple[str | int, ...], value: object) -> str:
    if isinstance(value, bool):
        word = str(value).lower()
        raise _fault(sweep, path, f'is {word}, and must be a text or a number; write "{word}"')
    if not isinstance(value, (str, int, float)):
        fault = "must be a text or a number; write one, or leave it out"
        raise _fault(sweep, path, fault)
    return str(getattr(value, "written", value))


def _fault(sweep: Written, path: tuple[str | int, ...], fault: str) -> JobError:
    place = sweep.place(path)
    field = ".".join(shown(part, 60) for part in path)
    return JobError(f"{place}, {field}: {fault}" if place else f"{field}: {fault}")


def _short(text: str) -> str:
    return _ODD.sub("-", str(text)).strip("-.=+") or "x"
