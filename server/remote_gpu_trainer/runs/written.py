"""The fields of a job, with the file and the line that each was written in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MOST_TOGETHER = 600_000  # bytes of a job; a Kubernetes ConfigMap of 1 MiB holds the runner as well
MOST_DEPTH = 30  # lists and objects within each other
TOO_DEEP = (
    f"lists and objects lie more than {MOST_DEPTH} deep in each other; close the brackets, or "
    "write it flat"
)

FieldPath = tuple[str | int, ...]


class Broken(ValueError):
    """A text that is no valid YAML or JSON: what is wrong and what to do, with its place."""

    def __init__(self, problem: str, line: int, column: int = 0) -> None:
        super().__init__(problem)
        self.line, self.column = line, column


class WholeNumber(int):
    """A number that Python would write in another way. `written`: as it stands in the file."""

    written: str


class Number(float):
    """As `WholeNumber`, for 3.10 and 1.0e-4."""

    written: str


def number_as_written(text: str, kind: type[int] | type[float]) -> int | float | str:
    """Return the number of a text, which keeps the text; the text itself where it is none."""
    try:
        value = kind(text)
        if str(value) == text:
            return value
        kept = (WholeNumber if kind is int else Number)(value)
    except (ValueError, OverflowError):  # over 4,300 digits, too
        return text
    kept.written = text
    return kept


@dataclass(frozen=True)
class Place:
    """Where a part was written: `file`, `line` (0: not known), and whether as YAML, JSON or an
    option."""

    file: str
    line: int = 0
    form: str = "yaml"

    def __str__(self) -> str:
        return f"{self.file} line {self.line}" if self.line else self.file


@dataclass(frozen=True)
class Lines:
    """A source of fields: a file with the line of each path, or `--set`."""

    file: str
    lines: dict[FieldPath, int]
    form: str = "yaml"

    def place(self, path: FieldPath) -> Place:
        """Return the place of the deepest part of `path` that was written."""
        for size in range(len(path), 0, -1):
            if line := self.lines.get(path[:size]):
                return Place(self.file, line, self.form)
        return Place(self.file, 0, self.form)


class Written(dict[str, Any]):
    """The fields of a job, and where each was written. `sources`: a later one counts first."""

    def __init__(
        self, fields: dict[str, Any], sources: Iterable[tuple[FieldPath, Lines]] = ()
    ) -> None:
        super().__init__(fields)
        self.sources = list(sources)

    def place(self, path: FieldPath) -> Place | None:
        """Return where a path was written, None where no source has it."""
        for prefix, source in reversed(self.sources):
            if path[: len(prefix)] == prefix:
                return source.place(path[len(prefix) :])
        return None


def copied(value: Any) -> Any:
    """Return a value with its own lists and objects, so that a change reaches no other."""
    if isinstance(value, dict):
        parts = {key: copied(part) for key, part in value.items()}
        return Written(parts, value.sources) if isinstance(value, Written) else parts
    return [copied(part) for part in value] if isinstance(value, list) else value
