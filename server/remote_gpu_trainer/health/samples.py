"""The JSON lines of `gpu_health.py --watch` as columns of numbers. The file is data: types are checked, texts cut, cleaned and masked.

Limits: MOST_GPUS, MOST_EVENTS and MOST_BYTES; what is over them, or can't be read, is counted and said. A sample older than the one before is left out.
"""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from ..numbers import finite
from ..text.errors import BadRequest
from ..text.masking import shown
from .reading import LEVELS

SERIES = ("util", "sm_mhz", "power_w", "temp_c", "mem_mib")
MOST_GPUS, MOST_EVENTS, MOST_BYTES, MOST_LINE, MOST_SAMPLES = 64, 500, 1 << 30, 1 << 20, 3_000_000
NONE = math.nan


@dataclass
class Series:
    """One GPU. Columns are as long as `times`; a value that wasn't told is NaN. `bits`: throttle reasons, a bit for each of Watch.reasons."""

    times: array = field(default_factory=lambda: array("d"))
    values: dict[str, array] = field(default_factory=lambda: {name: array("d") for name in SERIES})
    bits: array = field(default_factory=lambda: array("q"))
    why: dict[str, int] = field(default_factory=dict)
    power_limit_w: float = NONE
    mem_total_mib: float = NONE


@dataclass(frozen=True)
class Event:
    time: float
    gpu: int | str | None
    level: str
    evidence: str
    action: str
    entry: str
    over: bool = False


@dataclass
class Watch:
    gpus: dict[int | str, Series] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    interval: float = NONE
    end: str | None = None
    samples: int = 0
    unread: int = 0
    left_out: int = 0

    @property
    def span(self) -> tuple[float, float]:
        """First and last time. At least a second apart."""
        told = [(one.times[0], one.times[-1]) for one in self.gpus.values() if one.times] + [
            (event.time, event.time) for event in self.events
        ]
        first, last = min(one for one, _ in told), max(one for _, one in told)
        return first, max(last, first + 1.0)


def read(path: Path) -> Watch:
    """Raises BadRequest for a file that holds no sample."""
    watch = Watch()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadRequest(
                f"found {path} over {MOST_BYTES >> 30} GiB, expected less; do: split it by lines"
            )
        with path.open("rb") as file:
            while raw := file.readline(MOST_LINE):
                if raw.strip():
                    _line(watch, raw)
    except OSError as error:
        raise BadRequest(
            f"found {path} unreadable ({error.strerror}), expected the JSON lines of --watch"
        ) from None
    if not watch.gpus:
        raise BadRequest(
            f"found no sample in {path}, expected the JSON lines of --watch; do: remote-gpu-trainer health BOX --watch 10"
        )
    watch.events.sort(key=lambda event: event.time)
    return watch


def _line(watch: Watch, raw: bytes) -> None:
    try:
        told = json.loads(raw)
        time = _number(told["t"])
        if not 0 < time < 1e11:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        watch.unread += 1
        return
    start = told.get("start")
    if isinstance(start, dict):
        watch.interval = _number(start.get("interval_s"))
    if isinstance(told.get("end"), str):
        watch.end = shown(told["end"], 200)
    for one in _list(told.get("findings")):
        _finding(watch, time, one)
    for text in _list(told.get("over")):
        _event(watch, Event(time, None, "over", shown(text, 300), "", "", True))
    gpus = _list(told.get("gpus"))
    if gpus:
        watch.samples += 1
    for one in gpus[:MOST_GPUS]:
        _sample(watch, time, one)
    why = told.get("why")
    for gpu, text in list(why.items())[:MOST_GPUS] if isinstance(why, dict) else []:
        series = watch.gpus.get(
            int(gpu) if str(gpu).isascii() and str(gpu).isdigit() and len(gpu) < 6 else gpu
        )
        text = shown(text, 200)
        if series and (text in series.why or len(series.why) < 20):
            series.why[text] = series.why.get(text, 0) + 1


def _sample(watch: Watch, time: float, one) -> None:
    label = _label(one.get("gpu")) if isinstance(one, dict) else None
    if (
        label is None
        or (label not in watch.gpus and len(watch.gpus) >= MOST_GPUS)
        or watch.samples > MOST_SAMPLES
    ):
        watch.left_out += 1
        return
    series = watch.gpus.setdefault(label, Series())
    if series.times and time <= series.times[-1]:
        watch.left_out += 1
        return
    series.times.append(time)
    for name in SERIES:
        series.values[name].append(_number(one.get(name)))
    bits = 0
    for reason in _list(one.get("throttle"))[:16]:
        reason = shown(reason, 40)
        if reason not in watch.reasons and len(watch.reasons) < 32:
            watch.reasons.append(reason)
        if reason in watch.reasons:
            bits |= 1 << watch.reasons.index(reason)
    series.bits.append(bits)
    for name, key in (("power_limit_w", "limit_w"), ("mem_total_mib", "mem_total_mib")):
        if key in one:
            setattr(series, name, _number(one[key]))


def _finding(watch: Watch, time: float, one) -> None:
    if not isinstance(one, dict):
        watch.unread += 1
        return
    level = one.get("level") if one.get("level") in LEVELS else "unknown"
    entry = shown(one.get("entry") or "", 12)
    _event(
        watch,
        Event(
            time,
            _label(one.get("gpu")),
            level,
            shown(one.get("evidence", ""), 300),
            shown(one.get("action", ""), 240),
            entry if entry.isalnum() else "",
        ),
    )


def _event(watch: Watch, event: Event) -> None:
    if len(watch.events) < MOST_EVENTS:
        watch.events.append(event)
    else:
        watch.left_out += 1


def _label(value) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
        return value
    return shown(value, 40) if isinstance(value, str) and value.strip() else None


def _list(value) -> list:
    return value if isinstance(value, list) else []


def _number(value) -> float:
    found = finite(value, below=1e12)
    return NONE if found is None else found
