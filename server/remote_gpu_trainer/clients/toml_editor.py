"""Edit TOML in place with tomlkit: add a server's table at the end, and remove it again."""

from __future__ import annotations

import re
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Item, Table

from .errors import BadText

Path = tuple[str, ...]  # the name of the table of all servers, and the name of one
_BLANK_LINE = re.compile(r"[ \t]*\r?\n")


def parse(text: str) -> tomlkit.TOMLDocument:
    """The document of a TOML text. Raises BadText."""
    try:
        return tomlkit.parse(text)
    except (TOMLKitError, ValueError, RecursionError) as error:
        message = str(error)
        if "\0" not in text:  # tomlkit reads past the end, and calls what it finds there \x00
            message = message.replace("character: '\\x00'", "end of the file")
        raise BadText(f"not TOML ({message})") from None


def insertion(text: str, path: Path, value: Any) -> list[tuple[int, str]]:
    """The piece, (offset, text), that adds the table `path` at the end, behind a blank line.

    At the end, it can't separate a comment from what the comment is about. Raises BadText.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    servers = tomlkit.table(is_super_table=True)
    servers[path[1]] = value
    table = tomlkit.dumps({path[0]: servers}).replace("\n", newline)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    try:
        tables = isinstance(parse(text).get(path[0], {}), dict)
        parse(text + gap + table)
    except BadText:
        tables = False
    if not tables:
        raise BadText(f"{path[0]} isn't written as tables; write each server as [{path[0]}.NAME]")
    return [(len(text), gap + table)]


def without(text: str, path: Path) -> str:
    """The text without the table `path` and the blank line before it. Raises BadText.

    Comments and blank lines after the table's last value are the user's and stay: what stands
    above the next header belongs to it.
    """
    document = parse(text)
    if tomlkit.dumps(document) != text:
        raise BadText("a layout that tomlkit doesn't reproduce")
    gone = "\0\n"  # marks the place; no TOML text holds it
    for key, servers in document.body:
        if key and key.key == path[0] and isinstance(servers, Table):
            body = servers.value.body
            for place, (name, server) in enumerate(body):
                if name and name.key == path[1]:
                    body[place] = (None, tomlkit.ws(gone + _tail(server)))
    kept, *rest = tomlkit.dumps(document).split(gone)
    for part in rest:
        last = kept.rfind("\n", 0, -1) + 1
        if _BLANK_LINE.fullmatch(kept, last):
            kept = kept[:last]
        elif not kept and (blank := _BLANK_LINE.match(part)):
            part = part[blank.end() :]
        kept += part
    return kept


def _tail(item: Item) -> str:
    """The comments and blank lines after the last value of a table."""
    tail = ""
    for key, child in reversed(item.value.body if isinstance(item, Table) else []):
        if key:
            return _tail(child) + tail
        tail = child.as_string() + tail
    return tail
