"""How fast a run goes, and when it will have made its last step. Python 3.8."""

from __future__ import annotations

from typing import Any, Tuple

Sample = Tuple[float, int]  # (seconds since 1970, the step that was reached then)

WINDOW = 600.0  # seconds by which the rate is judged
LEAST = 10  # steps below which nothing is said
PARTS = 4  # of the window whose rates give the spread
WARMING = 0.5  # of the later rate: a first part that is slower than that compiles or loads
LEAST_SPREAD = 0.05  # of the time to the end


def rate_of(samples: list[Sample], now: float) -> float | None:
    """Return steps a second over the last ten minutes, None below ten steps."""
    rates = _rates(samples, now)
    return rates[0] if rates else None


def estimate(samples: list[Sample], total: int | None, now: float) -> dict[str, Any]:
    """Return step, total, percent, steps_per_second, seconds_left with its _low and _high.

    What isn't known is left out. `samples`: of one attempt, in order; each the moment at which a
    step was seen for the first time.
    """
    if not samples:
        return {}
    reached, step = samples[-1]
    told: dict[str, Any] = {"step": step}
    if total and total >= step:
        told.update(total=total, percent=round(100.0 * step / total, 1))
    rates = _rates(samples, now)
    if not rates:
        return told
    told["steps_per_second"] = float(f"{rates[0]:.4g}")
    if "total" in told:
        since = max(now - reached, 0.0)
        left = [max((told["total"] - step) / rate - since, 0.0) for rate in rates]
        low, high = min(left), max(left)
        told["seconds_left"] = round(left[0])
        told["seconds_left_low"] = round(min(low, left[0] * (1 - LEAST_SPREAD)))
        told["seconds_left_high"] = round(max(high, left[0] * (1 + LEAST_SPREAD)))
    return told


def _rates(samples: list[Sample], now: float) -> list[float]:
    """Return the rate of the window, then those of its parts; [] where too little is known."""
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
