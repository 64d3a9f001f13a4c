"""Judge a training run by the numbers in its log.

Findings use the words in which people report such runs, because the catalogue is searched by these
words. Not every finding is a fault: a validation loss that rises while the training loss falls is
only mentioned. Standard library, Python 3.8.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .finding import Finding
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
from .metric_series import Numbers, Series, main_of

SLOWER, GROWN = 1.8, 1.5  # times the first step time, or the first memory use


def findings(numbers: Numbers) -> list[Finding]:
    """Return what the numbers show, faults first.

    None for a run whose numbers are normal, or too few.
    """
    by_kind: dict[str, list[Series]] = {}
    percent = max((unit(series) for series in numbers.series if series.kind == "acc"), default=1.0)
    for series in numbers.series:
        told = series
        if series.kind == "acc":  # as shares of 1 from here on
            if series.name.rstrip().endswith("5"):  # of five guesses
                continue
            told = replace(series, values=[value / percent for value in series.values])
        held_out = series.held_out and series.kind in ("loss", "acc", "score", "ppl")
        by_kind.setdefault(("val " if held_out else "") + series.kind, []).append(told)
    loss = main_of(by_kind.get("loss", []))
    norm, acc = _first(by_kind, "norm"), _first(by_kind, "acc")
    found: list[Finding | None] = []
    for series in [
        loss,
        *by_kind.get("loss", []),
        *by_kind.get("val loss", []),
        *by_kind.get("ppl", []),
        *by_kind.get("val ppl", []),
    ]:
        if series and not any(found):
            found.append(
                not_finite(series, norm if series is loss else None, from_the_start(numbers))
            )
    lost = list(found)
    if loss and not any(found):
        one = (
            twice(loss, norm)
            or clamped(loss, acc)
            or clamped(_first(by_kind, "val loss") or loss, _first(by_kind, "val acc"))
        )
        dice = any("dice" in series.name.lower() for series in numbers.series)
        found += (
            [one]
            if one
            else [
                zero(loss, norm),
                apart(loss, norm),
                negative(loss) if not dice else None,
                huge(loss),
                flat(loss, numbers, by_kind),
                levels_off(loss, acc),
            ]
        )
        found += resumed(loss, numbers, _first(by_kind, "lr"))
    if by_kind.get("reward"):  # a policy's loss is often 0 or negative, and has no trend
        found = [
            finding
            for finding in found
            if finding and finding.entry not in ("P12", "O16") and "exactly 0.0" not in finding.said
        ]
        found.append(_collapses(by_kind))
    if norm:
        found += [_norm_is_zero(norm), _norm_jumps(norm) if not any(found) else None]
    causes = [_of(by_kind, "scale", _scale), _of(by_kind, "lr", _lr)]
    found = causes + found if not any(lost) else found + causes  # they explain a flat loss
    if by_kind.get("reward") or by_kind.get("margin"):
        found += [
            _kl(series) for series in by_kind.get("kl", []) if "approx" not in series.name.lower()
        ][:1]
    found += _held_out(loss, by_kind) if not any(found) else []
    found += [
        _of(by_kind, "time", _slower),
        _of(by_kind, "ram", _grows),
        _of(by_kind, "memory", _grows),
        _waits(by_kind),
    ]
    return sorted((finding for finding in found if finding), key=lambda finding: not finding.fault)


def _first(by_kind: dict[str, list[Series]], kind: str) -> Series | None:
    return by_kind[kind][0] if kind in by_kind else None


def _of(by_kind: dict[str, list[Series]], kind: str, judge) -> Finding | None:
    """What `judge` finds in the first series of a kind."""
    series = _first(by_kind, kind)
    return judge(series) if series else None


def _norm_is_zero(norm: Series) -> Finding | None:
    if len(norm.values) < FEWEST or any(norm.values):
        return None
    return Finding(norm.rows[0], "gradients are exactly zero in every step, nothing is learned")


def _norm_jumps(norm: Series) -> Finding | None:
    values = [value for value in norm.values if math.isfinite(value)]
    usual = median(values) if len(values) >= 2 * TREND else 0
    jumps = [at for at, value in enumerate(norm.values) if usual and value > max(20 * usual, 10)]
    if not 2 < len(jumps) < len(values) / 3 or jumps[2] < len(values) / 20:
        return None
    most = max(norm.values[at] for at in jumps)
    return Finding(
        norm.rows[jumps[0]],
        f"grad_norm jumps from {usual:.2g} to {most:.0f} on single batches, in {len(jumps)} of "
        f"{len(norm.values)} steps",
        "P13",
    )


def _lr(lr: Series) -> Finding | None:
    zero = run_at_end(lr.values, lambda value: value <= 1e-6 * max(lr.values))
    if len(lr.values) < FEWEST or zero < max(FEWEST, 0.2 * len(lr.values)):
        return None
    if not any(lr.values):
        return Finding(lr.rows[0], "logged learning rate is 0 in every step", "O23")
    return Finding(
        lr.rows[-zero], "learning rate reaches zero early, long before the end of training", "O8"
    )


def _scale(scale: Series) -> Finding | None:
    values = scale.values
    if (
        len(values) < FEWEST
        or values[-1] >= values[0] / 2**FEWEST
        or any(b > a for a, b in zip(values, values[1:]))
    ):
        return None
    return Finding(
        scale.rows[0],
        f"fp16 loss scale halves again and again, from {values[0]:g} to {values[-1]:g}",
        "O24",
    )


def _kl(kl: Series) -> Finding | None:
    values = kl.values
    if len(values) < TREND:
        return None
    quarter = max(3, len(values) // 4)
    head, tail = mean(values[:quarter]), mean(values[-quarter:])
    if tail < -0.01 and sum(value < 0 for value in values[-quarter:]) * 4 >= quarter * 3:
        return Finding(
            kl.rows[-quarter], f"KL divergence to the reference is negative, {tail:.3g}", "R2"
        )
    if tail > 10 and tail > 10 * abs(head):
        return Finding(
            kl.rows[-quarter],
            f"KL to the reference model grows without end, from {head:.3g} to {tail:.3g}",
            "R2",
        )
    return None


def _collapses(by_kind: dict[str, list[Series]]) -> Finding | None:
    """A reward that rises while the answers or their entropy shrink to nothing."""
    reward = by_kind["reward"][0].values
    quarter = max(3, len(reward) // 4)
    if len(reward) < TREND or mean(reward[-quarter:]) <= mean(reward[:quarter]):
        return None
    for kind, what in (
        ("length", "answers turn very short"),
        ("entropy", "entropy collapses to 0, answers turn identical"),
    ):
        series = _first(by_kind, kind)
        if not series or len(series.values) < TREND:
            continue
        start, end = mean(series.values[:quarter]), median(series.values[-quarter:])
        if start > 0 and end < 0.2 * start:
            return Finding(
                series.rows[-quarter],
                f"reward keeps rising, then {what}, from {series.values[0]:.3g} to "
                f"{series.values[-1]:.3g}",
                "R1",
            )
    return None


def _held_out(loss: Series | None, by_kind: dict[str, list[Series]]) -> list[Finding]:
    held, acc, held_acc = (
        next((s for s in by_kind.get(kind, []) if len(s.values) >= FEWEST), None)
        for kind in ("val loss", "acc", "val acc")
    )
    falls = bool(loss and len(loss.values) >= FEWEST and loss.values[-1] < 0.8 * loss.values[0])
    far = bool(loss and len(loss.values) >= FEWEST and loss.values[-1] < 0.5 * loss.values[0])
    if held_acc and max(held_acc.values) - min(held_acc.values) < 0.15:
        usual, top = median(held_acc.values), acc.values[-1] if acc else 0
        if (top > 0.6 and max(held_acc.values) < 0.5 * top) or (
            not acc and far and max(held_acc.values) < 0.4
        ):
            other = (
                f"training accuracy is high, {acc.values[-1]:.3g}"
                if acc
                else "the training loss falls as it should"
            )
            return [
                Finding(
                    held_acc.rows[0],
                    f"validation accuracy stays near chance at {usual:.3g} though {other}",
                    "V1",
                )
            ]
    for series in (acc, held_acc):
        if series and len(set(series.values)) == 1 and 0 < series.values[0] < 0.98:
            name = "validation accuracy" if series.held_out else "accuracy"
            end = ", training loss falls" if falls else ""
            return [
                Finding(
                    series.rows[0],
                    f"{name} is exactly {series.values[0]:g} in every epoch, the model predicts "
                    f"one class{end}",
                )
            ]
    for score in [*by_kind.get("val score", []), *by_kind.get("score", [])]:
        if len(score.values) >= 3 and not any(score.values):
            end = " while the loss falls" if falls else ""
            entry = (
                "V5"
                if "iou" in score.name.lower()
                else "V3"
                if "ap" in score.name.lower()
                else "V6"
            )
            return [
                Finding(
                    score.rows[0], f"{plain(score)} is exactly 0 in every evaluation{end}", entry
                )
            ]
    if held and falls and all(map(math.isfinite, held.values)):
        low = min(range(len(held.values)), key=held.values.__getitem__)
        if held.values[-1] > 1.15 * held.values[low] > 0 and low < 0.75 * len(held.values):
            rises = (
                f"validation loss rises from {held.values[low]:.4g} to {held.values[-1]:.4g} while "
                "the training loss falls, which is overfitting"
            )
            return [Finding(held.rows[low], rises, fault=False)]
    return []


def _slower(time: Series) -> Finding | None:
    values = time.values
    if sum(b >= a for a, b in zip(values, values[1:])) > 0.95 * (len(values) - 1):
        return None  # the time since the start
    steps = quarters(values)
    if not steps or steps[3] < SLOWER * steps[0] or steps != sorted(steps):
        return None
    return Finding(
        time.rows[0],
        f"each step takes longer and longer, {steps[0]:.3g} s at the beginning and {steps[3]:.3g} "
        "s at last",
        fault=False,
    )


def _grows(memory: Series) -> Finding | None:
    steps = quarters(memory.values)
    if (
        not steps
        or steps[3] < GROWN * steps[0]
        or not all(b > 1.05 * a for a, b in zip(steps, steps[1:]))
    ):
        return None
    text = f"from {memory.values[0]:.4g} to {memory.values[-1]:.4g}"
    if memory.kind == "ram":
        return Finding(memory.rows[0], f"host RAM climbs every epoch, {text}", "DP9")
    return Finding(memory.rows[0], f"GPU memory grows with every step, {text}", fault=False)


def _waits(by_kind: dict[str, list[Series]]) -> Finding | None:
    """Steps that mostly wait for their data."""
    data, time = _first(by_kind, "data"), _first(by_kind, "time")
    if (
        not data
        or not time
        or len(data.values) < TREND
        or median(time.values) <= 0
        or median(data.values) < 0.5 * median(time.values)
    ):
        return None
    share = 100 * median(data.values) / median(time.values)
    return Finding(
        data.rows[0],
        f"data loading takes {share:.0f} % of each step, the GPU waits for its input",
        "U24",
    )


BESIDE = 3  # values on each side of a resume
JUMPED = 1.3  # times the loss before the resume, from which it counts as a jump
FELL = 0.2  # share of the earlier learning rate below which a warm-up has started again


def resumed(loss: Series, numbers: Numbers, lr: Series | None) -> list[Finding]:
    """Return what differs between just before and just after a resume.

    If a log has several resumes, the first at which anything differs.
    """
    for row in numbers.resumed:
        before, after = _sides(loss, row)
        if len(before) < BESIDE or len(after) < BESIDE:
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
        if old and len(new) >= BESIDE and new[0] < FELL * old[-1] and max(new) > 3 * new[0]:
            found.append(Finding(row, "learning rate replays its warm-up after resume", "C14"))
        elif (
            old
            and len(new) >= BESIDE
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
