"""Find what changed when a run was resumed: the loss, the learning rate, the count of steps.

Standard library, Python 3.8.
"""

from __future__ import annotations

from .loss_shapes import Finding, median
from .metric_series import Numbers, Series

FEWEST = 3  # values on each side
JUMPED = 1.3  # times the loss before the resume, from which it counts as a jump
FELL = 0.2  # share of the earlier learning rate below which a warm-up has started again


def resumed(loss: Series, numbers: Numbers, lr: Series | None) -> list[Finding]:
    """Return what differs between just before and just after a resume.

    If a log has several resumes, the first at which anything differs.
    """
    for row in numbers.resumed:
        before, after = _sides(loss, row)
        if len(before) < FEWEST or len(after) < FEWEST:
            continue
        found = []
        if after[0] > JUMPED * median(before[-5:]) > 0 and after[0] > 1.1 * max(before[-10:]):
            found.append(
                Finding(
                    row,
                    f"loss jumps right after resume from {median(before[-5:]):.3g} to "
                    f"{after[0]:.3g}",
                    "C1",
                )
            )
        old, new = _sides(lr, row) if lr else ([], [])
        if old and len(new) >= FEWEST and new[0] < FELL * old[-1] and max(new) > 3 * new[0]:
            found.append(Finding(row, "learning rate replays its warm-up after resume", "C14"))
        elif (
            old
            and len(new) >= FEWEST
            and old[-1] < 0.9 * max(old)
            and max(new) > 1.5 * old[-1]
            and new[0] < 0.9 * max(new)
        ):
            found.append(
                Finding(row, "learning rate restarts after resume and replays its warm-up", "C14")
            )
        elif old and new and old[-1] > 0 and new[0] > 2 * old[-1]:
            found.append(
                Finding(
                    row,
                    f"learning rate jumps after resume from {old[-1]:.3g} to {new[0]:.3g}, "
                    "the scheduler starts again",
                    "C14",
                )
            )
        last = next(
            ((count, what) for at, count, what in reversed(numbers.counts) if at < row and what),
            None,
        )
        first = next(
            (count for at, count, what in numbers.counts if at > row and last and what == last[1]),
            None,
        )
        if first is not None and first <= 1 and last[0] > 5:
            found.append(
                Finding(
                    row,
                    f"resumed run counts from {first:.0f} again, it was at {last[0]:.0f}",
                    "C12",
                )
            )
        if found:
            return found
    return []


def _sides(series: Series, row: int) -> tuple[list[float], list[float]]:
    return [v for at, v in zip(series.rows, series.values) if at < row], [
        v for at, v in zip(series.rows, series.values) if at > row
    ]
