"""Checks of the values that reach an engine's own files, and the one place where an engine's own bash is put into a script.

Every refusal is a ValueError with the field, what was found, what was expected, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..script_parts import Value, part

SHEBANG = "#!/usr/bin/env bash\n"
MAIN = 'rgt_main "$@"\n'
# An engine tells only at the start which host is node 0.
RENDEZVOUS = part("engines/rendezvous.sh")

# A scheduler takes 0 for "finished". A run that was stopped after a save ends with 75 instead, whatever its program said, so that it is started
# again; not one that its user or its deadline ended.
AGAIN = 75
STOPPED = part("engines/stopped.sh")


def refuse(field: str, found: object, expected: str, do: str) -> ValueError:
    """The error for a field, on one line. A long value is cut."""
    shown = repr(found)
    return ValueError(
        f"{field}: found {shown if len(shown) <= 80 else shown[:77] + '...'}, expected {expected}; {do}"
    )


def matched(field: str, value: object, pattern: str, expected: str, do: str) -> None:
    """Raises ValueError unless the value is a text that the pattern matches from end to end."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise refuse(field, value, expected, do)


def whole(field: str, value: object, low: int, high: int, do: str) -> None:
    """Raises ValueError unless the value is a whole number from low to high. True and False are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(field, value, f"a whole number from {low} to {high}", do)


def hours(field: str, value: object, do: str) -> None:
    """Raises ValueError unless the value is a number of hours, above 0 and at most a year, or None."""
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 8784
    ):
        raise refuse(field, value, "hours, more than 0 and at most 8784", do)


def same(field: str, value: object, values: Mapping[str, Value], variable: str) -> None:
    """Raises ValueError when the script's variable says something else than the engine's option."""
    if str(values.get(variable, value)) != str(value):
        raise refuse(
            field, value, f"{values[variable]!r}, which is {variable}", "give both the same value"
        )


def encodable(field: str, value: str) -> int:
    """The value's length in bytes. Raises ValueError for a NUL and for half a character, which UTF-8 can't hold."""
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise refuse(
            field,
            value[error.start : error.end],
            "text that UTF-8 can hold",
            "write the whole character",
        ) from None
    if "\0" in value:
        raise refuse(field, "\0", "text without NUL", "take it out: no shell can hold it")
    return size


def before_main(script: str, lines: str) -> str:
    """The script with an engine's bash between its functions and its last line.

    Raises ValueError when the script isn't one of ours from its first line to its last, or holds what no text file can.
    """
    if not script.startswith(SHEBANG) or not script.endswith("\n" + MAIN):
        raise refuse(
            "script",
            script[-40:],
            f"a script from {SHEBANG.strip()} to {MAIN.strip()}",
            "give the text that shell_text.script returns",
        )
    encodable("script", script)
    return script[: -len(MAIN)] + lines + MAIN
