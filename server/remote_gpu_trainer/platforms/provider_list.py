"""Whether a box is still in the provider's list. Pure.

A box counts as gone only when its own id was looked for, in something that reads as a whole list: JSON that holds one, a table with its header, or a
sentence that says there is none. Anything else proves nothing: what an expired key, a missing program or a cut page prints is never a list.
Looking for an address alone proves nothing either: many lists hold none.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass

from ..text.masking import ANSI, shown

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{2,120}\Z")
_NONE = re.compile(
    r"(?:no (?:active |running )?(?:sessions|instances|machines|pods|containers|jobs|resources|kernels)\b.{0,60}|listed 0 items\.?)\Z",
    re.I,
)
_HEADER = re.compile(
    r"#|id|name|.{0,20}[ _]?id|instance.{0,12}|job.{0,12}|status|state|machine.{0,12}|zone|gpus?|pod|node.{0,12}|ref",
    re.I,
)
_CELLS = re.compile(r"\s{2,}|\t+|\s*[|│┃]\s*")
_MORE = ("nextToken", "NextToken", "next_token", "nextPageToken", "next_page_token")
_CUT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.:/-]{2,120})(?:…|\.{3})")
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Listed:
    """gone: True, False, or None when it can't be told; `text` says why."""

    gone: bool | None
    text: str


def decoded(data: bytes) -> str:
    """The text of a list, by its byte order mark or as UTF-8; what isn't text comes back with a NUL, which no list holds."""
    try:
        return data.decode(next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8"))
    except UnicodeDecodeError:
        return "\0"


def listed(text: str, ids: list[str], address: str = "") -> Listed:
    """Whether a box is in a provider's list. `ids`: the instance's id or name there; `address`: its host and port, which can only show that it is there."""
    text = ANSI.sub("", text)
    for one in ids:
        if not _ID.match(one):
            return Listed(
                None, f"found the id {shown(one, 60)!r}, expected letters, digits and -_.:/"
            )
    host = address.rpartition(":")[0]
    for one in (*ids, *([host] if host and host not in ("127.0.0.1", "localhost") else [])):
        place = re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(one)}(?![A-Za-z0-9_-])", text, re.I)
        if place:
            line = shown(text[text.rfind("\n", 0, place.start()) + 1 :].split("\n", 1)[0], 160)
            return Listed(
                False,
                f"found {one} in the list ({line}), expected it gone; stopped boxes are listed too, and may be billed",
            )
    if not text.strip():
        return Listed(
            None,
            "found an empty text, expected the provider's list; do: run the listing command again and look at its errors",
        )
    if not ids:
        return Listed(
            None,
            "found no id to look for, expected --id with the instance's id; a list without the box's address proves nothing",
        )
    why = _no_list(text) or _cut(text, ids)
    return (
        Listed(None, why)
        if why
        else Listed(True, f"{', '.join(ids)} isn't in the list of {len(text.splitlines())} lines")
    )


def _no_list(text: str) -> str:
    """Why a text isn't a whole list; '' when it is one."""
    start = shown(text.strip(), 120)
    if "\0" in text:
        return "found bytes that aren't text, expected the provider's list; do: save it as UTF-8"
    try:
        read = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        rows = [line.strip() for line in text.splitlines() if line.strip()]
        if any(_NONE.match(row) for row in rows) or _header(rows):
            return ""
        return f"found no list ({start}), expected the provider's list as JSON, or a table with its header"
    if isinstance(read, dict) and any(read.get(name) for name in _MORE):
        return "found the first page of a longer list, expected all of it; do: ask for every page"
    if isinstance(read, list) or (
        isinstance(read, dict)
        and any(isinstance(value, list) for value in _within(read))
        and not read.get("error")
    ):
        return ""
    return f"found JSON without a list ({start}), expected the provider's list"


def _within(read: dict) -> list[object]:
    """The values of an object, and of the objects in it: {"data": {"pods": []}}."""
    inner = [value for value in read.values() if isinstance(value, dict)]
    return [*read.values(), *(value for one in inner for value in one.values())]


def _header(rows: list[str]) -> bool:
    """Whether a row among the first names at least two columns, as the head of a table does."""
    for row in rows[:6]:
        cells = [cell for cell in _CELLS.split(row.strip("|│┃ ")) if cell]
        if len(cells) > 1 and sum(bool(_HEADER.fullmatch(cell)) for cell in cells) > 1:
            return True
    return False


def _cut(text: str, ids: list[str]) -> str:
    """An id that the list shows shortened may be any of ours."""
    for found in _CUT.finditer(text):
        for one in ids:
            if one.lower().startswith(found[1].lower()):
                return f"found {found[0]} in the list, which may be {one}, expected ids in full; do: ask for JSON, or for a wider table"
    return ""
