"""The boxes that were opened and aren't confirmed gone, in a local file: one JSON object a line, appended under a lock.

A home that is missing or read-only never breaks a command: then nothing is remembered, and nothing reminded of. A torn or foreign line is
skipped. A box is known by the address that its name led to, so that a name which leads elsewhere later doesn't hide the old box.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ..numbers import finite
from ..text.records import record

try:
    import fcntl
except ImportError:  # Windows: an append of one line is all the protection there is
    fcntl = None

MOST_BYTES = 4 << 20  # of the file's end that are read
OPENED, GONE = "opened", "gone"
LATEST = 1e11  # seconds since 1970 in the year 5138; a time in milliseconds lies above


@record
class Opened:
    """A box on the meter. `since`: seconds since 1970; `price`: an hour, in the platform's currency, None when not known."""

    address: str
    name: str
    since: float
    profile: str = ""
    price: float | None = None


def place() -> Path:
    """The ledger's file."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = (
        Path(state) if os.path.isabs(state) else Path(os.path.expanduser("~")) / ".local" / "state"
    )
    return base / "remote-gpu-trainer" / "ledger.jsonl"


def opened(
    address: str,
    name: str,
    *,
    profile: str = "",
    price: float | None = None,
    now: float | None = None,
) -> bool:
    """Remember a box; nothing happens when it is open already and nothing new is known. False when it couldn't be written."""
    known = next((box for box in still_open() if box.address == address), None)
    if (
        known
        and (not profile or profile == known.profile)
        and (price is None or price == known.price)
    ):
        return True
    return _append(
        {
            "t": _now(now),
            "event": OPENED,
            "address": address,
            "name": name,
            "profile": profile,
            "price": price,
        }
    )


def gone(address: str, name: str, why: str, now: float | None = None) -> bool:
    """Forget a box that is confirmed gone; `why` stays in the file."""
    return _append({"t": _now(now), "event": GONE, "address": address, "name": name, "why": why})


def still_open() -> list[Opened]:
    """Boxes opened and not confirmed gone, oldest first."""
    boxes: dict[str, Opened] = {}
    for line in _lines():
        try:
            event = json.loads(line)
            address, kind, when = event["address"], event["event"], finite(event["t"], LATEST)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if not isinstance(address, str) or when is None or when < 0:
            continue
        if kind == GONE:
            boxes.pop(address, None)
        elif kind == OPENED:
            before = boxes.get(address)
            price = finite(event.get("price"))
            boxes[address] = Opened(
                address,
                str(event.get("name") or address),
                before.since if before else when,
                str(event.get("profile") or (before.profile if before else "")),
                price if price is not None else before.price if before else None,
            )
    return sorted(boxes.values(), key=lambda box: box.since)


def reminder(command: str = "", as_json: bool = False, now: float | None = None) -> str:
    """One line about the boxes that are open; '' when there is none."""
    boxes = still_open()
    if not boxes:
        return ""
    from ..text.masking import shown  # every command starts here, most without a box

    told = []
    for box in boxes[:5]:
        hours = max(0.0, (_now(now) - box.since) / 3600)
        price = (
            f", {box.price:g} an hour, about {box.price * hours:.2f} so far"
            if box.price is not None
            else ""
        )
        told.append(
            f"{shown(box.name, 60)} since {time.strftime('%Y-%m-%d %H:%M', time.localtime(box.since))} ({hours:.1f} h{price})"
        )
    more = f" and {len(boxes) - 5} more" if len(boxes) > 5 else ""
    return f"opened and not confirmed gone: {'; '.join(told)}{more}; see remote-gpu-trainer release --help"


def _now(now: float | None) -> float:
    return time.time() if now is None else now


def _lines() -> list[bytes]:
    try:
        with place().open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - MOST_BYTES))
            return file.read(MOST_BYTES).splitlines()
    except (OSError, ValueError):
        return []


def _append(event: dict) -> bool:
    line = json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    try:
        file = place()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            if fcntl:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if (
                size
                and os.lseek(descriptor, size - 1, os.SEEK_SET)
                and os.read(descriptor, 1) != b"\n"
            ):
                line = b"\n" + line  # somebody's line was torn: it stays alone
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return False
    return True
