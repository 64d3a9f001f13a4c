"""Read the cells of a queue: the lines of a text file, or the combinations of a sweep."""

from __future__ import annotations

import itertools
import re
import shlex

MOST_CELLS = 10_000
_ODD = re.compile(r"[^A-Za-z0-9._=+-]+")


class CellError(Exception):
    """A queue or sweep that can't be read. One line with file and line."""


def read_queue(text: str, where: str = "queue") -> list[dict]:
    """Read a queue file: `NAME ARGUMENT …` a line, quoted as in a shell but never run by one.

    A quoted argument may hold line breaks. Empty lines and # lines don't count. Raises CellError.
    """
    cells, begun, first = [], "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if not begun and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun, first = (f"{begun}\n{line}", first) if begun else (line, number)
        try:
            name, *arguments = shlex.split(begun)
        except ValueError as error:
            if "closing quotation" in str(error):  # a quoted value may hold line breaks
                continue
            raise CellError(
                f"{where}:{first}: {error}; write NAME and arguments, quoted as in a shell"
            ) from None
        cells.append({"name": name, "arguments": arguments})
        begun = ""
    if begun:
        raise CellError(
            f"{where}:{first}: no closing quotation mark; "
            "write NAME and arguments, quoted as in a shell"
        )
    if not cells:
        raise CellError(f"{where}: no cells; write one per line: NAME ARGUMENT …")
    return cells


def expand(sweep: dict, where: str = "sweep") -> list[dict]:
    """Return the cells of a sweep: every combination, in the order in which it is written.

    A sweep is {"grid": {"--lr": [1e-4, 3e-4], "--seed": [1, 2]}, "arguments": [...]}. A cell is
    named by its values: lr=0.0001_seed=1. Raises CellError.
    """
    grid = sweep.get("grid")
    if (
        not isinstance(grid, dict)
        or not grid
        or not all(isinstance(values, list) and values for values in grid.values())
    ):
        raise CellError(
            f"{where}: no valid `grid`; write an object with a list of values for each option"
        )
    if unknown := sorted(set(sweep) - {"grid", "arguments"}):
        raise CellError(f"{where}: unknown field {unknown[0]!r}; use only grid and arguments")
    always = [_text(value, where) for value in sweep.get("arguments", [])]
    cells, seen = [], {}
    for values in itertools.islice(itertools.product(*grid.values()), MOST_CELLS + 1):
        texts = [_text(value, where) for value in values]
        pairs = list(zip(grid, texts, strict=True))
        name = "_".join(f"{_short(option)}={_short(text)}" for option, text in pairs)
        name = name[:90].strip("._-=+") or "cell"
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name}-{seen[name]}"
        given = [word for option, text in pairs for word in (str(option), text)]
        cells.append({"name": name, "arguments": [*always, *given]})
    if len(cells) > MOST_CELLS:
        raise CellError(f"{where}: more than {MOST_CELLS:,} combinations; give fewer values")
    return cells


def _text(value: object, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise CellError(
            f"{where}: {value!r:.40} is neither text nor a number; write true and false in quotes"
        )
    return str(value)


def _short(text: str) -> str:
    return _ODD.sub("-", str(text)).strip("-.=+") or "x"
