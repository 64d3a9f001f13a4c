"""What the course of anything but a loss shows: norms, rates, scores, rewards, times and memory.

Each function is the `find` of a row of `checks.CHECKS`: it takes the curves and the limit of its
row. Standard library, Python 3.8.
"""

from __future__ import annotations

import math
from typing import Callable, Optional

from .curves import (
    FEWEST,
    TREND,
    Curves,
    has_fallen,
    mean,
    median,
    plain,
    quarters,
    run_at_end,
)
from .finding import NumbersFinding
from .metric_series import Series

Find = Callable[[Curves, float], Optional[NumbersFinding]]

SPIKE = 10  # a gradient norm below this is no spike
TOP = 0.6  # training accuracy from which a low validation accuracy is odd
LOW = 0.4  # the same accuracy without that of training
STILL = 0.15  # an accuracy that moves by less hardly moves


def falls_again_and_again(curves: Curves, halvings: float) -> NumbersFinding | None:
    """Find a loss scale that is halved so many times and never raised."""
    scale = curves.first("scale", least=FEWEST)
    values = scale.values if scale else []
    if not scale or not 0 < values[-1] < values[0] / 2**halvings:
        return None
    if any(b > a for a, b in zip(values, values[1:])):
        return None
    message = f"fp16 loss scale halves again and again, from {values[0]:g} to {values[-1]:g}"
    return NumbersFinding(scale.rows[0], message)


def _zeros_at_end(lr: Series, share: float) -> int:
    """The number of rates at the end that are zero; 0 where they are less than a share of all."""
    zeros = run_at_end(lr.values, lambda value: value <= 1e-6 * max(lr.values))
    return zeros if zeros >= max(FEWEST, share * len(lr.values)) else 0


def is_rate_zero(curves: Curves, share: float) -> NumbersFinding | None:
    """Find a learning rate of zero. Where the loss falls, 2e-5 was printed as 0.0000."""
    lr = curves.first("lr", least=FEWEST)
    if not lr or any(lr.values) or not _zeros_at_end(lr, share) or has_fallen(curves.loss):
        return None
    return NumbersFinding(lr.rows[0], "logged learning rate is 0 in every step")


def ends_early(curves: Curves, share: float) -> NumbersFinding | None:
    """Find a learning rate that is zero over the last share of a run."""
    lr = curves.first("lr", least=FEWEST)
    zeros = _zeros_at_end(lr, share) if lr and any(lr.values) else 0
    if not lr or not zeros:
        return None
    message = "learning rate reaches zero early, long before the end of training"
    return NumbersFinding(lr.rows[-zeros], message)


def collapses(curves: Curves, left: float) -> NumbersFinding | None:
    """Find a reward that rises while the answers or their entropy shrink to a share."""
    reward = curves.first("reward")
    values = reward.values if reward else []
    quarter = max(3, len(values) // 4)
    if len(values) < TREND or mean(values[-quarter:]) <= mean(values[:quarter]):
        return None
    for kind, what in (
        ("length", "answers turn very short"),
        ("entropy", "entropy collapses to 0, answers turn identical"),
    ):
        series = curves.first(kind)
        if not series or len(series.values) < TREND:
            continue
        start, end = mean(series.values[:quarter]), median(series.values[-quarter:])
        if start > 0 and end < left * start:
            message = (
                f"reward keeps rising, then {what}, from {series.values[0]:.3g} to "
                f"{series.values[-1]:.3g}"
            )
            return NumbersFinding(series.rows[-quarter], message)
    return None


def is_norm_zero(curves: Curves, least: float) -> NumbersFinding | None:
    """Find gradients of zero. Where the loss falls, a framework prints 0 for a norm unknown."""
    norm = curves.first("norm")
    if not norm or len(norm.values) < least or any(norm.values) or has_fallen(curves.loss):
        return None
    message = "gradients are exactly zero in every step, nothing is learned"
    return NumbersFinding(norm.rows[0], message)


def is_norm_nan(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a gradient that is nan at the end: the weights may be by the next step."""
    norm = curves.first("norm")
    count = run_at_end(norm.values, math.isnan) if norm else 0
    if not norm or count < least:
        return None
    message = f"grad_norm is nan in the last {'step' if count == 1 else f'{count} steps'}"
    return NumbersFinding(norm.rows[-count], message)


def jumps(curves: Curves, times: float) -> NumbersFinding | None:
    """Find a gradient norm far above its median on some batches throughout a run."""
    norm = curves.first("norm")
    values = [value for value in norm.values if math.isfinite(value)] if norm else []
    usual = median(values) if len(values) >= 2 * TREND else 0
    if not norm or not usual:
        return None
    spikes = [at for at, value in enumerate(norm.values) if value > max(times * usual, SPIKE)]
    if not 2 < len(spikes) < len(values) / 3 or spikes[2] < len(values) / 20:
        return None
    most = max(norm.values[at] for at in spikes)
    message = (
        f"grad_norm jumps from {usual:.2g} to {most:.0f} on single batches, in {len(spikes)} of "
        f"{len(norm.values)} steps"
    )
    return NumbersFinding(norm.rows[spikes[0]], message)


def _exact_kl(curves: Curves) -> Series | None:
    """The first KL divergence of a policy that is no approximation, if it is long enough."""
    if not curves.first("reward") and not curves.first("margin"):
        return None
    exact = [each for each in curves.all("kl") if "approx" not in each.name.lower()]
    return exact[0] if exact and len(exact[0].values) >= TREND else None


def is_kl_negative(curves: Curves, most: float) -> NumbersFinding | None:
    """Find a KL divergence that ends below the limit, in three of four values of its end."""
    kl = _exact_kl(curves)
    quarter = max(3, len(kl.values) // 4) if kl else 0
    tail = kl.values[-quarter:] if kl else []
    if not kl or mean(tail) >= most or sum(value < 0 for value in tail) * 4 < quarter * 3:
        return None
    message = f"KL divergence to the reference is negative, {mean(tail):.3g}"
    return NumbersFinding(kl.rows[-quarter], message)


def grows_without_end(curves: Curves, least: float) -> NumbersFinding | None:
    """Find a KL divergence that ends above the limit, and at ten times its start."""
    kl = _exact_kl(curves)
    quarter = max(3, len(kl.values) // 4) if kl else 0
    if not kl:
        return None
    start, end = mean(kl.values[:quarter]), mean(kl.values[-quarter:])
    if end <= least or end <= 10 * abs(start):
        return None
    message = f"KL to the reference model grows without end, from {start:.3g} to {end:.3g}"
    return NumbersFinding(kl.rows[-quarter], message)


def is_near_chance(curves: Curves, share: float) -> NumbersFinding | None:
    """Find a validation accuracy that hardly moves, far below the training accuracy."""
    val_acc, acc = curves.first("val acc", least=FEWEST), curves.first("acc", least=FEWEST)
    if not val_acc or not max(val_acc.values) - min(val_acc.values) < STILL:
        return None
    top, best = acc.values[-1] if acc else 0, max(val_acc.values)
    is_far_below = top > TOP and best < share * top
    is_low = not acc and curves.loss_falls(to=0.5) and best < LOW
    if not is_far_below and not is_low:
        return None
    other = (
        f"training accuracy is high, {top:.3g}" if acc else "the training loss falls as it should"
    )
    usual = median(val_acc.values)
    message = f"validation accuracy stays near chance at {usual:.3g} though {other}"
    return NumbersFinding(val_acc.rows[0], message)


def is_always_the_same(curves: Curves, most: float) -> NumbersFinding | None:
    """Find an accuracy below the limit that never changes."""
    for kind, name in (("acc", "accuracy"), ("val acc", "validation accuracy")):
        series = curves.first(kind, least=FEWEST)
        if series and len(set(series.values)) == 1 and 0 < series.values[0] < most:
            end = ", training loss falls" if curves.loss_falls() else ""
            message = (
                f"{name} is exactly {series.values[0]:g} in every epoch, the model predicts one "
                f"class{end}"
            )
            return NumbersFinding(series.rows[0], message)
    return None


def score_of_zero(
    has_name: Callable[[str], bool],
) -> Callable[[Curves, float], NumbersFinding | None]:
    """Return a check for a score of such a name that is 0 in every evaluation."""

    def find(curves: Curves, least: float) -> NumbersFinding | None:
        for score in curves.all("val score", "score"):
            if (
                len(score.values) >= least
                and not any(score.values)
                and has_name(score.name.lower())
            ):
                end = " while the loss falls" if curves.loss_falls() else ""
                message = f"{plain(score)} is exactly 0 in every evaluation{end}"
                return NumbersFinding(score.rows[0], message)
        return None

    return find


def overfits(curves: Curves, times: float) -> NumbersFinding | None:
    """Find a validation loss that rises in at least the last quarter while training loss falls."""
    val_loss = curves.first("val loss", least=FEWEST)
    if not val_loss or not curves.loss_falls() or not all(map(math.isfinite, val_loss.values)):
        return None
    values = val_loss.values
    low = min(range(len(values)), key=values.__getitem__)
    if not values[-1] > times * values[low] > 0 or low >= 0.75 * len(values):
        return None
    message = (
        f"validation loss rises from {values[low]:.4g} to {values[-1]:.4g} while the training loss "
        "falls, which is overfitting"
    )
    return NumbersFinding(val_loss.rows[low], message)


def slows_down(curves: Curves, times: float) -> NumbersFinding | None:
    """Find steps that take longer and longer. A time that never falls is that since the start."""
    time = curves.first("time")
    values = time.values if time else []
    if not time or sum(b >= a for a, b in zip(values, values[1:])) > 0.95 * (len(values) - 1):
        return None
    steps = quarters(values)
    if not steps or steps[3] < times * steps[0] or steps != sorted(steps):
        return None
    message = (
        f"each step takes longer and longer, {steps[0]:.3g} s at the beginning and {steps[3]:.3g} "
        "s at last"
    )
    return NumbersFinding(time.rows[0], message)


def memory_grows(kind: str, words: str) -> Find:
    """Return a check for memory of a kind that grows from quarter to quarter."""

    def find(curves: Curves, times: float) -> NumbersFinding | None:
        memory = curves.first(kind)
        steps = quarters(memory.values) if memory else []
        if not memory or not steps or steps[3] < times * steps[0]:
            return None
        if not all(b > 1.05 * a for a, b in zip(steps, steps[1:])):
            return None
        message = f"{words}, from {memory.values[0]:.4g} to {memory.values[-1]:.4g}"
        return NumbersFinding(memory.rows[0], message)

    return find


def waits_for_data(curves: Curves, share: float) -> NumbersFinding | None:
    """Find steps that spend a share of their time on waiting for data."""
    data, time = curves.first("data", least=TREND), curves.first("time")
    if not data or not time:
        return None
    waited, whole = median(data.values), median(time.values)
    if whole <= 0 or waited < share * whole:
        return None
    part = 100 * waited / whole
    message = f"data loading takes {part:.0f} % of each step, the GPU waits for its input"
    return NumbersFinding(data.rows[0], message)
