"""Read the cells of nvidia-smi. Text from a box is cut, cleaned, not trusted."""

import re

NOT_AVAILABLE = (
    "n/a",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "not found",
    "",
)

# 81559 MiB · 26.562 GB/s · 16x · 0x0000000000000001 · 512 bank(s) · -5 C
NUMBER = re.compile(r"(-?\d{1,16}(?:\.\d{1,6})?)\s*(?:x|%|[a-zA-Z]{1,7}(?:/s)?|bank\(s\))?$")


def state(cell):
    """Classify a cell: value, na (not available, never 0), denied, lost, error, bad, missing."""
    if cell is None:
        return "missing"
    text = cell.strip()
    bare = text.strip("[]").strip().lower()
    if text.startswith("[") != text.endswith("]"):
        return "bad"
    if bare in NOT_AVAILABLE:
        return "na"
    if bare == "insufficient permissions":
        return "denied"
    if bare in ("gpu is lost", "gpu requires reset"):
        return "lost"
    if bare in ("unknown error", "err!"):
        return "error"
    return "bad" if text.startswith("[") else "value"


def number(cell):
    """The number of a cell without its unit, or None."""
    if state(cell) != "value":
        return None
    text = cell.strip()
    if re.match(r"0[xX][0-9a-fA-F]{1,16}$", text):
        return int(text, 16)
    match = NUMBER.match(text)
    return float(match.group(1)) if match else None


def yes(cell):
    """True, False or None. Some drivers print Yes and No, others numbers."""
    if state(cell) != "value":
        return None
    text = cell.strip().lower()
    if text in ("yes", "no"):
        return text == "yes"
    return int(text) > 0 if re.match(r"\d{1,9}$", text) else None


def version(text):
    """'590.44.01' -> (590, 44, 1); () for what is no version."""
    match = re.match(r"\D{0,3}(\d{1,6}(?:\.\d{1,6}){0,4})", str(text or ""))
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def as_dict(value):
    """The value if it is a dict, otherwise an empty dict."""
    return value if isinstance(value, dict) else {}


def as_list(value):
    """The value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def usual(values):
    """The most common value that isn't None or empty, or None."""
    values = [value for value in values if value not in (None, "")]
    return max(sorted(set(values), key=str), key=values.count) if values else None
