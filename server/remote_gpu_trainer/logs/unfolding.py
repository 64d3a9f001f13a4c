"""A pasted report whose line breaks were lost on the way: written as backslash and n, or turned into blanks."""

from __future__ import annotations

import json
import re

MOST = 100_000  # characters
BREAKS = 2  # written ones that show that no real one came through

_PATH = re.compile(r"\b[A-Za-z]:\\(?!\\)")  # of Windows and as it is: C:\new\nets
_PIECES = re.compile(
    r'\s+(?=Traceback \(most recent call last\):|File "[^"\n]{1,300}", line \d|(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Warning): |'
    r"\[rank\d{1,5}\]: ?|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d|The above exception was|During handling of the above)"
)
_CODE = re.compile(r'(File "[^"\n]{1,300}", line \d{1,7}, in [\w<>.]{1,80})\s+')


def unfolded(text: str) -> str:
    """The text with its lines again; as it is where it has lines, or where nothing shows that it had any."""
    whole = text.strip()
    if "\n" in whole or not whole or len(whole) > MOST:
        return text
    if whole.count("\\n") >= BREAKS and (said := _unescaped(whole)):
        return said
    if "Traceback (most recent call last):" in whole or _CODE.search(whole):
        return _CODE.sub(r"\1\n    ", _PIECES.sub("\n", whole))
    return text


def _unescaped(text: str) -> str:
    """As JSON escapes a text, or with its written breaks made real; '' where they are names in a path."""
    if _PATH.search(text):
        return ""
    inner = text[1:-1] if text[:1] == text[-1:] == '"' and len(text) > 1 else text
    try:
        return (
            json.loads(f'"{inner}"').encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
        )  # half of a pair is no character
    except ValueError:
        return (
            inner.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
        )
