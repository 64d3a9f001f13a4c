"""The series of a log by kind, and what the checks of numbers reckon with.

Standard library, Python 3.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .metric_series import Numbers, Series, main_of

FEWEST, TREND = 5, 10  # values that a series needs to be judged, and to have a trend
FALLEN = 0.8  # share of its first values below which a loss has fallen


@dataclass(frozen=True)
class Curves:
    """The series of a log by kind. Series of held-out data have kinds such as "val loss".

    Accuracies are shares of 1. `loss` is the training loss.
    """

    numbers: Numbers
    by_kind: dict[str, list[Series]]
    loss: Series | None

    def all(self, *kinds: str) -> list[Series]:
        """Return all series of these kinds."""
        return [series for kind in kinds for series in self.by_kind.get(kind, [])]

    def first(self, kind: str, least: int = 1) -> Series | None:
        """Return the first series of a kind with at least so many values, None without one."""
        return next(
            (each for each in self.by_kind.get(kind, []) if len(each.values) >= least), None
        )

    def loss_falls(self, to: float = FALLEN) -> bool:
        """Return whether the training loss ends below this share of its first value."""
        values = self.loss.values if self.loss else []
        return len(values) >= FEWEST and values[-1] < to * values[0]


def curves_of(numbers: Numbers) -> Curves:
    """Return the series of a log by kind."""
    by_kind: dict[str, list[Series]] = {}
    # All accuracies of a log are in per cent, or none is.
    percent = max((unit(series) for series in numbers.series if series.kind == "acc"), default=1.0)
    for series in numbers.series:
        kind = series.kind
        if kind == "acc":
            if series.name.rstrip().endswith("5"):  # of five guesses
                continue
            series = replace(series, values=[value / percent for value in series.values])
        held_out = series.held_out and kind in ("loss", "acc", "score", "ppl")
        by_kind.setdefault(("val " if held_out else "") + kind, []).append(series)
    return Curves(numbers, by_kind, main_of(by_kind.get("loss", [])))


def has_fallen(loss: Series | None) -> bool:
    """Return whether a loss ended well below its start."""
    return bool(loss) and mean(loss.values[-2:]) < FALLEN * mean(loss.values[:2])


def from_the_start(numbers: Numbers) -> bool | None:
    """Return whether the log has the beginning of its run; None if it counts no steps."""
    counts = [count for _, count, _ in numbers.counts]
    if len(counts) < FEWEST:
        return None
    step = sorted(abs(b - a) for a, b in zip(counts, counts[1:]))[len(counts) // 2]
    return counts[0] <= max(1.0, 2 * step)


def mean(values: list[float]) -> float:
    """Return the mean of a list that isn't empty."""
    return sum(values) / len(values)


def median(values: list[float]) -> float:
    """Return the median of a list that isn't empty, the upper of two in the middle."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def run_at_end(values: list[float], is_so: Callable[[float], bool]) -> int:
    """Return the number of values at the end for which `is_so(value)` holds without a break."""
    count = 0
    for value in reversed(values):
        if not is_so(value):
            break
        count += 1
    return count


def plain(series: Series) -> str:
    """Return the name that people would use for the series."""
    if series.kind in ("score", "ppl"):
        return " ".join(series.name.replace("_", " ").replace("/", " ").split())
    return "validation loss" if series.held_out else "loss"


def unit(series: Series) -> float:
    """Return 100 for values in percent, else 1."""
    return 100.0 if max(series.values) > 1.5 else 1.0


def quarters(values: list[float]) -> list[float]:
    """Return the medians of the four quarters of a long positive series, else an empty list."""
    if len(values) < 2 * TREND:
        return []
    quarter = len(values) // 4
    medians = [median(values[at * quarter : (at + 1) * quarter]) for at in range(4)]
    return medians if min(medians) > 0 else []
