"""The plain texts in a regular expression, read off without compiling it: a look-up needs few of the expressions, and the texts of all.

Limits: what stands in a group, a set or a repeat is left out, and an expression with branches at its top has no text at all.
"""

from __future__ import annotations

import re

_ATOM = re.compile(
    r"(?P<run>[^\\[\](){}|.^$*+?]+(?![*+?{]))|"
    r"(?:(?P<mark>[|()])|\\(?P<escaped>[^\w\s])|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[.^$]|(?P<plain>.))(?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)?",
    re.S,
)
_VERBOSE = re.compile(r"\(\?[a-zA-Z]*x")  # blanks mean nothing in such an expression


def runs(pattern: str) -> list[str]:
    """Texts, in order, that all hold together in whatever the pattern matches."""
    if _VERBOSE.search(pattern):
        return [""]
    found, run, depth = [], "", 0
    for atom in _ATOM.finditer(pattern):
        whole, mark, escaped, plain, repeat = atom.groups()
        text = whole or ("" if repeat else escaped or plain)
        if text and not depth:
            run += text
            continue
        if run:
            found.append(run)
            run = ""
        if mark == "|" and not depth:
            return [""]
        depth += (mark == "(") - (mark == ")")
    return [*found, run]
