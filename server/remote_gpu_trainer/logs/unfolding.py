"""Restore line breaks that a pasted report lost: written as backslash and n, or made blanks."""

from __future__ import annotations

import json
import re

MOST = 100_000  # characters
BREAKS = 2  # written breaks from which a report has lost its real ones

_PATH = re.compile(r"\b[A-Za-z]:\\(?!\\)")  # a path of Windows, not escaped: C:\new\nets
_PIECES = re.compile(
    r'\s+(?=Traceback \(most recent call last\):|File "[^"\n]{1,300}", line \d'
    r"|(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt|Warning): |"
    r"\[rank\d{1,5}\]: ?|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d"
    r"|The above exception was|During handling of the above)"
)
_CODE = re.compile(r'(File "[^"\n]{1,300}", line \d{1,7}, in [\w<>.]{1,80})\s+')


def unfolded(text: str) -> str:
    """Return the text with its line breaks; unchanged where it has some, or seems to need none."""
    whole = text.strip()
    if "\n" in whole or not whole or len(whole) > MOST:
        return text
    if whole.count("\\n") >= BREAKS and (said := _unescaped(whole)):
        return said
    if "Traceback (most recent call last):" in whole or _CODE.search(whole):
        return _CODE.sub(r"\1\n    ", _PIECES.sub("\n", whole))
    return text


def _unescaped(text: str) -> str:
    """The text unescaped as JSON, or else with its written breaks made real.

    "" where they belong to a path of Windows.
    """
    if _PATH.search(text):
        return ""
    inner = text[1:-1] if text[:1] == text[-1:] == '"' and len(text) > 1 else text
    try:
        # Half of a surrogate pair is no character.
        return (
            json.loads(f'"{inner}"').encode("utf-8", "replace").decode("utf-8").replace("\0", " ")
        )
    except ValueError:
        return (
            inner.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
        )
