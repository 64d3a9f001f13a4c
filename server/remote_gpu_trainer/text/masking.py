"""Text from a box, a log or a provider as it may be shown: no escapes, no controls, no secrets, and short."""

from __future__ import annotations

import re

from .secret_forms import ANSI, mask

_IN_ADDRESS = re.compile(r"(?<=://)([^\s/@:]{1,100}):[^\s/@]{3,200}@")


def shown(text: object, most: int = 300) -> str:
    """One line of at most `most` characters that is safe to print. Line breaks become blanks."""
    flat = ANSI.sub("", str(text)[: most * 8])
    if not flat.isprintable():
        flat = "".join(c if c.isprintable() else " " for c in flat)
    flat = _IN_ADDRESS.sub(r"\1:***@", mask(flat)).rstrip()
    return flat if len(flat) <= most else flat[: most - 2] + " …"


def shown_lines(text: object, most: int = 40, width: int = 300) -> list[str]:
    """The last `most` lines that hold anything. A carriage return ends a line, as on a terminal."""
    flat = str(text)
    near = max(0, len(flat) - most * width * 4)
    begin = (
        max(flat.rfind("\n", 0, near), flat.rfind("\r", 0, near)) + 1
    )  # whole lines: half a secret can't be told from a word
    cut = [shown(line, width) for line in re.split(r"[\r\n]+", flat[begin:])]
    return [line for line in cut if line.strip()][-most:]
