"""A table of a server in a TOML configuration: put at the end of the text, or taken out of it. All else stays byte for byte."""

from __future__ import annotations

import json
import re
import sys

from .config_json import BadText

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_HEADER = re.compile(r"^[ \t]*\[", re.M)


def read(text: str) -> dict:
    """What a text holds. Raises BadText."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadText(f"found {error}, expected TOML") from None


def added(text: str, path: tuple[str, str], value: dict) -> list[tuple[int, str]]:
    """The piece that adds the table `path`. Raises BadText where the text holds it in a form that a table at the end can't add to."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [
        f"[{path[0]}.{path[1]}]",
        *(f"{key} = {_literal(item)}" for key, item in value.items()),
        "",
    ]
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    piece = (len(text), gap + newline.join(lines))
    try:
        read(text + piece[1])
    except BadText:
        raise BadText(
            f"found {path[0]} as an inline table or closed by dots, expected tables such as [{path[0]}.NAME]; write it so"
        ) from None
    return [piece]


def _literal(item: object) -> str:
    """JSON's strings, booleans and arrays of strings are TOML's as well; DEL is the one character that TOML wants escaped and JSON doesn't."""
    return json.dumps(item, ensure_ascii=False).replace("\x7f", "\\u007f")


def removed(text: str, path: tuple[str, str]) -> str:
    """The text without the table `path` and the tables below it; remarks behind them stay. Raises BadText when it isn't there in that form."""
    name = rf"(?:{re.escape(path[0])}|\"{re.escape(path[0])}\")[ \t]*\.[ \t]*(?:{re.escape(path[1])}|\"{re.escape(path[1])}\"|'{re.escape(path[1])}')"
    ours = re.compile(rf"^[ \t]*\[[ \t]*{name}[ \t]*[\].]", re.M)
    newline = "\r\n" if "\r\n" in text else "\n"
    expected = read(text)
    expected.get(path[0], {}).pop(path[1], None)
    if not expected.get(path[0], True):
        del expected[path[0]]
    while found := ours.search(text):
        following = _HEADER.search(text, found.end())
        end = following.start() if following else len(text)
        lines = text[found.start() : end].split("\n")
        size = len(lines)
        while lines[size - 1].strip()[:1] in (
            "",
            "#",
        ):  # what stands above the next header belongs to it
            size -= 1
        kept = text[: found.start()].rstrip("\r\n")
        rest = ("\n".join(lines[size:]) + text[end:]).lstrip("\r\n")
        text = kept + ("" if not kept else newline * 2 if rest else newline) + rest
    after = read(text)
    if not after.get(path[0], True):
        del after[path[0]]
    if after != expected:
        raise BadText(
            f"found {'.'.join(path)} in a form that can't be taken out safely; remove it by hand"
        )
    return text
