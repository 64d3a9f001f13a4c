"""Bash text from values, by templates whose environment quotes each value that goes in.

A template can't forget to quote: whatever an expression gives is quoted as one word of bash. Two
kinds of text are exempt: a `Static` one, such as a whole script, and what the filter `bare` has let
through because no quoting would change it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).resolve().parent / "templates"
_CONTROL = re.compile(r"[\x01-\x08\x0b-\x1f\x7f]")
_BARE = re.compile(r"(?:~/)?[A-Za-z0-9_@%+=:,./][A-Za-z0-9_@%+=:,./-]*\Z")


class Static(str):
    """A text that stands in a template as it is."""


class _Bare(str):
    """A word that is the same with and without quotes."""


def quoted(value: object) -> str:
    """What an expression of a template becomes: one word of bash.

    Raises ValueError for a NUL, which no shell can hold, and TypeError for what is no value.
    """
    if isinstance(value, (Static, _Bare, jinja2.StrictUndefined)):
        return str(value)  # of an undefined one it raises UndefinedError
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return _quote(str(value))
    raise TypeError(f"a value of type {type(value).__name__} in a template; give text or a number")


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
        loader=jinja2.FileSystemLoader(TEMPLATES),
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


def _quote(value: str) -> str:
    if "\0" in value:
        raise ValueError("a value has a NUL character, which no shell can hold; leave it out")
    if _CONTROL.search(value):
        # As an escape: YAML would have to put a whole script that holds one into double quotes.
        inner = value.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", inner) + "'"
    return shlex.quote(value)
