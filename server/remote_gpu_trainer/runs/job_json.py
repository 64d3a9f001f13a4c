"""Read JSON into an object, each part with its line, and tell what is wrong in plain words."""

from __future__ import annotations

import json
import re
from typing import Any

from .written import MOST_DEPTH, TOO_DEEP, Broken, FieldPath, number_as_written

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
# What json says of a broken text, and what a person reads.
_PROBLEMS = {
    "Expecting property name": "a name in double quotes is missing; write \"name\": behind '{' or "
    "',', and no comma behind the last field",
    "Illegal trailing comma": "a comma stands behind the last part; remove it",
    "Expecting ':'": "a ':' is missing behind a name; write \"name\": value",
    "Expecting ','": "a comma is missing, or a bracket isn't closed; write ',' between two parts",
    "Expecting value": "a value is missing; write a number, true, false, null or a text in double "
    "quotes",
    "Unterminated string": "a text isn't closed; write \" behind it, in the same line",
    "Invalid control character": "a text holds a line break or a tab; write \\n or \\t",
    "Invalid \\": "a backslash begins an escape; write \\\\ for a backslash itself",
    "Extra data": "something stands behind the end of the job; remove it",
}


def read_json(text: str) -> tuple[Any, dict[FieldPath, int]]:
    """Return the object in a text, and the line of each of its parts. Raises Broken."""
    _refuse_depth_and_nan(text)
    try:
        value = json.loads(
            text,
            parse_int=lambda digits: number_as_written(digits, int),
            parse_float=lambda digits: number_as_written(digits, float),
        )
    except json.JSONDecodeError as error:
        problem = next(
            (words for begins, words in _PROBLEMS.items() if error.msg.startswith(begins)),
            'this is no valid JSON; write {"name": value, …}',
        )
        raise Broken(problem, error.lineno, error.colno) from None
    return value, _lines(text)


def _refuse_depth_and_nan(text: str) -> None:
    """Raise Broken where brackets lie too deep, or a number is none."""
    depth = 0
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "{[":
            depth += 1
            if depth > MOST_DEPTH:
                raise Broken(TOO_DEEP, *_at(text, token.start()))
        elif word in "}]":
            depth -= 1
        elif word in ("NaN", "Infinity", "-Infinity"):
            problem = f"{word} is no number of JSON; write a finite one, or leave the field out"
            raise Broken(problem, *_at(text, token.start()))


def _at(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1


def _lines(text: str) -> dict[FieldPath, int]:
    """Return the line of each part of a valid text. Raises Broken for a name that stands twice."""
    lines: dict[FieldPath, int] = {}
    path: list[str | int] = []  # of the part that comes next, or has just ended
    in_list: list[bool] = []
    is_name = False
    line, before = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", before, token.start())
        before, word = token.start(), token[0]
        if word in "}]":
            in_list.pop()
            path.pop()
            is_name = False
        elif word == ",":
            if in_list[-1]:
                path[-1] = int(path[-1]) + 1
            else:
                is_name = True
        elif word == ":":
            is_name = False
        elif is_name:
            path[-1] = str(json.loads(word, strict=False))
            here = tuple(path)
            if here in lines:
                first = lines[here]
                where = f"in lines {first} and {line}" if first != line else f"twice in line {line}"
                raise Broken(f"{str(path[-1])[:60]!r} stands {where}; leave one out", line)
            lines[here] = line
        else:
            lines.setdefault(tuple(path), line)
            if word in "{[":
                in_list.append(word == "[")
                path.append(0 if word == "[" else "")
                is_name = word == "{"
    return lines
