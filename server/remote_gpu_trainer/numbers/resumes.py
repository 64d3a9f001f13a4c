"""Find what went wrong where a run was resumed: the loss jumps, its rate or count starts again.

Standard library, Python 3.8.
"""

from __future__ import annotations

from .entries import (
    EPOCHS_AGAIN,
    ONLY_WEIGHTS,
    RATE_AGAIN,
)
from .finding import NumbersFinding
from .loss_shapes import median
from .metric_series import Numbers, Series

BESIDE = 3  # values on each side of a resume
JUMPED = 1.3  # times the loss before the resume, from which it counts as a jump
FELL = 0.2  # share of the earlier learning rate below which a warm-up has started again


def resumed(loss: Series, numbers: Numbers, lr: Series | None) -> list[NumbersFinding]:
    """Compare the values just before a resume with those just after it.

    Of several resumes, the first that changed something gives the findings.
    """
    for row in numbers.resumed:
        before, after = _sides(loss, row)
        if len(before) < BESIDE or len(after) < BESIDE:
            continue
        changes = (
            _loss_jumps(before, after, row),
            _rate_differs(*_sides(lr, row), row) if lr else None,
            _counts_again(numbers, row),
        )
        found = [change for change in changes if change is not None]
        if found:
            return found
    return []


def _sides(series: Series, row: int) -> tuple[list[float], list[float]]:
    """The values before a line, and those after it."""
    pairs = list(zip(series.rows, series.values))
    return [value for at, value in pairs if at < row], [value for at, value in pairs if at > row]


def _loss_jumps(before: list[float], after: list[float], row: int) -> NumbersFinding | None:
    usual = median(before[-5:])
    # Values may be nan, for which every comparison is false.
    if not (after[0] > JUMPED * usual > 0 and after[0] > 1.1 * max(before[-10:])):
        return None
    message = f"loss jumps right after resume from {usual:.3g} to {after[0]:.3g}"
    return NumbersFinding(row, message, ONLY_WEIGHTS)


def _rate_differs(old: list[float], new: list[float], row: int) -> NumbersFinding | None:
    """Find a learning rate that warms up again, or jumps."""
    if not old or not new:
        return None
    is_long = len(new) >= BESIDE
    if is_long and new[0] < FELL * old[-1] and max(new) > 3 * new[0]:
        return NumbersFinding(row, "learning rate replays its warm-up after resume", RATE_AGAIN)
    had_decayed, rises_above = old[-1] < 0.9 * max(old), max(new) > 1.5 * old[-1]
    if is_long and had_decayed and rises_above and new[0] < 0.9 * max(new):
        message = "learning rate restarts after resume and replays its warm-up"
        return NumbersFinding(row, message, RATE_AGAIN)
    if old[-1] > 0 and new[0] > 2 * old[-1]:
        message = (
            f"learning rate jumps after resume from {old[-1]:.3g} to {new[0]:.3g}, "
            "the scheduler starts again"
        )
        return NumbersFinding(row, message, RATE_AGAIN)
    return None


def _counts_again(numbers: Numbers, row: int) -> NumbersFinding | None:
    """Find a count of steps or epochs that starts again after the resume."""
    before = [(count, what) for at, count, what in numbers.counts if at < row and what]
    if not before:
        return None
    last, what = before[-1]
    first = next((count for at, count, other in numbers.counts if at > row and other == what), None)
    if first is None or first > 1 or last <= 5:
        return None
    return NumbersFinding(
        row, f"resumed run counts from {first:.0f} again, it was at {last:.0f}", EPOCHS_AGAIN
    )
