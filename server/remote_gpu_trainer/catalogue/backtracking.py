"""Regular expressions whose form may make them backtrack without end."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser  # pyright: ignore[reportAttributeAccessIssue]: private, without a stub
else:
    import sre_parse as _parser


_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def stalls(pattern: str) -> str:
    """Return what could make a regular expression backtrack without end, or ''.

    The rule is strict and refuses a few harmless expressions as well.
    """
    tree = _parser.parse(pattern)
    trouble = _trouble_in(tree, inside_repeat=False)
    if trouble:
        return trouble
    return "more than two unbounded repeats" if _unbounded_repeats(tree) > 2 else ""


def _trouble_in(tree: Any, inside_repeat: bool) -> str:
    """Name a repeat inside a repeat, or a reference to a group, in a parsed expression.

    Return '' if it has neither.
    """
    for operator, value in tree:
        if str(operator) in _REPEATS:
            low, high, inner = value
            if high != low and inside_repeat:
                return "a repeat inside a repeat"
            if trouble := _trouble_in(inner, inside_repeat or high > 1):
                return trouble
            continue
        if str(operator).startswith("GROUPREF"):
            return "a reference to a group"
        for inner in _subexpressions(str(operator), value):
            if trouble := _trouble_in(inner, inside_repeat):
                return trouble
    return ""


def _unbounded_repeats(tree: Any) -> int:
    """Count the repeats without an upper limit, or with one of 1000 or more.

    Repeats of digits don't count, because numbers in a log are short.
    """
    count = 0
    for operator, value in tree:
        if str(operator) in _REPEATS:
            low, high, inner = value
            count += high >= 1000 and high != low and "CATEGORY_DIGIT" not in str(inner)
            count += _unbounded_repeats(inner)
        else:
            count += sum(map(_unbounded_repeats, _subexpressions(str(operator), value)))
    return count


def _subexpressions(operator: str, value: Any) -> list:
    """Return the parsed expressions inside a branch, a group or a lookaround."""
    if operator == "BRANCH":
        return value[1]
    if operator == "SUBPATTERN":
        return [value[3]]
    return [value[1]] if operator in ("ASSERT", "ASSERT_NOT") else []
