"""The charts and the marks of one run, or of several over each other. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from statistics import median

from ..drawing.charts import LINE_COLOURS, Chart, Line, Mark
from ..runner import content
from ..runner.failures import is_by_stop
from .run_series import Event, Row, RunSeries

LEAST_GAP = 300.0  # seconds without a value that break a line, at least
_GB = 1e9
_NUMBERS = (  # name, title, whether its scale may be logarithmic
    ("loss", "Loss", True),
    ("val_loss", "Validation loss", True),
    ("lr", "Learning rate", False),
    ("grad_norm", "Gradient norm", True),
)
_CARDS = (  # field, title, unit, what it is divided by, what the scale reaches at least
    ("use", "GPU use", "%", 1.0, 100.0),
    ("memory_mb", "GPU memory", "GB", 1024.0, 1.0),
    ("temperature_c", "GPU temperature", "°C", 1.0, 100.0),
)
_BAD = {  # events that are no good sign, in words
    "stall": "stood still",
    "notice": "the provider announced the end of the box",
    "deadline": "the deadline came",
    "killed": "killed",
    "raised": "the runner was started again",
    "refused": "the start was refused",
    "corrupt-checkpoint": "a corrupt checkpoint was moved aside",
    "lost-checkpoints": "checkpoints are gone",
    "not-opened": "the program didn't open the checkpoint",
    "generation-corrupt": "a copy is corrupt",
    "sync-failed": "copying failed",
    "sync-hung": "copying hung",
    "durable-silent": "the durable place doesn't answer",
    "lease-lost": "another machine took the run over",
    "log-lost": "the log couldn't be written",
    "requeue": "put back into the queue",
}
_GOOD = {
    "restored": "a checkpoint was brought back from the durable place",
    "save-now": "the program was asked to save",
    "probe": "the probe told what it saw",
}


Runs = Sequence[tuple[str, RunSeries]]  # each with its name


def charts_of(runs: Runs, *, is_elapsed: bool = False) -> list[Chart]:
    """Return the charts of runs: of one with a line a card, of several with a line a run.

    `is_elapsed`: over the time since each one's first row, in place of the clock.
    """
    is_alone = len(runs) == 1
    begun = [_first(series) if is_elapsed else 0.0 for _, series in runs]

    def lines(value: Callable[[Row], float | None]) -> list[Line]:
        return [
            _line("" if is_alone else name, series.rows, first, value)
            for (name, series), first in zip(runs, begun, strict=True)
        ]

    charts = [
        Chart(title, lines(lambda row, name=name: row.numbers.get(name)), may_log=may_log)
        for name, title, may_log in _NUMBERS
    ]
    charts.append(Chart("Steps a second", lines(lambda row: row.rate), low=0.0))
    for field, title, unit, divisor, high in _CARDS:
        drawn = lines(lambda row, field=field, divisor=divisor: _mean(row, field, divisor))
        count = max((len(row.gpus) for _, series in runs for row in series.rows), default=0)
        note = "mean of the cards" if count > 1 else ""
        if is_alone and 1 < count <= LINE_COLOURS:
            ((_, series),) = runs
            cards = [_card(series.rows, n, begun[0], field, divisor) for n in range(count)]
            drawn, note = cards, ""
        top = max(high, _total(runs)) if field == "memory_mb" else high
        charts.append(Chart(title, drawn, unit, note, low=0.0, high=top))
    totals = [row.disk_total or 0 for _, series in runs for row in series.rows]
    free = lines(lambda row: None if row.disk_free is None else row.disk_free / _GB)
    charts.append(Chart("Disk", free, "GB free", low=0.0, high=max(totals, default=0) / _GB))
    return [chart for chart in charts if any(line.values for line in chart.lines)]


def _first(series: RunSeries) -> float:
    return min((row.t for row in series.rows), default=0.0)


def _line(name: str, rows: list[Row], begun: float, value: Callable[[Row], float | None]) -> Line:
    """The line of what is known; it breaks where that stays away for long."""
    known = [(row, number) for row in rows if (number := value(row)) is not None]
    times = [row.t - begun for row, _ in known]
    spans = [after - before for before, after in zip(times, times[1:], strict=False)]
    steps = [math.nan if row.step is None else row.step for row, _ in known]
    gap = max(5 * median(spans), LEAST_GAP) if spans else LEAST_GAP
    return Line(name, [number for _, number in known], times, steps, gap)


def _card(rows: list[Row], number: int, begun: float, field: str, divisor: float) -> Line:
    def value(row: Row) -> float | None:
        amount = row.gpus[number].get(field) if number < len(row.gpus) else None
        return None if amount is None else amount / divisor

    return _line(f"GPU {number}", rows, begun, value)


def _mean(row: Row, field: str, divisor: float) -> float | None:
    numbers = [card[field] / divisor for card in row.gpus if field in card]
    return sum(numbers) / len(numbers) if numbers else None


def _total(runs: Runs) -> float:
    """Return the memory of the largest card in GB, 0 where none is known."""
    rows = (row for _, series in runs for row in series.rows)
    return max((card.get("total_mb", 0) / 1024 for row in rows for card in row.gpus), default=0)


def marks_of(series: RunSeries) -> list[Mark]:
    """Return what happened in a run, the oldest first."""
    steps = _Steps(series.rows)
    marks = [mark for event in series.events if (mark := _mark(event, steps))]
    marks += [
        Mark("save", "saved", f"saved a checkpoint of step {step:.0f}", t, step)
        for row in series.rows
        for step, t in row.saved
    ]
    return sorted(marks, key=lambda mark: mark.time or 0.0)


class _Steps:
    """The step of a run at a time."""

    def __init__(self, rows: list[Row]):
        known = [row for row in rows if row.step is not None]
        self._times, self._steps = [row.t for row in known], [row.step for row in known]

    def at(self, event: Event) -> float | None:
        """Return the step that an event tells, else the last one before it; None for none."""
        if event.fields.get("step", "").isdigit():
            return float(event.fields["step"])
        before = bisect_right(self._times, event.t)
        return self._steps[before - 1] if before else None


def _mark(event: Event, steps: _Steps) -> Mark | None:
    """Return the mark of an event, None for one that a person needn't see."""
    fields, step = event.fields, steps.at(event)
    number = fields.get("attempt", "")
    if event.name == "attempt":
        if not (resumed := fields.get("resume")):
            return Mark("start", "attempts", f"attempt {number} began", event.t, step or 0.0)
        saved = content.step_of(resumed)
        text = f"attempt {number} resumed from {resumed}"
        return Mark("resume", "attempts", text, event.t, step if saved is None else float(saved))
    if event.name == "ended":
        why, failure = fields.get("reason", ""), fields.get("class", "")
        is_stop = is_by_stop(why)
        how = "stopped as " + why if is_stop else why or failure
        text = f"attempt {number} " + (f"ended: {how}" if failure else "came to its end")
        kind = "end" if not failure or is_stop else "fail"
        return Mark(kind, "attempts", text, event.t, step)
    if event.name == "copied":
        state = fields.get("state", "")
        text = f"copied {fields.get('source', '')}" + (f", {state}" if state else "")
        return Mark("copy" if state != "corrupt" else "warn", "copied", text, event.t, step)
    words = _BAD.get(event.name) or _GOOD.get(event.name)
    if not words:
        return None
    named = (fields.get(key) for key in ("reason", "why", "text", "said", "path"))
    why = next(filter(None, named), "")
    kind = "warn" if event.name in _BAD else "note"
    return Mark(kind, "noted", f"{words}: {why}" if why else words, event.t, step)
