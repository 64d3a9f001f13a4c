"""Edit JSON with comments and trailing commas in place.

A change is a list of pieces, (offset, text), to insert into the old text. Nothing else changes, so
removing the same pieces from the new text restores the old one. No file is read or written here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .errors import BadText

Path = tuple[str | int, ...]  # keys and indexes, from the top of the text
Piece = tuple[int, str]  # an offset in the text, and what to insert there

DEEPEST = 100  # levels: the reader calls itself for each
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_BLANKS = re.compile(r"[ \t\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_REMARK = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/)[ \t\r]*")
_WORD = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


@dataclass
class Node:
    """A value, which is `text[start:end]`. For an object or a list, also its members."""

    value: Any
    start: int
    end: int
    children: dict[str | int, Node] = field(default_factory=dict)  # by key or index
    # By key or index, the offset of the member; in an object, that of its key.
    starts: dict[str | int, int] = field(default_factory=dict)
    comma: bool = False  # whether a comma follows the last member
    after: int = 0  # offset behind the last member and its comma

    def add(self, key: str | int, start: int, child: Node) -> None:
        """Add a member at the end."""
        self.children[key], self.starts[key], self.after = child, start, child.end
        if isinstance(self.value, dict):
            self.value[key] = child.value
        else:
            self.value.append(child.value)


def parse(text: str) -> Node:
    """The tree of values in a text. Raises BadText with line and column."""
    node = _value(text, _skip(text, 1 if text.startswith("\ufeff") else 0), 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise _bad(text, end, "the end of the file")
    return node


def type_name(value: object) -> str:
    """The name of a value's JSON type, with its article."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _skip(text: str, at: int, pattern: re.Pattern = _BLANK) -> int:
    """The offset behind what the pattern matches here: blanks and comments."""
    match = pattern.match(text, at)
    return match.end() if match else at


def _bad(text: str, at: int, expected: str) -> BadText:
    actual = repr(text[at]) if at < len(text) else "the end of the file"
    return BadText(f"{_place(text, at)}: expected {expected} instead of {actual}")


def _place(text: str, at: int) -> str:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise _bad(text, at, f"at most {DEEPEST} levels")
    opening = text[at : at + 1]
    if opening and opening in "{[":
        return _container(text, at, depth)
    match = (_STRING if opening == '"' else _WORD).match(text, at)
    if not match:
        raise _bad(text, at, "a JSON value")
    return Node(_decoded(text, match), at, match.end())


def _decoded(text: str, match: re.Match) -> Any:
    try:
        return json.loads(match[0])
    except ValueError:
        raise _bad(text, match.start(), "a JSON value") from None


def _container(text: str, at: int, depth: int) -> Node:
    keyed = text[at] == "{"
    close = "}" if keyed else "]"
    node = Node({} if keyed else [], at, at, after=at + 1)
    at = _skip(text, at + 1)
    while text[at : at + 1] != close:
        if node.children and not node.comma:
            raise _bad(text, at, f"',' or '{close}'")
        start, key = at, len(node.children)
        if keyed:
            key, at = _key(text, at, node)
        child = _value(text, at, depth + 1)
        node.add(key, start, child)
        at = _skip(text, child.end)
        node.comma = text[at : at + 1] == ","
        if node.comma:
            node.after = at + 1
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def _key(text: str, at: int, node: Node) -> tuple[str, int]:
    """The key at this offset, and the offset of its value."""
    match = _STRING.match(text, at)
    if not match:
        raise _bad(text, at, "a key in double quotes")
    key, colon = _decoded(text, match), _skip(text, match.end())
    if key in node.children:
        raise BadText(f"{_place(text, at)}: the key {key[:40]!r} is there twice")
    if text[colon : colon + 1] != ":":
        raise _bad(text, colon, "':'")
    return key, _skip(text, colon + 1)


def find(root: Node, path: Path) -> Node | None:
    """The node at a path of keys and indexes; None if there is none."""
    node: Node | None = root
    for key in path:
        node = node.children.get(key) if node else None
    return node


def insertion(text: str, path: Path, value: Any, append: bool = False) -> list[Piece]:
    """The pieces that put `value` at `path`, or with `append` at the end of the list there.

    Missing objects on the way are made. Raises BadText if something else is in the way.
    """
    node, rest = parse(text), list(path)
    parents = 0
    while rest and isinstance(node.value, dict) and rest[0] in node.children:
        node, parents = node.children[rest.pop(0)], parents + 1
    expected = dict if rest or not append else list
    if not isinstance(node.value, expected) or (not rest and not append):
        place = ".".join(map(str, path[:parents])) or "the top"
        raise BadText(
            f"{place} is {type_name(node.value)} instead of {type_name(expected())}, "
            "so nothing can be added"
        )
    wrapped = [value] if append and rest else value
    for key in reversed(rest[1:]):
        wrapped = {key: wrapped}
    return _pieces(text, node, rest[0] if rest else None, wrapped, parents + 1)


def _pieces(text: str, node: Node, key: str | int | None, value: Any, depth: int) -> list[Piece]:
    """The pieces that add a last member to `node`, written as its neighbours are.

    `key` is None for an item of a list. `depth` is the level of the new member.
    """
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    if node.children and "\n" not in text[node.start : node.end]:
        member = name + json.dumps(value, ensure_ascii=False)
        return [(node.after, f" {member}" if node.comma else f", {member}")]
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _indent_unit(text)
    indent = _indent_of_members(text, node, unit * depth)
    member = name + json.dumps(value, ensure_ascii=False, indent=unit)
    line = newline + indent + member.replace("\n", newline + indent)
    if node.children:
        return _below_the_last(text, node, line)
    inside = text[node.start + 1 : node.end - 1]
    closing = "" if "\n" in inside else newline + unit * (depth - 1)
    return [(node.start + 1 + len(inside.rstrip()), line + closing)]


def _indent_unit(text: str) -> str:
    match = re.search(r"\n([ \t]+)\S", text)
    return match[1] if match and len(match[1]) <= 8 else "  "


def _indent_of_members(text: str, node: Node, default: str) -> str:
    """What stands before the first member, if that begins a line."""
    for first in node.starts.values():
        before = text[text.rfind("\n", 0, first) + 1 : first]
        return default if before.strip() else before
    return default


def _below_the_last(text: str, node: Node, line: str) -> list[Piece]:
    """The pieces that put a line behind the last member and its comma."""
    line_end = text.find("\n", node.after)
    rest_of_line = text[node.after : line_end] if line_end >= 0 else ""
    if _REMARK.fullmatch(rest_of_line) and line_end < node.end:
        # The comment belongs to the line that it is on: "a": 1 // why
        at = node.after + len(rest_of_line.rstrip())
        return [(at, line)] if node.comma else [(node.after, ","), (at, line)]
    return [(node.after, line if node.comma else "," + line)]


def without(text: str, path: Path) -> str:
    """The text without the member at `path`, its comma and its line; comments stay.

    Raises BadText if nothing is at `path`.
    """
    parent = find(parse(text), path[:-1])
    if not parent or path[-1] not in parent.children:
        raise BadText(f"nothing is at {'.'.join(map(str, path))}")
    order = list(parent.children)
    place = order.index(path[-1])
    start, end = parent.starts[path[-1]], parent.children[path[-1]].end
    comma = _skip(text, end)
    if text[comma] == "," and not text[end:comma].strip():
        cuts = [_line(text, start, comma + 1)]
    elif text[comma] == ",":  # a comment before it stays: "a": 1 /* why */,
        cuts = [(start, end), (comma, comma + 1)]
    elif place:  # the last of several: the comma of the one before goes too
        comma = _skip(text, parent.children[order[place - 1]].end)
        cuts = [(comma, comma + 1), _line(text, start, end)]
    else:
        cuts = [_line(text, start, end)]
    kept, at = [], parent.start + 1
    for start, end in cuts:
        kept.append(text[at:start])
        at = end
    inside = "".join((*kept, text[at : parent.end - 1]))
    return text[: parent.start + 1] + (inside if inside.strip() else "") + text[parent.end - 1 :]


def _line(text: str, start: int, end: int) -> tuple[int, int]:
    """`text[start:end]` with its line if nothing else is on it, otherwise with blanks beside it."""
    before = len(text[:start].rstrip(" \t"))
    after = _skip(text, end, _BLANKS)
    if text[before - 1 : before] != "\n":
        return before, end
    return (before, after + 1) if text[after : after + 1] == "\n" else (start, after)
