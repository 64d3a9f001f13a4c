"""Judge a training run by the numbers in its log.

Findings are in the words in which people report such runs, because the catalogue is searched by
them. Not every finding is a fault: overfitting, for example, is only mentioned.

Standard library, Python 3.8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from .entries import (
    DETECTION_IS_ZERO,
    DIVERGED,
    FLAT_RATE,
    INPUT_BOUND,
    IOU_IS_ZERO,
    KL_IS_ODD,
    LOSS_SCALE_FALLS,
    NAN_GRADIENT,
    NEAR_CHANCE,
    NEGATIVE_LOSS,
    NORM_SPIKES,
    RAM_GROWS,
    RARE_CLASSES,
    RATE_ENDS_EARLY,
    REWARD_HACKING,
)
from .finding import NumbersFinding
from .loss_shapes import (
    FEWEST,
    TREND,
    apart,
    clamped,
    flat,
    from_the_start,
    huge,
    levels_off,
    mean,
    median,
    negative,
    not_finite,
    plain,
    quarters,
    run_at_end,
    twice,
    unit,
    zero,
)
from .metric_series import Numbers, Series, is_of_all, main_of
from .resumes import resumed

STAYS = FALLEN = 0.8  # share of its first values above which a loss has stayed, below which fallen
HALVED = 0.5
SLOWER, GROWN = 1.8, 1.5  # times the first step time, or the first memory use


@dataclass(frozen=True)
class _Curves:
    """The series of a log by kind. Series of held-out data have kinds such as "val loss".

    Accuracies are shares of 1. `loss` is the training loss.
    """

    numbers: Numbers
    by_kind: dict[str, list[Series]]
    loss: Series | None

    def all(self, *kinds: str) -> list[Series]:
        """Return all series of these kinds."""
        return [series for kind in kinds for series in self.by_kind.get(kind, [])]

    def first(self, kind: str) -> Series | None:
        """Return the first series of a kind, None without one."""
        return next(iter(self.by_kind.get(kind, [])), None)


def findings(numbers: Numbers) -> list[NumbersFinding]:
    """Return what the numbers show, faults first.

    An empty list for a run whose numbers are normal, or too few.
    """
    curves = _curves_of(numbers)
    norm = curves.first("norm")
    broken = _not_finite(curves)
    result = list(broken)
    if curves.loss and not broken:
        result += _of_loss(curves, curves.loss)
    if curves.first("reward"):
        result = _some(*filter(_of_policy_too, result), _collapses(curves))
    if norm:
        result += _some(
            _norm_is_zero(norm, curves.loss),
            None if broken else _norm_is_nan(norm),
            None if result else _norm_jumps(norm),
        )
    causes = _some(_of(curves, "scale", _scale), _of(curves, "lr", partial(_lr, loss=curves.loss)))
    result = result + causes if broken else causes + result  # causes explain a flat loss
    if curves.first("reward") or curves.first("margin"):
        result += _kl_of(curves)
    if not result:
        result += _some(_held_out(curves))
    result += _some(
        _of(curves, "time", _slower),
        _of(curves, "ram", _grows),
        _of(curves, "memory", _grows),
        _waits(curves),
    )
    return sorted(result, key=lambda finding: not finding.fault)


def is_lost(numbers: Numbers) -> bool:
    """Return whether a loss becomes nan or infinite, or the last gradient norm is nan.

    To say so takes no course of many values.
    """
    curves = _curves_of(numbers)
    return bool(_not_finite(curves) or _of(curves, "norm", _norm_is_nan))


def _some(*findings: NumbersFinding | None) -> list[NumbersFinding]:
    """The findings without None."""
    return [finding for finding in findings if finding is not None]


def _curves_of(numbers: Numbers) -> _Curves:
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
    return _Curves(numbers, by_kind, main_of(by_kind.get("loss", [])))


def _not_finite(curves: _Curves) -> list[NumbersFinding]:
    """Find a loss or perplexity that becomes nan or infinite. The training loss comes first."""
    began, norm = from_the_start(curves.numbers), curves.first("norm")
    main = [curves.loss] if curves.loss else []
    for series in [*main, *curves.all("loss", "val loss", "ppl", "val ppl")]:
        finding = not_finite(series, norm if series is curves.loss else None, began)
        if finding:
            return [finding]
    return []


def _of_loss(curves: _Curves, loss: Series) -> list[NumbersFinding]:
    """Judge the course of a finite training loss, and what a resume changed in it."""
    norm, acc = curves.first("norm"), curves.first("acc")
    exact = (
        _twice_over_runs(curves)
        or twice(loss, norm)
        or clamped(loss, acc)
        or clamped(curves.first("val loss") or loss, curves.first("val acc"))
    )
    has_dice = any("dice" in series.name.lower() for series in curves.numbers.series)
    shapes = (
        [exact]
        if exact
        else [
            zero(loss, norm),
            apart(loss, norm) if _minimizes(curves, loss) else None,
            negative(loss) if not has_dice else None,
            huge(loss) if _guesses_classes(curves, loss) else None,
            flat(loss, curves.numbers, curves.by_kind),
            levels_off(loss, acc),
        ]
    )
    return _some(*shapes) + resumed(loss, curves.numbers, curves.first("lr"))


def _minimizes(curves: _Curves, loss: Series) -> bool:
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
    return is_of_all(loss) or not any(map(_has_fallen, others))


def _twice_over_runs(curves: _Curves) -> NumbersFinding | None:
    """Compare two runs of a log: only a whole number between them, step by step, says anything."""
    over_runs = curves.numbers.over_runs
    loss = main_of([each for each in over_runs if each.kind == "loss" and not each.held_out])
    norm = next((each for each in over_runs if each.kind == "norm"), None)
    return twice(loss, norm) if loss else None


def _guesses_classes(curves: _Curves, loss: Series) -> bool:
    """Whether a loss in the hundreds is wrong, because it is about tokens or hardly falls.

    A loss that sums up pixels, boxes or frames may well begin there, but it falls at once.
    """
    if len(loss.values) < FEWEST:
        return False
    first, second = loss.values[:2]
    if second < HALVED * first:
        return False
    is_known = curves.numbers.of_tokens or curves.all("ppl", "val ppl")
    counted = {number for number, _, _ in curves.numbers.counts}
    is_of_steps = sum(row in counted for row in loss.rows) > len(loss.rows) // 2
    return bool(is_known) or is_of_steps and mean(loss.values[-2:]) > STAYS * mean(loss.values[:2])


def _of_policy_too(finding: NumbersFinding) -> bool:
    """Whether a finding counts for a policy, whose loss is often 0, negative or without a trend."""
    return finding.entry not in (DIVERGED, NEGATIVE_LOSS) and "exactly 0.0" not in finding.message


def _of(
    curves: _Curves, kind: str, judge: Callable[[Series], NumbersFinding | None]
) -> NumbersFinding | None:
    """Judge the first series of a kind."""
    series = curves.first(kind)
    return judge(series) if series else None


def _norm_is_zero(norm: Series, loss: Series | None) -> NumbersFinding | None:
    if len(norm.values) < FEWEST or any(norm.values):
        return None
    if loss and _has_fallen(loss):
        return None  # the model learns: the framework prints 0.000 for a norm that it doesn't know
    return NumbersFinding(
        norm.rows[0], "gradients are exactly zero in every step, nothing is learned"
    )


def _norm_is_nan(norm: Series) -> NumbersFinding | None:
    """Find a gradient that is nan at the end: the weights may be by the next step."""
    if not math.isnan(norm.values[-1]):
        return None
    count = run_at_end(norm.values, math.isnan)
    message = f"grad_norm is nan in the last {'step' if count == 1 else f'{count} steps'}"
    return NumbersFinding(norm.rows[-count], message, NAN_GRADIENT)


def _norm_jumps(norm: Series) -> NumbersFinding | None:
    values = [value for value in norm.values if math.isfinite(value)]
    usual = median(values) if len(values) >= 2 * TREND else 0
    jumps = [at for at, value in enumerate(norm.values) if usual and value > max(20 * usual, 10)]
    if not 2 < len(jumps) < len(values) / 3 or jumps[2] < len(values) / 20:
        return None
    most = max(norm.values[at] for at in jumps)
    return NumbersFinding(
        norm.rows[jumps[0]],
        f"grad_norm jumps from {usual:.2g} to {most:.0f} on single batches, in {len(jumps)} of "
        f"{len(norm.values)} steps",
        NORM_SPIKES,
    )


def _lr(lr: Series, loss: Series | None) -> NumbersFinding | None:
    zero = run_at_end(lr.values, lambda value: value <= 1e-6 * max(lr.values))
    if len(lr.values) < FEWEST or zero < max(FEWEST, 0.2 * len(lr.values)):
        return None
    if not any(lr.values):
        if loss and _has_fallen(loss):
            return None  # the model learns: 2e-5 was printed as 0.0000
        return NumbersFinding(lr.rows[0], "logged learning rate is 0 in every step", FLAT_RATE)
    return NumbersFinding(
        lr.rows[-zero],
        "learning rate reaches zero early, long before the end of training",
        RATE_ENDS_EARLY,
    )


def _has_fallen(loss: Series) -> bool:
    """Whether a loss ended well below its start."""
    return mean(loss.values[-2:]) < FALLEN * mean(loss.values[:2])


def _scale(scale: Series) -> NumbersFinding | None:
    values = scale.values
    if (
        len(values) < FEWEST
        or not 0 < values[-1] < values[0] / 2**FEWEST
        or any(b > a for a, b in zip(values, values[1:]))
    ):
        return None
    return NumbersFinding(
        scale.rows[0],
        f"fp16 loss scale halves again and again, from {values[0]:g} to {values[-1]:g}",
        LOSS_SCALE_FALLS,
    )


def _kl_of(curves: _Curves) -> list[NumbersFinding]:
    """Judge the first KL divergence that isn't an approximation."""
    exact = [series for series in curves.all("kl") if "approx" not in series.name.lower()]
    return _some(*map(_kl, exact[:1]))


def _kl(kl: Series) -> NumbersFinding | None:
    values = kl.values
    if len(values) < TREND:
        return None
    quarter = max(3, len(values) // 4)
    head, tail = mean(values[:quarter]), mean(values[-quarter:])
    if tail < -0.01 and sum(value < 0 for value in values[-quarter:]) * 4 >= quarter * 3:
        return NumbersFinding(
            kl.rows[-quarter], f"KL divergence to the reference is negative, {tail:.3g}", KL_IS_ODD
        )
    if tail > 10 and tail > 10 * abs(head):
        return NumbersFinding(
            kl.rows[-quarter],
            f"KL to the reference model grows without end, from {head:.3g} to {tail:.3g}",
            KL_IS_ODD,
        )
    return None


def _collapses(curves: _Curves) -> NumbersFinding | None:
    """Find a reward that rises while the answers or their entropy shrink to nothing."""
    reward = curves.all("reward")[0].values
    quarter = max(3, len(reward) // 4)
    if len(reward) < TREND or mean(reward[-quarter:]) <= mean(reward[:quarter]):
        return None
    for kind, what in (
        ("length", "answers turn very short"),
        ("entropy", "entropy collapses to 0, answers turn identical"),
    ):
        series = curves.first(kind)
        if not series or len(series.values) < TREND:
            continue
        start, end = mean(series.values[:quarter]), median(series.values[-quarter:])
        if start > 0 and end < 0.2 * start:
            return NumbersFinding(
                series.rows[-quarter],
                f"reward keeps rising, then {what}, from {series.values[0]:.3g} to "
                f"{series.values[-1]:.3g}",
                REWARD_HACKING,
            )
    return None


def _held_out(curves: _Curves) -> NumbersFinding | None:
    """Judge the held-out data of a run whose training shows no fault."""
    return (
        _near_chance(curves) or _always_the_same(curves) or _no_score(curves) or _overfits(curves)
    )


def _long(curves: _Curves, kind: str) -> Series | None:
    """The first series of a kind with enough values."""
    return next((series for series in curves.all(kind) if len(series.values) >= FEWEST), None)


def _falls(loss: Series | None, to: float = 0.8) -> bool:
    """Whether a loss ends below this share of its first value."""
    return bool(loss and len(loss.values) >= FEWEST and loss.values[-1] < to * loss.values[0])


def _near_chance(curves: _Curves) -> NumbersFinding | None:
    """Find a validation accuracy that hardly moves, far below the training accuracy."""
    val_acc, acc = _long(curves, "val acc"), _long(curves, "acc")
    if not val_acc or not max(val_acc.values) - min(val_acc.values) < 0.15:
        return None
    top = acc.values[-1] if acc else 0
    is_far_below = top > 0.6 and max(val_acc.values) < 0.5 * top
    is_low = not acc and _falls(curves.loss, to=0.5) and max(val_acc.values) < 0.4
    if not is_far_below and not is_low:
        return None
    other = (
        f"training accuracy is high, {acc.values[-1]:.3g}"
        if acc
        else "the training loss falls as it should"
    )
    return NumbersFinding(
        val_acc.rows[0],
        f"validation accuracy stays near chance at {median(val_acc.values):.3g} though {other}",
        NEAR_CHANCE,
    )


def _always_the_same(curves: _Curves) -> NumbersFinding | None:
    """Find an accuracy that never changes."""
    for series in (_long(curves, "acc"), _long(curves, "val acc")):
        if series and len(set(series.values)) == 1 and 0 < series.values[0] < 0.98:
            name = "validation accuracy" if series.held_out else "accuracy"
            end = ", training loss falls" if _falls(curves.loss) else ""
            return NumbersFinding(
                series.rows[0],
                f"{name} is exactly {series.values[0]:g} in every epoch, the model predicts "
                f"one class{end}",
            )
    return None


def _no_score(curves: _Curves) -> NumbersFinding | None:
    """Find a score that is 0 in every evaluation."""
    for score in curves.all("val score", "score"):
        if len(score.values) >= 3 and not any(score.values):
            name = score.name.lower()
            entry = (
                IOU_IS_ZERO
                if "iou" in name
                else DETECTION_IS_ZERO
                if "ap" in name
                else RARE_CLASSES
            )
            end = " while the loss falls" if _falls(curves.loss) else ""
            return NumbersFinding(
                score.rows[0], f"{plain(score)} is exactly 0 in every evaluation{end}", entry
            )
    return None


def _overfits(curves: _Curves) -> NumbersFinding | None:
    """Find a validation loss that rises in at least the last quarter while training loss falls."""
    val_loss = _long(curves, "val loss")
    if not val_loss or not _falls(curves.loss) or not all(map(math.isfinite, val_loss.values)):
        return None
    low = min(range(len(val_loss.values)), key=val_loss.values.__getitem__)
    if not val_loss.values[-1] > 1.15 * val_loss.values[low] > 0 or low >= 0.75 * len(
        val_loss.values
    ):
        return None
    message = (
        f"validation loss rises from {val_loss.values[low]:.4g} to {val_loss.values[-1]:.4g} while "
        "the training loss falls, which is overfitting"
    )
    return NumbersFinding(val_loss.rows[low], message, fault=False)


def _slower(time: Series) -> NumbersFinding | None:
    values = time.values
    if sum(b >= a for a, b in zip(values, values[1:])) > 0.95 * (len(values) - 1):
        return None  # the time since the start
    steps = quarters(values)
    if not steps or steps[3] < SLOWER * steps[0] or steps != sorted(steps):
        return None
    return NumbersFinding(
        time.rows[0],
        f"each step takes longer and longer, {steps[0]:.3g} s at the beginning and {steps[3]:.3g} "
        "s at last",
        fault=False,
    )


def _grows(memory: Series) -> NumbersFinding | None:
    steps = quarters(memory.values)
    if (
        not steps
        or steps[3] < GROWN * steps[0]
        or not all(b > 1.05 * a for a, b in zip(steps, steps[1:]))
    ):
        return None
    text = f"from {memory.values[0]:.4g} to {memory.values[-1]:.4g}"
    if memory.kind == "ram":
        return NumbersFinding(memory.rows[0], f"host RAM climbs every epoch, {text}", RAM_GROWS)
    return NumbersFinding(memory.rows[0], f"GPU memory grows with every step, {text}", fault=False)


def _waits(curves: _Curves) -> NumbersFinding | None:
    """Find steps that mostly wait for their data."""
    data, time = curves.first("data"), curves.first("time")
    if not data or not time or len(data.values) < TREND:
        return None
    waited, whole = median(data.values), median(time.values)
    if whole <= 0 or waited < 0.5 * whole:
        return None
    share = 100 * waited / whole
    message = f"data loading takes {share:.0f} % of each step, the GPU waits for its input"
    return NumbersFinding(data.rows[0], message, INPUT_BOUND)
