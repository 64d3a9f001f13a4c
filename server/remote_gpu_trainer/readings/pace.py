"""How fast a run goes, and when it will have made its last step. Python 3.8."""

from __future__ import annotations

from typing import Any, Tuple

Sample = Tuple[float, int]  # (seconds since 1970, the step that was reached then)

WINDOW = 600.0  # seconds by which the rate is judged
LEAST = 10  # steps below which nothing is said
PARTS = 4  # of the window whose rates give the spread
WARMING = 0.5  # of the later rate: a first part that is slower than that compiles or loads
LEAST_SPREAD = 0.05  # of the time to the end
FEW_SPREAD = 0.3  # the same where too few samples are there for parts
SETTLED = 30.0  # seconds of steps after a restart before which no rate is known


def rate_of(samples: list[Sample], now: float) -> float | None:
    """Return steps a second over the last ten minutes, None below ten steps."""
    rates = _rates(samples, now)
    return rates[0] if rates else None


def estimate(
    samples: list[Sample], total: int | None, now: float, is_restart: bool = False
) -> dict[str, Any]:
    """Return step, total, percent, steps_per_second, seconds_left with its _low and _high.

    What isn't known is left out. `samples`: of one attempt, in order; each the moment at which a
    step was seen for the first time. `is_restart`: it went on from a checkpoint, so that its first
    step may be that of the checkpoint, with the rest of the loading behind it.
    """
    if not samples:
        return {}
    reached, step = samples[-1]
    told: dict[str, Any] = {"step": step}
    if total and total >= step:
        told.update(total=total, percent=round(100.0 * step / total, 1))
    rates = _rates_after_restart(samples, now) if is_restart else _rates(samples, now)
    if not rates:
        return told
    told["steps_per_second"] = float(f"{rates[0]:.4g}")
    if "total" in told:
        since = max(now - reached, 0.0)
        left = [max((told["total"] - step) / rate - since, 0.0) for rate in rates]
        low, high = min(left), max(left)
        told["seconds_left"] = round(left[0])
        spread = LEAST_SPREAD if len(rates) > 1 else FEW_SPREAD
        told["seconds_left_low"] = round(min(low, left[0] * (1 - spread)))
        told["seconds_left_high"] = round(max(high, left[0] * (1 + spread)))
    return told


def _rates_after_restart(samples: list[Sample], now: float) -> list[float]:
    trained = samples[1:]
    if not trained or trained[-1][0] - trained[0][0] < SETTLED:
        return []
    return _rates(trained, now)


def _rates(samples: list[Sample], now: float) -> list[float]:
    """Return the rate of the window, then those of its parts; [] where too little is known."""
    samples = samples if not samples or samples[0][1] else samples[1:]  # a bar at 0 is no step
    window = [sample for sample in samples if sample[0] >= now - WINDOW]
    if len(window) < 2:
        window = samples[-2:]  # steps of many minutes each
    if len(window) < 2 or samples[-1][1] - samples[0][1] < LEAST:
        return []
    parts = _parts(window)
    if len(parts) > 1 and len(window) == len(samples):
        later = _rate(window[len(window) // 2], window[-1])
        if later and parts[0] < WARMING * later:
            window = window[len(window) // PARTS :]
            parts = _parts(window)
    whole = _rate(window[0], window[-1])
    return [whole, *parts] if whole else []


def _parts(window: list[Sample]) -> list[float]:
    size = (len(window) - 1) / PARTS
    if size < 1:
        return []
    cuts = [window[round(size * part)] for part in range(PARTS + 1)]
    rates = [_rate(begin, end) for begin, end in zip(cuts, cuts[1:])]
    return [rate for rate in rates if rate]


def _rate(begin: Sample, end: Sample) -> float:
    seconds = end[0] - begin[0]
    return (end[1] - begin[1]) / seconds if seconds > 0 and end[1] > begin[1] else 0.0
