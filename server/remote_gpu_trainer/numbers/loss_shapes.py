"""Shapes of a loss: not finite, flat from its first value, rising for good after a fall.

Each function returns a Finding or None. Standard library, Python 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .entries import (
    ACCUMULATION_SCALES,
    DIVERGED,
    DPO_STANDS_STILL,
    HUGE_FIRST_LOSS,
    NAN_IN_OWN_CODE,
    NAN_SOMEWHERE,
    NEGATIVE_LOSS,
    NOT_LEARNING,
    PERPLEXITY_IS_ODD,
    SATURATED_BINARY_LOSS,
    SLOW_LOSS,
    TWO_SOFTMAXES,
)
from .finding import NumbersFinding
from .metric_series import Numbers, Series

FEWEST, TREND = 5, 10  # values that a series needs to be judged, and to have a trend
# An untrained model has a loss of ln(n) for n classes or tokens.
CLASSES = (
    2, 3, 4, 5, 6, 7, 8, 10, 14, 20, 21, 37, 50, 65, 80, 100, 101, 102, 200, 256, 365, 1000, 21841,
    30522, 32000, 32128, 50257, 50304, 128256, 151936,
)  # fmt: skip
# Shares of a loss:
NEAR = 0.007  # within this of ln(classes)
STILL = 0.02  # moved by less than this
STEADY, APART = 0.003, 0.05  # values spread by less, or by more, than this
LITTLE = 0.005  # moved by less than this in a run whose beginning is in the log
RISEN, LOST = 1.5, 0.15  # times the lowest value, and share of the fall that is lost again


def not_finite(series: Series, norm: Series | None, began: bool | None) -> NumbersFinding | None:
    """Find values that become nan or infinite.

    `norm` is the gradient norm: where it stays finite, the formula of the loss made the inf, not
    the network. `began` says whether the log begins with its run, see
    `from_the_start`.
    """
    values = series.values
    bad = [at for at, value in enumerate(values) if not math.isfinite(value)]
    # A single bad value with good ones after it is no fault.
    if not bad or (len(bad) < 2 and bad[0] < len(values) - 1):
        return None
    at, name = bad[0], plain(series)
    what = "nan" if any(math.isnan(values[i]) for i in bad) else "inf"
    entry = PERPLEXITY_IS_ODD if series.held_out and series.kind == "ppl" else NAN_SOMEWHERE
    lost = series.kind == "loss" and not series.held_out
    if what == "inf" and _stays_finite(norm, series.rows[at]):
        sign = "-" if all(values[i] < 0 for i in bad) else ""
        message = f"{name} is {sign}inf while the gradient norm stays finite"
        return NumbersFinding(series.rows[at], message, NAN_IN_OWN_CODE)
    if at == 0:
        where = "from the first step" if began is not False else "in every line"
        return NumbersFinding(series.rows[0], f"{name} is {what} {where}", entry, lost=lost)
    if len(bad) * 2 < len(values) - at:  # some steps only
        message = f"{name} is {what} in {len(bad)} of {len(values)} steps"
        return NumbersFinding(series.rows[at], message, entry)
    if at >= FEWEST and _rises(values[:at]):
        message = f"{name} diverges, then becomes {what} and stays {what}"
        return NumbersFinding(series.rows[at], message, DIVERGED, lost=lost)
    climbed = ", gradient norm climbed before" if _climbs(norm, series.rows[at]) else ""
    message = f"{name} suddenly becomes {what} and stays {what}{climbed}"
    return NumbersFinding(series.rows[at], message, entry, lost=lost)


def _stays_finite(norm: Series | None, row: int) -> bool:
    """Whether the gradient norm was told from a line on, and was finite there."""
    after = [value for line, value in zip(norm.rows, norm.values) if line >= row] if norm else []
    return bool(after) and all(map(math.isfinite, after))


def _rises(values: list[float]) -> bool:
    """Whether the last value is far above the lowest one, or above the first."""
    return values[-1] > 2 * min(values) or values[-1] > 1.5 * values[0]


def _climbs(norm: Series | None, row: int) -> bool:
    """Whether the gradient norm is far above its median just before a line."""
    values = [
        value
        for at, value in (zip(norm.rows, norm.values) if norm else ())
        if at < row and math.isfinite(value)
    ]
    return len(values) > 3 and values[-1] > 10 * median(values)


def levels_off(loss: Series, acc: Series | None) -> NumbersFinding | None:
    """Find a loss that levels off at ln(1 + (k - 1) / e).

    That is the lowest cross entropy of k outputs to which a softmax was already applied.
    """
    if not acc or len(loss.values) < TREND or max(acc.values) < 0.8:
        return None
    tail = median(loss.values[-max(3, len(loss.values) // 4) :])
    for classes in (10, 100, 1000):
        least = math.log(1 + (classes - 1) / math.e)
        if least * 0.999 < min(loss.values) and tail < least * 1.06:
            return NumbersFinding(
                loss.rows[-1],
                f"loss never gets below {least:.2f} with {classes} classes though accuracy is "
                f"{max(acc.values):.3g}",
                TWO_SOFTMAXES,
            )
    return None


def clamped(loss: Series, acc: Series | None) -> NumbersFinding | None:
    """Find a binary loss of saturated outputs.

    PyTorch clamps the logarithm at -100, so the loss is 100 times the share of wrong answers.
    """
    if not acc or len(acc.values) != len(loss.values) or len(loss.values) < TREND:
        return None
    pairs = list(zip(loss.rows, loss.values, acc.values))[-FEWEST:]
    if all(
        value > 5 and abs(value - 100 * (1 - right)) < 0.03 * value for _, value, right in pairs
    ):
        row = next(row for row, value in zip(loss.rows, loss.values) if value > 5)
        return NumbersFinding(
            row,
            f"binary loss jumps to {loss.values[-1]:.3g} of 100, outputs are saturated",
            SATURATED_BINARY_LOSS,
        )
    return None


def zero(loss: Series, norm: Series | None) -> NumbersFinding | None:
    """Find a loss that is exactly 0 from the first step, or once the gradient norm is nan."""
    end = run_at_end(loss.values, lambda value: value == 0)
    if end < FEWEST:
        return None
    if norm and sum(not math.isfinite(value) for value in norm.values[-end:]) * 2 > min(
        end, len(norm.values)
    ):
        return NumbersFinding(
            loss.rows[len(loss.values) - end],
            "loss drops to exactly 0.0 and grad_norm is nan in every step",
            NAN_SOMEWHERE,
        )
    return (
        NumbersFinding(loss.rows[0], "loss is exactly 0.0 from the first step")
        if end == len(loss.values)
        else None
    )


def apart(loss: Series, norm: Series | None) -> NumbersFinding | None:
    """Find a loss that fell and then rose for good, or that rises from the start."""
    values = loss.values
    if len(values) < TREND or min(values) <= 0:
        return None
    width = max(3, len(values) // 10)
    smooth = [
        median(values[max(0, at - width + 1) : at + 1]) for at in range(width - 1, len(values))
    ]
    low = min(range(len(smooth)), key=smooth.__getitem__)
    least, last, first = smooth[low], smooth[-1], smooth[0]
    if not _rises_for_good(values, smooth, low):
        return None
    row = loss.rows[min(len(values) - 1, low + width)]
    climbed = ", gradient norm climbed" if norm and _ends_high(norm, width) else ""
    if last > RISEN * first:
        message = f"loss diverges: it rises from {least:.3g} to {last:.3g} and explodes{climbed}"
    else:
        message = f"loss falls to {least:.3g}, then jumps to {last:.3g} and stays up{climbed}"
    return NumbersFinding(row, message, DIVERGED)


def _rises_for_good(values: list[float], smooth: list[float], low: int) -> bool:
    """Whether a loss ends far above its lowest value, by more than noise, and not only at the end.

    `smooth` are running medians, and `low` is the place of the lowest one.
    """
    least, risen = smooth[low], smooth[-1] - smooth[low]
    noise = median([abs(b - a) for a, b in zip(values, values[1:])])
    return not (
        smooth[-1] < RISEN * least
        or risen < 3 * noise
        or risen < LOST * (values[0] - least)
        or min(smooth[-max(2, len(smooth) // 5) :]) < 1.25 * least
        or len(smooth) - low < 3
    )


def _ends_high(norm: Series, width: int) -> bool:
    """Whether the last `width` gradient norms are far above those of the first half."""
    values = norm.values
    return len(values) >= TREND and median(values[-width:]) > 3 * median(values[: len(values) // 2])


def twice(loss: Series, norm: Series | None) -> NumbersFinding | None:
    """Find two runs in one log, the second with the losses of the first times a whole number.

    Gradient accumulation that isn't divided by its steps does this.
    """
    half = len(loss.values) // 2
    if (
        half < FEWEST
        or len(loss.values) % 2
        or not 0 < loss.values[half - 1] < loss.values[0]
        or (norm and len(norm.values) != len(loss.values))
    ):
        return None
    ratios = [
        b / a
        for series in (loss, norm)
        if series
        for a, b in zip(series.values[:half], series.values[half:])
        if a > 0
    ]
    times = round(median(ratios))
    if times < 2 or any(abs(ratio - times) > 0.05 * times for ratio in ratios):
        return None
    what = "loss and gradient norm are" if norm else "loss is"
    return NumbersFinding(
        loss.rows[half],
        f"{what} exactly {times} times larger in the second run, step by step, as with gradient "
        "accumulation that doesn't divide",
        ACCUMULATION_SCALES,
    )


def negative(loss: Series) -> NumbersFinding | None:
    """Find a loss that falls below 0 without limit. The caller leaves out Dice, which may do so."""
    below = sum(value < 0 for value in loss.values)
    # Losses with these names may be below zero.
    names = ("actor", "policy", "elbo", "nll", "gen", "critic", "_g", "_d")
    if any(word in loss.name.lower() for word in names):
        return None
    if (
        len(loss.values) < TREND
        or below * 4 < len(loss.values)
        or loss.values[-1] >= 0
        or loss.values[-1] > min(loss.values) / 2
    ):
        return None
    row = next(row for row, value in zip(loss.rows, loss.values) if value < 0)
    return NumbersFinding(
        row,
        f"training loss is negative and falls without limit, at last {loss.values[-1]:.4g}",
        NEGATIVE_LOSS,
    )


def huge(loss: Series) -> NumbersFinding | None:
    """Find a first loss above 100, unless its name suggests such values."""
    first = loss.values[0]
    if (
        len(loss.values) < FEWEST
        or not first > 100
        or any(word in loss.name.lower() for word in ("mse", "l1", "recon", "elbo", "encoder"))
    ):
        return None
    return NumbersFinding(
        loss.rows[0], f"first loss is in the hundreds, {first:.0f}", HUGE_FIRST_LOSS
    )


@dataclass(frozen=True)
class _Level:
    """The level of a loss, and how steady it is.

    `middle` is its mean. `moved` is how much it fell from its first to its last quarter, and
    `spread` its standard deviation, both as a share of the mean. A guess among `classes` classes or
    tokens has the loss closest to it; `is_chance`: so close that the model only guesses.
    """

    values: list[float]
    middle: float
    moved: float
    spread: float
    classes: int
    is_chance: bool

    @classmethod
    def of(cls, values: list[float], acc: Series | None) -> _Level:
        """The level of positive values; `acc` is the accuracy beside them."""
        quarter, middle = max(3, len(values) // 4), mean(values)
        moved = (mean(values[:quarter]) - mean(values[-quarter:])) / middle
        spread = math.sqrt(mean([(value - middle) ** 2 for value in values])) / middle
        classes = min(CLASSES, key=lambda k: abs(math.log(k) - middle))
        is_guess = acc is not None and abs(median(acc.values) - 1 / classes) < 0.05
        # If the accuracy is that of a guess too, the loss may differ more from ln(classes).
        times = 4 if is_guess and classes < 11 else 1
        is_chance = abs(math.log(classes) - middle) < NEAR * middle * times
        return cls(values, middle, moved, spread, classes, is_chance)

    def stays(self) -> bool:
        """Return whether the loss hardly moves or varies."""
        still = STILL * (1.5 if self.is_chance else 1)
        return abs(self.moved) <= still and self.spread <= APART

    def falls_slowly(self, began: bool | None) -> bool:
        """Return whether the loss keeps falling, by so little that nothing is gained."""
        return _sinks(self.values) or bool(
            not self.is_chance
            and began
            and len(self.values) >= 2 * TREND
            and self.spread < STILL
            and abs(self.moved) < LITTLE
        )


def flat(loss: Series, numbers: Numbers, by_kind: dict[str, list[Series]]) -> NumbersFinding | None:
    """Find a loss that stays at its first value.

    It is either the loss of an untrained model, or a value that doesn't move at all.
    """
    values = [value for value in loss.values if math.isfinite(value)]
    if len(values) < TREND or min(values) <= 0:
        return None
    acc = next(
        (
            series
            for kind in ("acc", "val acc")
            for series in by_kind.get(kind, [])
            if len(series.values) >= 3
        ),
        None,
    )
    if acc and _improves(acc, max(3, len(values) // 4)):
        return None
    level, began = _Level.of(values, acc), from_the_start(numbers)
    if not level.stays():
        return None
    is_slow = level.falls_slowly(began)
    # A model that has learned also stays at its loss. So the log must have the beginning of the
    # run, unless the loss is that of a guess and nothing moves.
    at_chance = level.is_chance and (began is not False or level.spread < STEADY)
    if not at_chance and not (began and (level.spread < STEADY or is_slow)):
        return None
    if is_slow and not level.is_chance:
        message = f"loss {_how(is_slow)}, from {values[0]:.4g} to {values[-1]:.4g}"
        return NumbersFinding(loss.rows[0], message, SLOW_LOSS)
    chance = f", ln({level.classes})," if level.is_chance else ""
    message = f"loss stays at {level.middle:.3f}{chance} from the start, {_how(is_slow)}"
    if any(series.kind == "margin" for series in numbers.series):
        return NumbersFinding(
            loss.rows[0], f"DPO {message}, rewards margins near 0", DPO_STANDS_STILL
        )
    if acc:
        message += f", accuracy stays at {median(acc.values):.3g}"
    return NumbersFinding(loss.rows[0], message, NOT_LEARNING)


def _improves(acc: Series, quarter: int) -> bool:
    return mean(acc.values[-quarter:]) - mean(acc.values[:quarter]) > 0.1


def _how(is_slow: bool) -> str:
    if is_slow:
        return "falls smoothly but so slowly that nothing is gained"
    return "doesn't fall, the model learns nothing"


def _sinks(values: list[float]) -> bool:
    """Whether a series keeps falling, however slowly.

    It compares values a quarter of the length apart, because single steps may go up.
    """
    later = values[max(1, len(values) // 4) :]
    return values[-1] < values[0] and sum(b <= a for a, b in zip(values, later)) > 0.95 * len(later)


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
