"""Bash text from values, by templates whose environment quotes each value that goes in.

A template can't forget to quote: whatever an expression gives is quoted as one word of bash, and a
list as an array. Two kinds of text are exempt: a `Static` part, which holds no value, and what the
filter `bare` has let through because no quoting would change it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache, lru_cache

import jinja2

from . import script_parts
from .script_parts import Static, Value

_NAME = re.compile(r"RGT_[A-Z][A-Z_]*\Z")
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")
_BARE = re.compile(r"(?:~/)?[A-Za-z0-9_@%+=:,./][A-Za-z0-9_@%+=:,./-]*\Z")
_VARIABLE = re.compile(r"\bRGT_[A-Z][A-Z_]*")
# What reads the variables of a script from outside.
_READ_OUTSIDE = frozenset({"RGT_JOB_SHA", "RGT_PROFILE", "RGT_TARGET", "RGT_VERSION"})


class _Bare(str):
    """A word that is the same with and without quotes."""


def quoted(value: object) -> str:
    """What an expression of a template becomes: one word of bash, or an array.

    Raises ValueError for a NUL, which no shell can hold, and TypeError for what is no value.
    """
    if isinstance(value, (Static, _Bare, jinja2.StrictUndefined)):
        return str(value)  # of an undefined one it raises UndefinedError
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return _quote(str(value))
    if isinstance(value, (list, tuple)):
        return f"({' '.join(_quote(str(item)) for item in value)})"
    raise TypeError(
        f"a value of type {type(value).__name__} in a template; give text, a number or a list"
    )


def bare(value: object) -> str:
    """A word for a place inside quotes. Raises ValueError unless quoting would change nothing."""
    text = str(value)
    if not _BARE.match(text):
        raise ValueError(
            f"{text[:80]!r} must be of letters, digits and _@%+=:,./-, with no '-' first"
        )
    return _Bare(text)


def environment(quote: Callable[[object], str] = quoted) -> jinja2.Environment:
    """The environment of all templates that give bash."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(script_parts.TEMPLATES),
        undefined=jinja2.StrictUndefined,
        finalize=quote,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["bare"] = bare
    return made


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return environment()


def filled(template: str, **values: object) -> str:
    """A template's text with these values. Raises ValueError for a value that no shell can hold."""
    return _environment().get_template(template).render(values)


def blocks(template: str, **values: object) -> dict[str, str]:
    """The text of each block of a template, by the block's name."""
    found = _environment().get_template(template)
    context = found.new_context(values)
    return {name: "".join(block(context)).strip("\n") for name, block in found.blocks.items()}


def assigned(values: Mapping[str, Value]) -> list[tuple[str, Value]]:
    """(name, value) in alphabetical order, so that equal values give equal bytes.

    Raises ValueError for a name that isn't one of the runner's.
    """
    for name in values:
        if not _NAME.match(name):
            raise ValueError(f"wrong variable name {name!r}; use RGT_ and capitals")
    return [
        (name, value if isinstance(value, (str, int, float)) else list(value))
        for name, value in sorted(values.items())
    ]


def assignments(values: Mapping[str, Value]) -> str:
    """One line of bash for each value: a list becomes an array, anything else a string."""
    return filled("assignments.j2", values=assigned(values))


def script(values: Mapping[str, Value], parts: list[Static] | None = None) -> str:
    """A whole script: what it is, the values, the parts that they need.

    Values that no part reads are left out. `parts` stands in for the runner's own.
    """
    chosen = script_parts.parts(values) if parts is None else parts
    read = set(_READ_OUTSIDE).union(*map(_variables, [*chosen, *script_parts.engines()]))
    used = {name: value for name, value in values.items() if name in read or parts is not None}
    return filled("run.sh.j2", values=assigned(used), parts=chosen)


@cache
def _variables(part: str) -> frozenset[str]:
    return frozenset(_VARIABLE.findall(part))


def _quote(value: str) -> str:
    if "\0" in value:
        raise ValueError("a value has a NUL character, which no shell can hold; leave it out")
    if _CONTROL.search(value):
        # As an escape: YAML would have to put a whole script that holds one into double quotes.
        inner = value.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", inner) + "'"
    return shlex.quote(value)
