"""The kinds that a line of a log can have. Python 3.8.

Import the names of kinds from here: a misspelt one fails at once, a misspelt text is never equal.
"""

from __future__ import annotations

from typing import NamedTuple

EXCEPTION = "exception"
MESSAGE = "message"
FAILURE = "failure"
WARNING = "warning"
FRAME = "frame"
TRACE = "trace"
PLAIN = "plain"
TOLD = "told"
ASIDE = "aside"
CONSEQUENCE = "consequence"
ROUTINE = "routine"


class Kind(NamedTuple):
    """A row of the table.

    `given_by`: the modules that give it. `failed`: such a line tells what failed. `quiet`: it
    reports no fault. `apart`: `judge` gives it to plain lines of a long log.
    """

    name: str
    means: str
    given_by: tuple[str, ...]
    failed: bool = False
    quiet: bool = False
    apart: bool = False


TABLE = (
    Kind(EXCEPTION, "the name of an exception, and what it says", ("lines",), failed=True),
    Kind(
        MESSAGE, "a line behind an exception that goes on with it, or what numbers show",
        ("lines", "reading"), failed=True,
    ),
    Kind(
        FAILURE, "another line that tells of a failure",
        ("lines", "ranks", "stacks"), failed=True,
    ),
    Kind(WARNING, "a warning", ("lines",)),
    Kind(FRAME, "a frame of a traceback, or the code under it", ("lines",)),
    Kind(
        TRACE, "the head of a traceback, or a line whose words don't count",
        ("lines", "judge", "reading"),
    ),
    Kind(PLAIN, "anything else", ("lines", "judge", "stacks"), quiet=True),
    Kind(
        TOLD, "what a person says, or what a log complains of at its end",
        ("judge", "reading"), apart=True,
    ),
    Kind(
        ASIDE, "a line of a long log that is far from a failure, or a failure that was survived",
        ("judge",), quiet=True, apart=True,
    ),
    Kind(
        CONSEQUENCE, "what a rank says, or a launcher says of it, because another rank is gone",
        ("judge", "stacks"),
    ),
    Kind(
        ROUTINE, "what a long log says over and over, with other numbers",
        ("judge",), quiet=True, apart=True,
    ),
)  # fmt: skip

KINDS = frozenset(kind.name for kind in TABLE)
FAILED = tuple(kind.name for kind in TABLE if kind.failed)
QUIET = tuple(kind.name for kind in TABLE if kind.quiet)
APART = tuple(kind.name for kind in TABLE if kind.apart)
SPOKEN = (PLAIN, MESSAGE, *APART)  # what a program says besides failures and warnings
