"""What a rehearsal tells of memory: what was measured, beside the estimate."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from ..text import BadRequest
from ..text.masking import shown

if TYPE_CHECKING:
    from ..boxes.box import Box


def print_estimate_of(box: Box, folder: str) -> None:
    """Print the estimate beside what the rehearsal of a run took of the cards."""
    from ..runs import measured_runs

    print_estimate(measured_runs.record_of(box, folder))


def print_estimate(record: dict) -> None:
    """Print the estimate beside what was measured, and remember both."""
    from ..fit.measured import rehearsed
    from ..runs import measured_runs

    try:
        found = rehearsed(record, date.today().isoformat())
    except (TypeError, ValueError, KeyError, AttributeError, BadRequest):
        return  # a record of another version, or none that makes sense
    if found is None:
        return
    if found.why:
        print(f"note memory: not reckoned: {shown(found.why)}")
    else:
        size = f"{found.row.batch} × {found.row.sequence} tokens"
        more = f"{found.row.method}, {size}, {found.row.more}"
        reckoned = f"rgt fit reckons {found.estimate_gib:.1f} GiB"
        print(f"note memory: {reckoned} for {shown(found.row.model)}, {more}")
    is_whole = found.row.died or not record.get("has_failed")
    if record.get("cards") and is_whole and measured_runs.add(found.row):
        print("  remembered here: rgt fit shows it beside like runs")
