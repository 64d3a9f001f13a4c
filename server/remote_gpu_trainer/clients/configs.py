"""Where each client keeps its servers, skills and hooks, and what this package adds there.

Below that: JSON with comments and trailing commas, edited in place. A change is a list of pieces,
(offset, text), to insert into the old text. Nothing else changes, so removing the same pieces from
the new text restores the old one. No file is read or written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

NAME = "remote-gpu-trainer"
CLIENTS = ("claude-code", "opencode", "codex", "gemini", "cursor", "skill")
WITH_HOOKS = ("claude-code", "opencode")
_AFTER = "Bash|BashOutput|TaskOutput|Read"
_HOOK_EVENTS = {"PreToolUse": "Bash", "PostToolUse": _AFTER, "PostToolUseFailure": _AFTER}

DEEPEST = 100
_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_BLANKS = re.compile(r"[ \t\r]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_REMARK = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/)[ \t\r]*")
_WORD = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")


@dataclass(frozen=True)
class Edit:
    """One value in one file: at `path`, or with `append` as an item of the list at `path`."""

    file: Path
    path: tuple[str, ...]
    value: object
    append: bool = False

    @property
    def toml(self) -> bool:
        """Whether the file is TOML rather than JSON."""
        return self.file.suffix == ".toml"


@dataclass(frozen=True)
class Wanted:
    """What one client gets: values in its files, the skill's folder, and a note for the user."""

    edits: tuple[Edit, ...]
    skill: Path
    note: str = ""


def wanted(
    client: str,
    home: Path,
    env: Mapping[str, str],
    project: Path | None,
    command: list[str],
    hooks: bool,
    exists=Path.exists,
) -> Wanted:
    """What `client` gets, for the user or for one project.

    `exists` tells which of two possible files exists.
    """
    base = project or home
    parts = {"command": command[0], "args": command[1:]}
    if client == "skill":
        return Wanted((), base / ".agents" / "skills" / NAME)
    if client == "claude-code":
        settings = (
            base / ".claude"
            if project or not env.get("CLAUDE_CONFIG_DIR")
            else Path(env["CLAUDE_CONFIG_DIR"])
        )
        file = (
            project / ".mcp.json"
            if project
            else (settings if env.get("CLAUDE_CONFIG_DIR") else home) / ".claude.json"
        )
        skill = settings / "skills" / NAME
        edits = [Edit(file, ("mcpServers", NAME), {"type": "stdio", **parts})]
        if hooks:
            run = {
                "type": "command",
                "command": f'python3 "{(skill / "hooks" / "suggest.py").as_posix()}"',
                "timeout": 5,
            }
            edits += [
                Edit(
                    settings / "settings.json",
                    ("hooks", event),
                    {"matcher": tools, "hooks": [run]},
                    append=True,
                )
                for event, tools in _HOOK_EVENTS.items()
            ]
        return Wanted(
            tuple(edits),
            skill,
            "Claude Code asks once whether to trust the project's server; "
            "start claude there and answer yes."
            if project
            else "",
        )
    if client == "opencode":
        folder = project or Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        commented = folder / "opencode.jsonc"
        file = commented if exists(commented) else folder / "opencode.json"
        skill = (project / ".opencode" if project else folder) / "skills" / NAME
        edits = [Edit(file, ("mcp", NAME), {"type": "local", "command": command, "enabled": True})]
        if hooks:
            edits.append(
                Edit(
                    file,
                    ("plugin",),
                    (skill / "hooks" / "opencode.js").absolute().as_uri(),
                    append=True,
                )
            )
        return Wanted(
            tuple(edits), skill, "Restart opencode: it reads its configuration only at the start."
        )
    if client == "codex":
        folder = project / ".codex" if project else Path(env.get("CODEX_HOME") or home / ".codex")
        note = (
            "Codex reads the configuration of trusted projects only; "
            "start codex there and answer yes."
            if project
            else ""
        )
        return Wanted(
            (Edit(folder / "config.toml", ("mcp_servers", NAME), parts),),
            base / ".agents" / "skills" / NAME,
            note,
        )
    folder = base / f".{client}"
    file = folder / ("mcp.json" if client == "cursor" else "settings.json")
    note = (
        "Gemini CLI starts servers in trusted folders only; answer yes when it asks."
        if client == "gemini"
        else ""
    )
    return Wanted((Edit(file, ("mcpServers", NAME), parts),), folder / "skills" / NAME, note)


def is_ours(value: object) -> bool:
    """Whether a server's entry starts our server, or an item of a list is one of our hooks."""
    if isinstance(value, str):
        return value.startswith("file:") and value.endswith(f"/{NAME}/hooks/opencode.js")
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("hooks"), list):
        return len(value["hooks"]) == 1 and f"{NAME}/hooks/suggest.py" in json.dumps(value["hooks"])
    command = value.get("command")
    words = (
        command
        if isinstance(command, list)
        else [command, *(value.get("args") if isinstance(value.get("args"), list) else [])]
    )
    return (
        bool(words)
        and words[-1] == "serve"
        and any(NAME in str(word).replace("_", "-") for word in words)
    )


def only_our_keys(value: object, like: object) -> bool:
    """Whether an entry has only our settings, so that replacing it loses nothing."""
    return (
        not isinstance(value, dict)
        or not isinstance(like, dict)
        or set(value) <= set(like) | {"type"}
    )


class BadText(Exception):
    """A text that isn't valid, or has no place for a value. The message says where and why."""


@dataclass
class Node:
    """A value, which is `text[start:end]`. For an object or a list, also its members."""

    value: object
    start: int
    end: int
    children: dict = field(default_factory=dict)  # key or index -> Node
    starts: dict = field(default_factory=dict)  # key or index -> offset of the member with its key
    comma: bool = False  # whether a comma follows the last element
    after: int = 0  # offset behind the last element and its comma


def read(text: str) -> Node:
    """The tree of values in a text. Raises BadText with line and column."""
    node = _value(text, _skip(text, 1 if text.startswith("\ufeff") else 0), 0)
    end = _skip(text, node.end)
    if end != len(text):
        raise _bad(text, end, "the end of the file")
    return node


def named(value: object) -> str:
    """The name of a value's JSON type, with its article."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _skip(text: str, at: int) -> int:
    return _BLANK.match(text, at).end()


def _bad(text: str, at: int, expected: str) -> BadText:
    found = repr(text[at]) if at < len(text) else "the end of the file"
    return BadText(f"{_place(text, at)}: expected {expected} instead of {found}")


def _place(text: str, at: int) -> str:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEEPEST:
        raise _bad(text, at, f"at most {DEEPEST} levels")
    opening = text[at : at + 1]
    if opening and opening in "{[":
        return _container(text, at, depth)
    found = (_STRING if opening == '"' else _WORD).match(text, at)
    if not found:
        raise _bad(text, at, "a JSON value")
    return Node(_decoded(text, found), at, found.end())


def _decoded(text: str, found: re.Match) -> object:
    try:
        return json.loads(found[0])
    except ValueError:
        raise _bad(text, found.start(), "a JSON value") from None


def _container(text: str, at: int, depth: int) -> Node:
    keyed = text[at] == "{"
    close = "}" if keyed else "]"
    node = Node({} if keyed else [], at, at, after=at + 1)
    at = _skip(text, at + 1)
    while text[at : at + 1] != close:
        if node.children and not node.comma:
            raise _bad(text, at, f"',' or '{close}'")
        begin, key = at, len(node.children)
        if keyed:
            found = _STRING.match(text, at)
            if not found:
                raise _bad(text, at, "a key in double quotes")
            key, at = _decoded(text, found), _skip(text, found.end())
            if key in node.children:
                raise BadText(f"{_place(text, begin)}: the key {key[:40]!r} is there twice")
            if text[at : at + 1] != ":":
                raise _bad(text, at, "':'")
            at = _skip(text, at + 1)
        child = _value(text, at, depth + 1)
        node.children[key], node.starts[key] = child, begin
        if keyed:
            node.value[key] = child.value
        else:
            node.value.append(child.value)
        node.after, at = child.end, _skip(text, child.end)
        node.comma = text[at : at + 1] == ","
        if node.comma:
            node.after = at + 1
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def find(root: Node, path: tuple) -> Node | None:
    """The node at a path of keys and indexes; None if there is none."""
    node: Node | None = root
    for key in path:
        node = node.children.get(key) if node else None
    return node


def added(text: str, path: tuple, value: object, append: bool = False) -> list[tuple[int, str]]:
    """The pieces that put `value` at `path`, or with `append` at the end of the list there.

    Missing objects on the way are made. Raises BadText if something else is in the way.
    """
    node, rest = read(text), list(path)
    parents = 0
    while rest and isinstance(node.value, dict) and rest[0] in node.children:
        node, parents = node.children[rest.pop(0)], parents + 1
    expected = dict if rest or not append else list
    if not isinstance(node.value, expected) or (not rest and not append):
        place = ".".join(map(str, path[:parents])) or "the top"
        wanted = named(expected())
        raise BadText(
            f"{place} is {named(node.value)} instead of {wanted}, so nothing can be added"
        )
    wrapped = [value] if append and rest else value
    for key in reversed(rest[1:]):
        wrapped = {key: wrapped}
    return _pieces(text, node, rest[0] if rest else None, wrapped, parents + 1)


def _pieces(
    text: str, node: Node, key: str | None, value: object, depth: int
) -> list[tuple[int, str]]:
    newline = "\r\n" if "\r\n" in text else "\n"
    several_lines = "\n" in text[node.start : node.end] or not node.children
    name = f"{json.dumps(key, ensure_ascii=False)}: " if key is not None else ""
    if not several_lines:
        piece = name + json.dumps(value, ensure_ascii=False)
        return [(node.after, f" {piece}" if node.comma else f", {piece}")]
    unit = _indent_unit(text)
    indent = unit * depth
    if node.children:
        first = next(iter(node.starts.values()))
        before = text[text.rfind("\n", 0, first) + 1 : first]
        indent = before if not before.strip() else indent
    body = (name + json.dumps(value, ensure_ascii=False, indent=unit)).replace(
        "\n", newline + indent
    )
    line = newline + indent + body
    if not node.children:
        inside = text[node.start + 1 : node.end - 1]
        closing = "" if "\n" in inside else newline + unit * (depth - 1)
        return [(node.start + 1 + len(inside.rstrip()), line + closing)]
    last_line_end = text.find("\n", node.after)
    rest_of_line = text[node.after : last_line_end] if last_line_end >= 0 else ""
    if _REMARK.fullmatch(rest_of_line) and last_line_end < node.end:
        # the comment belongs to the line that it is on
        at = node.after + len(rest_of_line.rstrip())
        return [(at, line)] if node.comma else [(node.after, ","), (at, line)]
    return [(node.after, line if node.comma else "," + line)]


def _indent_unit(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found and len(found[1]) <= 8 else "  "


def removed(text: str, path: tuple) -> str:
    """The text without the member at `path`, its comma and its line; comments stay.

    Raises BadText if nothing is at `path`.
    """
    parent = find(read(text), path[:-1])
    if not parent or path[-1] not in parent.children:
        raise BadText(f"nothing is at {'.'.join(map(str, path))}")
    order = list(parent.children)
    place = order.index(path[-1])
    start, end = parent.starts[path[-1]], parent.children[path[-1]].end
    comma = _skip(text, end)
    if text[comma] == "," and not text[end:comma].strip():
        cuts = [_line(text, start, comma + 1)]
    elif text[comma] == ",":
        cuts = [(start, end), (comma, comma + 1)]
    elif place:
        comma = _skip(text, parent.children[order[place - 1]].end)
        cuts = [(comma, comma + 1), _line(text, start, end)]
    else:
        cuts = [_line(text, start, end)]
    left, at = [], parent.start + 1
    for start, end in cuts:
        left.append(text[at:start])
        at = end
    inside = "".join((*left, text[at : parent.end - 1]))
    return text[: parent.start + 1] + (inside if inside.strip() else "") + text[parent.end - 1 :]


def _line(text: str, start: int, end: int) -> tuple[int, int]:
    """`text[start:end]` with its line if nothing else is on it, otherwise with blanks beside it."""
    before = len(text[:start].rstrip(" \t"))
    after = _BLANKS.match(text, end).end()
    if text[before - 1 : before] != "\n":
        return before, end
    return (before, after + 1) if text[after : after + 1] == "\n" else (start, after)
