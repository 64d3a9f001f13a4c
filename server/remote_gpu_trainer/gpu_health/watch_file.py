"""Read the JSON lines that a watch wrote into columns of numbers.

The file is data: types are checked, texts are cut, cleaned and masked. What is over a limit or
can't be read is counted. A sample that is older than the previous one is left out.
"""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import dataclass, field
from pathlib import Path

from ..numbers import finite
from ..text import BadRequest
from ..text.masking import shown
from .reading import LEVELS

SERIES = ("util", "sm_mhz", "power_w", "temp_c", "mem_mib")
MOST_GPUS, MOST_EVENTS, MOST_SAMPLES = 64, 500, 3_000_000
MOST_BYTES, MOST_LINE = 1 << 30, 1 << 20  # of a file, and of one read of it
NONE = math.nan


@dataclass
class Series:
    """The samples of one GPU: `times` in seconds since 1970, and columns that are as long.

    `values` holds a column for each of SERIES, with NaN where the driver gave no value. `bits` are
    the reasons for held-back clocks, a bit for each of RecordedWatch.reasons. `why` counts the
    samples by the explanation that they came with.
    """

    times: array = field(default_factory=lambda: array("d"))
    values: dict[str, array] = field(default_factory=lambda: {name: array("d") for name in SERIES})
    bits: array = field(default_factory=lambda: array("q"))
    why: dict[str, int] = field(default_factory=dict)
    power_limit_w: float = NONE
    mem_total_mib: float = NONE


@dataclass(frozen=True)
class Event:
    """A finding during a watch, or its end (`over`). `gpu` is None for the whole box."""

    time: float
    gpu: int | str | None
    level: str
    evidence: str
    action: str
    entry: str
    over: bool = False


@dataclass
class RecordedWatch:
    """What a watch wrote. `interval` in seconds (NaN: not given); `end` says why it ended.

    `unread` counts lines that can't be read, `left_out` samples and findings that were dropped.
    """

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
        """Return the first and the last time, at least a second apart."""
        spans = [
            *((series.times[0], series.times[-1]) for series in self.gpus.values() if series.times),
            *((event.time, event.time) for event in self.events),
        ]
        first, last = min(begin for begin, _ in spans), max(end for _, end in spans)
        return first, max(last, first + 1.0)


def read_watch(path: Path) -> RecordedWatch:
    """Read the JSON lines of a watch. Raises BadRequest for a file without a sample."""
    watch = RecordedWatch()
    try:
        if path.stat().st_size > MOST_BYTES:
            raise BadRequest(f"{path}: over {MOST_BYTES >> 30} GiB; split it by lines")
        with path.open("rb") as file:
            while raw := file.readline(MOST_LINE):
                if raw.strip():
                    _line(watch, raw)
    except OSError as error:
        raise BadRequest(
            f"{path}: can't be read ({error.strerror}); pass a file that --watch wrote"
        ) from None
    if not watch.gpus:
        raise BadRequest(
            f"{path}: no samples; pass a file that remote-gpu-trainer health BOX --watch 10 wrote"
        )
    watch.events.sort(key=lambda event: event.time)
    return watch


def _line(watch: RecordedWatch, raw: bytes) -> None:
    """Add a line to `watch`: the start, the end, or a sample with its findings."""
    try:
        record = json.loads(raw)
        time = _number(record["t"])
        if not 0 < time < 1e11:
            raise ValueError
    except (ValueError, TypeError, KeyError, RecursionError):
        watch.unread += 1
        return
    start = record.get("start")
    if isinstance(start, dict):
        watch.interval = _number(start.get("interval_s"))
    if isinstance(record.get("end"), str):
        watch.end = shown(record["end"], 200)
    for finding in _list(record.get("findings")):
        _finding(watch, time, finding)
    for text in _list(record.get("over")):
        _event(watch, Event(time, None, "over", shown(text, 300), "", "", True))
    gpus = _list(record.get("gpus"))
    if gpus:
        watch.samples += 1
    for gpu in gpus[:MOST_GPUS]:
        _sample(watch, time, gpu)
    _explanations(watch, record.get("why"))


def _explanations(watch: RecordedWatch, why: object) -> None:
    """Count why GPUs were idle. `why`: a GPU's index as text -> the explanation."""
    for gpu, text in list(why.items())[:MOST_GPUS] if isinstance(why, dict) else []:
        is_index = str(gpu).isascii() and str(gpu).isdigit() and len(gpu) < 6
        series = watch.gpus.get(int(gpu) if is_index else gpu)
        text = shown(text, 200)
        if series and (text in series.why or len(series.why) < 20):
            series.why[text] = series.why.get(text, 0) + 1


def _sample(watch: RecordedWatch, time: float, row) -> None:
    label = _label(row.get("gpu")) if isinstance(row, dict) else None
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
        series.values[name].append(_number(row.get(name)))
    bits = 0
    for reason in _list(row.get("throttle"))[:16]:
        reason = shown(reason, 40)
        if reason not in watch.reasons and len(watch.reasons) < 32:
            watch.reasons.append(reason)
        if reason in watch.reasons:
            bits |= 1 << watch.reasons.index(reason)
    series.bits.append(bits)
    for name, key in (("power_limit_w", "limit_w"), ("mem_total_mib", "mem_total_mib")):
        if key in row:
            setattr(series, name, _number(row[key]))


def _finding(watch: RecordedWatch, time: float, raw) -> None:
    if not isinstance(raw, dict):
        watch.unread += 1
        return
    level = next((level for level in LEVELS if level == raw.get("level")), "unknown")
    entry = shown(raw.get("entry") or "", 12)
    _event(
        watch,
        Event(
            time,
            _label(raw.get("gpu")),
            level,
            shown(raw.get("evidence", ""), 300),
            shown(raw.get("action", ""), 240),
            entry if entry.isalnum() else "",
        ),
    )


def _event(watch: RecordedWatch, event: Event) -> None:
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
    number = finite(value, below=1e12)
    return NONE if number is None else number
