"""The place of a card, and clean text. Text from a box is cut, cleaned, not trusted."""

import re

# ANSI sequences: \x1b[4m and the longer forms, and a title that ends with a bell.
ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b.")
COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")  # topo -m and dmesg colour their output
BDF = re.compile(r"^(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def clean(text):
    """Remove ANSI sequences and replace control characters. Line ends and tabs stay."""
    text = ANSI.sub("", text.replace("\r\n", "\n"))
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "?", text)


def short(text, most=240):
    """One clean line of at most `most` characters."""
    text = " ".join(clean(str(text)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def bdf(text):
    """The place of a card as 0000:3b:00, or None.

    00000000:3B:00.0, 0000:3b:00.0, 0000:3b:00 and 3b:00.0 are one place.
    """
    match = BDF.match((text or "").strip())
    if not match:
        return None
    domain, bus, device = (int(part or "0", 16) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"
