"""The runs whose memory was measured from here, in a local file: one JSON object a line.

If the home is missing or read-only, nothing is remembered, and commands work all the same.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from ..boxes import box as boxes
from ..boxes.box import Box
from ..fit.measured import Measured, rows_of
from ..runner.folder import read_rows
from . import calling, ledger, local_files
from .status_reply import parts_of

MOST = 500  # rows; the oldest go
MOST_BYTES = 1 << 20
RECORD = "rehearsal/log/memory.json"  # in the run's folder, as runner/card_memory.py writes it
ANSWERED = 60.0  # seconds for a box to send it
_READ = ("sh", "-c", f'exec cat "$0/{RECORD}"')


def every() -> list[Measured]:
    """Return the rows, the oldest first."""
    with suppress(OSError), _place().open("rb") as file:
        return rows_of(read_rows(file.read(MOST_BYTES).decode("utf-8", "replace")))
    return []


def add(row: Measured) -> bool:
    """Remember a row. False where the file can't be written."""
    rows = [*every(), row][-MOST:]
    text = "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in rows)
    try:
        local_files.write(_place(), text.encode("utf-8", "replace"))
    except OSError:
        return False
    return True


def record_of(box: Box, folder: str) -> dict:
    """Return what the last rehearsal of a run measured, {} where there is nothing to read."""
    if box.local:
        place = Path(folder).expanduser() / RECORD
        with suppress(OSError, ValueError):
            return _object(place.read_bytes()[:MOST_BYTES])
        return {}
    reply = boxes.run(box, calling.PROGRAM, args=(folder, *_READ), limit=ANSWERED)
    body = parts_of(reply.out.decode("utf-8", "replace")).body if reply.outcome == "ok" else None
    with suppress(ValueError):
        return _object((body or "").encode())
    return {}


def _object(data: bytes) -> dict:
    found = json.loads(data or b"{}")
    return found if isinstance(found, dict) else {}


def _place() -> Path:
    return ledger.place().with_name("measured.jsonl")
