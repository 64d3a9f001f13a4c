"""What the readers of memory messages need to know of a line of a log."""

from __future__ import annotations

from typing import Protocol, TypeVar


class LogLine(Protocol):
    """The part of `logs.lines.Line` that is used here."""

    @property
    def text(self) -> str:
        """Its text without prefixes."""
        ...

    @property
    def rank(self) -> int | None:
        """The rank that wrote it, None where it isn't known."""
        ...

    @property
    def kind(self) -> str:
        """Its kind: "frame" is a line of a traceback."""
        ...

    def sign(self, name: str) -> tuple | None:
        """What a detector found in it: "frame" is (file, line, function)."""
        ...


SomeLine = TypeVar("SomeLine", bound=LogLine)
