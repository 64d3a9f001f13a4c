"""A kernel log as lines, in whichever form it was saved: JSON of journald or of Kubernetes too."""

import json


def lines_of(text):
    """The lines of a log. Its messages are the lines where it is JSON.

    `journalctl -o json` writes an object a line, `kubectl get events -o json` one object for all.
    """
    if not text.lstrip().startswith("{"):
        return text.splitlines()
    whole = object_of(text)
    if whole is not None and isinstance(whole.get("items"), list):
        return [line for item in whole["items"] for line in message_of(item)]
    out = []
    for line in text.splitlines():
        record = object_of(line) if line.startswith("{") else None
        out += [line] if record is None else message_of(record)
    return out


def object_of(text):
    """The JSON object that a text is, or None."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def message_of(record):
    """The lines of one record: of the kernel's in a journal, or of an event of Kubernetes."""
    if not isinstance(record, dict) or record.get("_TRANSPORT", "kernel") != "kernel":
        return []
    text = record.get("MESSAGE", record.get("message"))
    if not isinstance(text, str):
        return []
    micro = str(record.get("__MONOTONIC_TIMESTAMP", ""))
    if "message" in record:  # as kubectl prints an event without --output
        head = "{} {} ".format(record.get("type", "Normal"), record.get("reason", "Event"))
    else:
        head = f"[{int(micro) / 1e6:.6f}] " if micro.isdigit() and len(micro) < 20 else ""
    return [head + line for line in text.splitlines()]
