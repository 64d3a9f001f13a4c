"""Bash text from values: comments, assignments, and the static runner behind them. Nothing but a quoted value is ever interpolated."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from .targets.fields import Value

_NAME = re.compile(r"RGT_[A-Z][A-Z_]*\Z")
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")
RUNNER, QUEUE = "run_one.sh.template", "run_queue.sh.template"


def comment(text: str) -> str:
    """Text as comment lines. No character of it can leave the comment."""
    lines = "".join(c if c.isprintable() or c == "\n" else " " for c in text).split("\n")
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def assignment(name: str, value: Value) -> str:
    """One line of bash that gives `name` this value: a list becomes an array, anything else a string.

    Raises ValueError for a name that isn't one of the runner's, and for a NUL, which no shell can hold.
    """
    if not _NAME.match(name):
        raise ValueError(f"found the variable name {name!r}, expected RGT_ and capitals")
    if isinstance(value, (str, int, float)):
        return f"{name}={_quote(str(value))}\n"
    return f"{name}=({' '.join(_quote(str(item)) for item in value)})\n"


def assignments(values: Mapping[str, Value]) -> str:
    """Assignments in alphabetical order, so that equal values give equal bytes."""
    return "".join(assignment(name, values[name]) for name in sorted(values))


def body(template: Path) -> str:
    """A runner's text without its first line and the comment below it."""
    lines = template.read_text(encoding="utf-8").splitlines(keepends=True)
    start = next(
        (number for number, line in enumerate(lines) if not line.startswith("#")), len(lines)
    )
    return "".join(lines[start:]).lstrip("\n")


def script(values: Mapping[str, Value], scripts: Path, about: str = "", queue: bool = False) -> str:
    """A whole script: what it is, the values, the runner."""
    parts = [
        "#!/usr/bin/env bash\n",
        comment(about) if about else "",
        "\n",
        assignments(values),
        "\n",
    ]
    if queue:
        parts += [body(scripts / QUEUE), "\n"]
    return "".join([*parts, body(scripts / RUNNER)])


def _quote(value: str) -> str:
    if "\0" in value:
        raise ValueError("found a NUL character in a value, expected text that a shell can hold")
    if _CONTROL.search(
        value
    ):  # as an escape: YAML would have to put a whole script that holds one into double quotes
        inner = value.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", inner) + "'"
    return shlex.quote(value)
