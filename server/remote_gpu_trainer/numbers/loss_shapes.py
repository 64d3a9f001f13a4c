"""What the course of a training loss shows: not finite, flat, rising for good, changed by a resume.

Each function is the `find` of a row of `checks.CHECKS`: it takes the curves and the limit of its
row. Standard library, Python 3.8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .curves import (
    FEWEST,
    TREND,
    Curves,
    from_the_start,
    has_fallen,
    mean,
    median,
    plain,
)
from .finding import NumbersFinding
from .metric_series import Numbers, Series, is_of_all, main_of

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
LOST = 0.15  # share of the fall of a loss that is lost again where it rises for good
STAYS = 0.8  # share of its first values above which a loss has stayed
HALVED = 0.5
BESIDE = 3  # values on each side of a resume
FELL = 0.2  # share of the earlier learning rate below which a warm-up has started again


def is_not_finite(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a loss or perplexity that becomes nan or infinite; the training loss comes first."""
    main = [curves.loss] if curves.loss else []
    return _first_not_finite([*main, *curves.all("loss", "val loss", "ppl")], curves, least)


def is_ppl_not_finite(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a perplexity of held-out data that becomes nan or infinite."""
    return _first_not_finite(curves.all("val ppl"), curves, least)


def _first_not_finite(several: list[Series], curves: Curves, least: float) -> NumbersFinding | None:
    found = (_not_finite(series, curves, least) for series in several)
    return next((finding for finding in found if finding), None)


def _not_finite(series: Series, curves: Curves, least: float) -> NumbersFinding | None:
    """A single bad value with good ones after it is no fault."""
    values = series.values
    bad = [at for at, value in enumerate(values) if not math.isfinite(value)]
    if not bad or (len(bad) < least and bad[0] < len(values) - 1):
        return None
    at, name = bad[0], plain(series)
    what = "nan" if any(math.isnan(values[i]) for i in bad) else "inf"
    lost = series.kind == "loss" and not series.held_out
    if at == 0:
        began = from_the_start(curves.numbers)
        where = "from its first value on" if began is not False else "in every line"
        return NumbersFinding(series.rows[0], f"{name} is {what} {where}", lost=lost)
    if len(bad) * 2 < len(values) - at:  # some steps only
        message = f"{name} is {what} in {len(bad)} of {len(values)} steps"
        return NumbersFinding(series.rows[at], message)
    message = f"{name} suddenly becomes {what} and stays {what}"
    return NumbersFinding(series.rows[at], message, lost=lost)


def is_multiple(curves: Curves, off: float) -> NumbersFinding | None:
    """Find two runs in one log, the second with the losses of the first times a whole number.

    Gradient accumulation that isn't divided by its steps does this. Over several runs of a log
    only such a number, step by step, says anything.
    """
    over_runs = curves.numbers.over_runs
    before = main_of([each for each in over_runs if each.kind == "loss" and not each.held_out])
    norm = next((each for each in over_runs if each.kind == "norm"), None)
    first = _multiple(before, norm, off) if before else None
    return first or (_multiple(curves.loss, curves.first("norm"), off) if curves.loss else None)


def _multiple(loss: Series, norm: Series | None, off: float) -> NumbersFinding | None:
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
    if times < 2 or any(abs(ratio - times) > off * times for ratio in ratios):
        return None
    what = "loss and gradient norm are" if norm else "loss is"
    return NumbersFinding(
        loss.rows[half],
        f"{what} exactly {times} times larger in the second run, step by step, as with gradient "
        "accumulation that doesn't divide",
    )


def is_saturated(curves: Curves, off: float) -> NumbersFinding | None:
    """Find a binary loss of saturated outputs.

    PyTorch clamps the logarithm at -100, so the loss is 100 times the share of wrong answers.
    """
    if not curves.loss:
        return None
    return _clamped(curves.loss, curves.first("acc"), off) or _clamped(
        curves.first("val loss") or curves.loss, curves.first("val acc"), off
    )


def _clamped(loss: Series, acc: Series | None, off: float) -> NumbersFinding | None:
    if not acc or len(acc.values) != len(loss.values) or len(loss.values) < TREND:
        return None
    pairs = list(zip(loss.rows, loss.values, acc.values))[-FEWEST:]
    if all(value > 5 and abs(value - 100 * (1 - right)) < off * value for _, value, right in pairs):
        row = next(row for row, value in zip(loss.rows, loss.values) if value > 5)
        return NumbersFinding(
            row,
            f"binary loss jumps to {loss.values[-1]:.3g} of 100, outputs are saturated",
        )
    return None


def is_zero(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a loss that is exactly 0 from the first step. That of a policy often is."""
    loss = curves.loss
    if not loss or curves.first("reward") or len(loss.values) < least or any(loss.values):
        return None
    return NumbersFinding(loss.rows[0], "loss is exactly 0.0 from the first step")


def rises_for_good(curves: Curves, risen: float) -> NumbersFinding | None:
    """Find a loss that fell and then rose for good, or that rises from the start.

    A rising loss says nothing of a policy, nor where another one of several falls.
    """
    loss = curves.loss
    if not loss or curves.first("reward") or not _minimizes(curves, loss):
        return None
    values = loss.values
    if len(values) < TREND or min(values) <= 0:
        return None
    width = max(3, len(values) // 10)
    smooth = [
        median(values[max(0, at - width + 1) : at + 1]) for at in range(width - 1, len(values))
    ]
    low = min(range(len(smooth)), key=smooth.__getitem__)
    least, last, first = smooth[low], smooth[-1], smooth[0]
    if not _stays_up(values, smooth, low, risen):
        return None
    row = loss.rows[min(len(values) - 1, low + width)]
    if last > risen * first:
        message = f"loss diverges: it rises from {least:.3g} to {last:.3g} and explodes"
    else:
        message = f"loss falls to {least:.3g}, then jumps to {last:.3g} and stays up"
    return NumbersFinding(row, message)


def _minimizes(curves: Curves, loss: Series) -> bool:
    """Whether a rising loss means that the run fell apart.

    Where several losses stand side by side and none is named as the one of all, as those of a
    generator and a discriminator, one may rise against another: then none of them may have fallen.
    """
    others = [
        each
        for each in curves.all("loss")
        if each is not loss
        and 2 * len(each.values) > len(loss.values)
        and len(each.values) >= TREND
    ]
    return is_of_all(loss) or not any(map(has_fallen, others))


def _stays_up(values: list[float], smooth: list[float], low: int, times: float) -> bool:
    """Whether a loss ends far above its lowest value, by more than noise, and not only at the end.

    `smooth` are running medians, and `low` is the place of the lowest one.
    """
    least, risen = smooth[low], smooth[-1] - smooth[low]
    noise = median([abs(b - a) for a, b in zip(values, values[1:])])
    return not (
        smooth[-1] < times * least
        or risen < 3 * noise
        or risen < LOST * (values[0] - least)
        or min(smooth[-max(2, len(smooth) // 5) :]) < 1.25 * least
        or len(smooth) - low < 3
    )


# Losses with these names may be below zero, and may begin in the hundreds.
_BELOW_ZERO = ("actor", "policy", "elbo", "nll", "gen", "critic", "_g", "_d")
_SUMMED = ("mse", "l1", "recon", "elbo", "encoder")


def is_negative(curves: Curves, share: float) -> NumbersFinding | None:
    """Find a loss that falls below 0 without limit. Dice and the loss of a policy may do so."""
    loss = curves.loss
    has_dice = any("dice" in series.name.lower() for series in curves.numbers.series)
    if not loss or has_dice or curves.first("reward"):
        return None
    values, name = loss.values, loss.name.lower()
    below = [row for row, value in zip(loss.rows, values) if value < 0]
    if any(word in name for word in _BELOW_ZERO) or len(values) < TREND:
        return None
    if len(below) < share * len(values) or values[-1] >= 0 or values[-1] > min(values) / 2:
        return None
    message = f"training loss is negative and falls without limit, at last {values[-1]:.4g}"
    return NumbersFinding(below[0], message)


def is_huge(curves: Curves, most: float) -> NumbersFinding | None:
    """Find a first loss above the limit, unless its name suggests such values."""
    loss = curves.loss
    if not loss or len(loss.values) < FEWEST or not loss.values[0] > most:
        return None
    if any(word in loss.name.lower() for word in _SUMMED) or not _guesses_classes(curves, loss):
        return None
    return NumbersFinding(loss.rows[0], f"first loss is in the hundreds, {loss.values[0]:.0f}")


def _guesses_classes(curves: Curves, loss: Series) -> bool:
    """Whether a loss in the hundreds is wrong, because it is about tokens or hardly falls.

    A loss that sums up pixels, boxes or frames may well begin there, but it falls at once.
    """
    first, second = loss.values[:2]
    if second < HALVED * first:
        return False
    is_known = curves.numbers.of_tokens or curves.all("ppl", "val ppl")
    counted = {number for number, _, _ in curves.numbers.counts}
    is_of_steps = sum(row in counted for row in loss.rows) > len(loss.rows) // 2
    return bool(is_known) or is_of_steps and mean(loss.values[-2:]) > STAYS * mean(loss.values[:2])


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


def _flat_level(curves: Curves) -> tuple[_Level, Series | None, bool] | None:
    """The level of a loss that stays at its first value, the accuracy, and whether it sinks slowly.

    It is either the loss of an untrained model, or a value that doesn't move at all. A model that
    has learned also stays at its loss, so the log must have the beginning of the run, unless the
    loss is that of a guess and nothing moves.
    """
    values = [value for value in curves.loss.values if math.isfinite(value)] if curves.loss else []
    if len(values) < TREND or min(values) <= 0:
        return None
    acc = curves.first("acc", least=3) or curves.first("val acc", least=3)
    if acc and _improves(acc, max(3, len(values) // 4)):
        return None
    level, began = _Level.of(values, acc), from_the_start(curves.numbers)
    if not level.stays():
        return None
    is_slow = level.falls_slowly(began)
    at_chance = level.is_chance and (began is not False or level.spread < STEADY)
    is_flat = at_chance or (began and (level.spread < STEADY or is_slow))
    return (level, acc, is_slow) if is_flat else None


def is_slow(curves: Curves, most: float) -> NumbersFinding | None:
    """Find a loss that falls from its start, but by less than a share of itself."""
    flat = _flat_level(curves)
    if not curves.loss or not flat or not flat[2] or flat[0].is_chance:
        return None
    if abs(flat[0].moved) > most:
        return None
    values = flat[0].values
    message = f"loss {_how(True)}, from {values[0]:.4g} to {values[-1]:.4g}"
    return NumbersFinding(curves.loss.rows[0], message)


def is_flat(curves: Curves, most: float) -> NumbersFinding | None:
    """Find a loss that stays at its first value, and name the guess that has this loss."""
    flat = _flat_level(curves)
    if not curves.loss or not flat:
        return None
    level, acc, slow = flat
    if abs(level.moved) > most or slow and not level.is_chance:
        return None
    chance = f", ln({level.classes})," if level.is_chance else ""
    message = f"loss stays at {level.middle:.3f}{chance} from the start, {_how(slow)}"
    if acc:
        message += f", accuracy stays at {median(acc.values):.3g}"
    return NumbersFinding(curves.loss.rows[0], message)


def is_dpo_flat(curves: Curves, most: float) -> NumbersFinding | None:
    """Find a flat loss beside the margins of rewards."""
    flat = is_flat(curves, most) if curves.all("margin") else None
    if not flat:
        return None
    return NumbersFinding(flat.row, f"DPO {flat.message}, rewards margins near 0")


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


def levels_off(curves: Curves, above: float) -> NumbersFinding | None:
    """Find a loss that levels off at ln(1 + (k - 1) / e).

    That is the lowest cross entropy of k outputs to which a softmax was already applied.
    """
    loss, acc = curves.loss, curves.first("acc")
    if not loss or not acc or len(loss.values) < TREND or max(acc.values) < 0.8:
        return None
    tail = median(loss.values[-max(3, len(loss.values) // 4) :])
    for classes in (10, 100, 1000):
        least = math.log(1 + (classes - 1) / math.e)
        if least * 0.999 < min(loss.values) and tail < least * (1 + above):
            return NumbersFinding(
                loss.rows[-1],
                f"loss never gets below {least:.2f} with {classes} classes though accuracy is "
                f"{max(acc.values):.3g}",
            )
    return None


def _sides(series: Series | None, row: int, numbers: Numbers) -> tuple[list[float], list[float]]:
    """The values before a resume, and those after it.

    A run that resumes at an earlier step than it had reached is compared with that step: the values
    behind it are left out.
    """
    pairs = list(zip(series.rows, series.values)) if series else []
    after = [(count, what) for at, count, what in numbers.counts if at > row]
    last = row
    if after:
        first, what = after[0]
        reached = [
            at
            for at, count, of in numbers.counts
            if at < row and of == what and count >= first > 1e-9
        ]
        last = min(reached, default=row)
    return [value for at, value in pairs if at < last], [value for at, value in pairs if at > row]


def jumps_at_resume(curves: Curves, times: float) -> NumbersFinding | None:
    """Find a loss that is far above its last values right after a resume."""
    for row in curves.numbers.resumed:
        before, after = _sides(curves.loss, row, curves.numbers)
        if len(before) < BESIDE or len(after) < BESIDE:
            continue
        usual = median(before[-5:])
        # Values may be nan, for which every comparison is false.
        if after[0] > times * usual > 0 and after[0] > 1.1 * max(before[-10:]):
            message = f"loss jumps right after resume from {usual:.3g} to {after[0]:.3g}"
            return NumbersFinding(row, message)
    return None


def rate_begins_again(curves: Curves, times: float) -> NumbersFinding | None:
    """Find a learning rate that warms up again after a resume, or jumps."""
    for row in curves.numbers.resumed:
        before, after = _sides(curves.loss, row, curves.numbers)
        old, new = _sides(curves.first("lr"), row, curves.numbers)
        if min(len(before), len(after)) < BESIDE or not old or not new:
            continue
        message = _rate_change(old, new, times)
        if message:
            return NumbersFinding(row, message)
    return None


def _rate_change(old: list[float], new: list[float], times: float) -> str:
    """What a learning rate did over a resume, "" where it went on."""
    is_long = len(new) >= BESIDE
    if is_long and new[0] < FELL * old[-1] and max(new) > 3 * new[0]:
        return "learning rate replays its warm-up after resume"
    had_decayed, rises_above = old[-1] < 0.9 * max(old), max(new) > 1.5 * old[-1]
    if is_long and had_decayed and rises_above and new[0] < 0.9 * max(new):
        return "learning rate restarts after resume and replays its warm-up"
    if old[-1] > 0 and new[0] > times * old[-1]:
        return (
            f"learning rate jumps after resume from {old[-1]:.3g} to {new[0]:.3g}, "
            "the scheduler starts again"
        )
    return ""


def counts_again(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a count of steps or epochs that starts again after a resume."""
    counts = curves.numbers.counts
    for row in curves.numbers.resumed:
        before = [(count, what) for at, count, what in counts if at < row and what]
        if not before:
            continue
        last, what = before[-1]
        first = next((count for at, count, of in counts if at > row and of == what), None)
        if first is not None and first <= 1 and last > least:
            message = f"resumed run counts from {first:.0f} again, it was at {last:.0f}"
            return NumbersFinding(row, message)
    return None
