"""Find the metrics of a log: losses, scores, gradient norms and the like, each as a series.

A number is known by the words before it ("train_loss: 0.3", "'loss': 0.3", "Loss 0.3 (0.4)",
"损失 0.3"), by the header above its column, or by its unit ("1.13it/s"). A number without a known
name is ignored. Standard library, Python 3.8.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace

from ..readings.named_numbers import header, read_columns, read_words
from ..readings.names import kind_of
from .rows import ROW, Row, shape_of
from .starts import Course, last_start

SHAPES = 2_000  # rows that differ in more than digits
PER_SHAPE = 250  # rows of each shape, evenly spread
MOST_ROWS = 1_500  # rows in all

_COUNT = re.compile(
    r"(?:\b(?:epoch|step|iter(?:ation)?|update|round|batch)s?|第)\W{0,4}(\d{1,9})(?:\.\d+)?\b(?!%)"
    r"|(?<![\w./])(\d{1,9})/\d{1,9}(?![\w/])",
    re.I,
)
_RESUMED = re.compile(
    r"\bresum(?:e|ed|ing)\b|\b(?:load|restor)(?:ed|ing)\b.{0,40}\b(?:checkpoint|state|ckpt)"
    r"|恢复训练|断点",
    re.I,
)
_TOKENS = re.compile(rb"\btok(?:en)?s?\b|vocab|tokens?_", re.I)
_EPOCH = re.compile(r"(?:\bepoch\W{0,4}|第)(\d{1,9})\b", re.I)
COUNTS = frozenset(("step", "iter", "iteration", "epoch", "global_step"))
# Names of the training loss, where a log has several losses.
_MAIN = (
    "loss",
    "total_loss",
    "total loss",
    "train_loss",
    "train loss",
    "training loss",
    "lm loss",
    "损失",
    "训练损失",
)


@dataclass(frozen=True)
class Series:
    """The numbers of one name in order, and the line of each.

    `kind` is one of "loss", "score", "acc", "lr", "norm", "scale", "ram", "memory", "kl",
    "reward", "margin", "entropy", "length", "ppl", "data" and "time", "" for an unknown name.
    Times are in seconds, memory in GB.
    """

    name: str
    kind: str
    held_out: bool
    rows: list[int]
    values: list[float]


@dataclass(frozen=True)
class Numbers:
    """What is counted and measured in a log.

    `series`: the longest first. `counts`: (line, count, of what) of epochs or steps. `resumed`:
    lines that mention a resume. `rows`: all lines whose shape has a series. `of_tokens`: a line
    speaks of tokens or a vocabulary. `over_runs`: the series over all runs of the log, if it holds
    several (see `starts`); those in `series` begin with its last run.
    """

    series: list[Series]
    counts: list[tuple[int, float, str]]
    resumed: list[int]
    rows: frozenset[int]
    of_tokens: bool
    over_runs: list[Series]


def of_rows(rows: list[Row]) -> Numbers:
    """Return the series in these rows."""
    gathering = _Gathering()
    for number, raw in _thinned(rows):
        gathering.take(number, raw)
    whole = [series for series in gathering.series.values() if series.kind]
    whole.sort(key=lambda series: -len(series.values))
    loss = main_of([series for series in whole if series.kind == "loss" and not series.held_out])
    start = last_start(gathering.course, loss.rows, loss.values) if loss else 0
    return Numbers(
        list(filter(None, (_since(start, each) for each in whole))) if start else whole,
        gathering.counts,
        gathering.resumed,
        frozenset(number for number, raw in rows if shape_of(raw) in gathering.shapes),
        any(_TOKENS.search(raw) for _, raw in rows),
        whole if start else [],
    )


def _since(start: int, series: Series) -> Series | None:
    """A series from a line on, None where nothing of it stands there."""
    first = bisect_left(series.rows, start)
    if first == len(series.rows):
        return None
    return replace(series, rows=series.rows[first:], values=series.values[first:])


class _Gathering:
    """Takes the rows of a log one after another and gathers the series in them."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self.counts: list[tuple[int, float, str]] = []
        self.resumed: list[int] = []
        self.course = Course([], self.counts, self.resumed)
        self.shapes: set[bytes] = set()  # of rows with a known number
        self.columns: list[str] = []  # the last header

    def take(self, number: int, raw: bytes) -> None:
        """Take the next row."""
        text = raw[: ROW * 4].decode("utf-8", "replace")[:ROW]
        pairs = self._pairs(text)
        shape = shape_of(raw)
        epoch = _EPOCH.search(text)
        if epoch:
            self.course.epochs.append((number, int(epoch[1])))
        self.course.take(number, raw, shape)
        if self._add(number, pairs):
            self.shapes.add(shape)
        counts = shape in self.shapes and any(
            kind_of(name)[0] not in ("", "lr", "memory") for name, _ in pairs
        )
        if counts:
            count = _count_of(text, pairs)
            self.counts += [(number, *count)] if count else []
        elif _RESUMED.search(text):
            self.resumed.append(number)

    def _pairs(self, text: str) -> list[tuple[str, float]]:
        """(name, value) of a row's numbers: by the last header, else by the words before them."""
        pairs = read_columns(self.columns, text)
        if pairs:
            return pairs
        # A progress bar or a row without numbers may stand within a table.
        within = "%|" in text or not any(map(str.isdigit, text))
        self.columns = header(text) or (self.columns if within else [])
        return read_words(text)

    def _add(self, number: int, pairs: list[tuple[str, float]]) -> bool:
        """Add the numbers of a row to their series. Return whether one has a known name."""
        is_known = False
        for name, value in dict(reversed(pairs)).items():  # of two numbers of one name the first
            series = self.series.get(name)
            if series is None:
                series = self.series[name] = Series(name, *kind_of(name), [], [])
            if series.kind:
                series.rows.append(number)
                series.values.append(value)
                is_known = True
        return is_known


def _count_of(text: str, pairs: list[tuple[str, float]]) -> tuple[float, str] | None:
    """(count, of what) of the epochs or steps that a row counts, None if it counts none."""
    named = next((value for name, value in pairs if name.lower() in COUNTS), None)
    if named is not None:
        return named, "step"
    count = _COUNT.search(text)
    if not count:
        return None
    return float(count[1] or count[2]), count[0][:4].lower() if count[1] else ""


def _thinned(rows: list[Row]) -> list[Row]:
    """Rows of every shape, with a limited number of evenly spread rows of a frequent one.

    A shape is a row without its digits, so the first nan begins a new shape.
    """
    if len(rows) <= PER_SHAPE:
        return rows
    shapes: dict[bytes, list[int]] = {}
    for at, (_, raw) in enumerate(rows):
        shape = shape_of(raw)
        if shape in shapes or len(shapes) < SHAPES:
            shapes.setdefault(shape, []).append(at)
    most = max(3, min(PER_SHAPE, MOST_ROWS // len(shapes)))
    chosen: set[int] = set()
    for places in sorted(shapes.values(), key=len, reverse=True):
        chosen.update(
            places
            if len(places) <= most
            else [places[i * (len(places) - 1) // (most - 1)] for i in range(most)]
        )
        if len(chosen) > MOST_ROWS:
            break
    return [rows[at] for at in sorted(chosen)]


def is_of_all(loss: Series) -> bool:
    """Return whether the name of a loss says that it is the training loss."""
    return loss.name.lower().strip() in _MAIN


def main_of(losses: list[Series]) -> Series | None:
    """Return the training loss: by its name, otherwise the largest of those that are printed often.

    `losses` come longest first. None without one.
    """
    for series in losses:
        if is_of_all(series):
            return series
    if not losses:
        return None
    often = len(losses[0].values)
    return max(losses, key=lambda series: (len(series.values) * 2 > often, series.values[0]))
