"""Follow a log line by line: where the run is, and the newest number of each kind.

Whether "step 20/100" counts a run or an epoch, and which bar is the one of training, only several
lines together show. Until they do, the step is left out. Knows no clock. Python 3.8.
"""

from __future__ import annotations

import math
import re
from typing import Any, Iterator

from .line import BARE, MOST, PART, RUN, Reading, read
from .named_numbers import header

PIECE = 1 << 15  # bytes of a piece of a log that are read; what comes before them is skipped
NO_BAR = -1  # the length of training's bar where it has none
NAMES = ("loss", "val_loss", "lr", "grad_norm")


class Course:
    """What the lines of an attempt have told so far.

    `step`, `total`: of the whole run. `epoch`: as printed. `newest`: by name, {"value", "step",
    "t"}; a value that isn't finite is the text "nan", "inf" or "-inf". `rate`: steps a second,
    as the program prints it. `best`: the lowest val_loss so far, as in `newest`. `losses`: how many
    of the training's were read. `printed`: the newest step as a line has it, of the run or of an
    epoch; that of an unnamed bar counts where it is the longest so far and no line has told which
    one is that of training.
    """

    def __init__(self, final_step: int = 0, bar: int = 0) -> None:
        """Begin with the first line, or with any later one: `bar` is then as before it."""
        self.final_step = final_step
        self.printed: int | None = None
        self.step: int | None = None
        self.total: int | None = None
        self.epoch: float | None = None
        self.newest: dict[str, dict[str, Any]] = {}
        self.best: dict[str, Any] | None = None
        self.rate: float | None = None
        self.losses = 0
        self._rest = b""
        self._columns: list[str] = []
        self._first_epoch: float | None = None
        self._has_fractions = False  # of epochs: HF's, whose steps are of the run
        self._last_epoch: float | None = None  # at the last line with a step
        self._epochs: int | None = None
        self._counts = ""  # what a step with a total counts: RUN, PART, "" while unknown
        self._falls = False  # a step without a total fell: it counts an epoch of unknown length
        self._furthest = 0
        self._main = bar  # the length of the bar of training
        self._longest = 0  # of the bars that name nothing, while that isn't known
        self._bar: Reading | None = None  # the last bar that names nothing
        self._last: Reading | None = None  # the last line with a step

    def feed(self, piece: bytes, now: float) -> None:
        """Read what the log has more of; a line counts once it is ended, a bar's at once."""
        if len(piece) > PIECE:
            self._rest, piece = b"", piece[-PIECE:]
            piece = piece[piece.find(b"\n") + 1 :]
        *lines, rest = re.split(rb"[\r\n]+", self._rest + piece)
        if rest.rstrip().endswith(b"]") and b"%|" in rest:  # a bar has no line's end
            lines.append(rest)
        self._rest = rest[-MOST:]
        for line in lines:
            self.take(line.decode("utf-8", "replace"), now)

    def take(self, line: str, now: float) -> None:
        """Read one line. `now`: seconds since 1970."""
        reading = read(line, self._columns)
        has_digits = any(map(str.isdigit, line[:MOST]))
        if not has_digits:
            self._columns = header(line[:MOST])
        elif self._columns and reading.step is None and reading.epoch is None and "%|" not in line:
            self._columns = []
        if reading.scope == BARE and reading.has_numbers:
            # The first bar with a loss is that of training, one of another length of held-out data.
            self._main = self._main or reading.total or 0
            if reading.total != self._main:
                return
        self._find_place(reading)
        for name in NAMES:
            value = getattr(reading, name)
            if value is not None:
                shown = value if math.isfinite(value) else str(value)
                self.newest[name] = {"value": shown, "step": self.step, "t": int(now)}
        held_out = reading.val_loss
        is_lower = held_out is not None and (self.best is None or held_out < self.best["value"])
        if is_lower and math.isfinite(held_out or 0):
            self.best = self.newest["val_loss"]
        if reading.loss is not None:
            self.losses += 1
            self._confirm_bar()

    @property
    def bar(self) -> int:
        """Return the length of training's bar, 0 while unknown; NO_BAR: lines tell the step."""
        return self._main or (NO_BAR if self._last is not None else 0)

    def as_dict(self) -> dict[str, Any]:
        """Return what `recall` needs, and what a reader of state.json shows.

        `is_printed`: the step is as the program prints it, and not put together from epochs.
        """
        place = {"step": self.step, "total": self.total, "epoch": self.epoch}
        told: dict[str, Any] = {name: value for name, value in place.items() if value is not None}
        is_printed = self._last is not None and self._last.step == self.step
        told.update(newest=self.newest, first_epoch=self._first_epoch, is_printed=is_printed)
        told.update(bar=self.bar)
        told.update({"best": self.best} if self.best else {})
        return told

    def recall(self, told: dict[str, Any]) -> None:
        """Take over what an earlier attempt, or another runner, had read."""
        newest = told.get("newest")
        if isinstance(newest, dict):
            self.newest = {
                name: newest[name] for name in NAMES if isinstance(newest.get(name), dict)
            }
        best = told.get("best")
        if isinstance(best, dict) and isinstance(best.get("value"), (int, float)):
            self.best = best
        first = told.get("first_epoch")
        if isinstance(first, (int, float)):
            self._first_epoch = first

    def _find_place(self, reading: Reading) -> None:
        if reading.total and reading.step is None:
            self._main = self.total = reading.total
        if reading.epoch is not None:
            if self._first_epoch is None:
                self._first_epoch = reading.epoch
            self.epoch = reading.epoch
            self._has_fractions = self._has_fractions or reading.epoch % 1 > 0
        self._epochs = reading.epochs or self._epochs
        if reading.step is None:
            return
        if reading.scope == BARE and not self._is_of_training(reading):
            if not self.bar and (reading.total or 0) >= self._longest:
                self.printed, self._longest = reading.step, reading.total or 0
            return
        self.printed = reading.step
        self.rate = reading.rate or self.rate
        if reading.scope == RUN:
            self._set(reading.step, reading.total or self.total)
        elif reading.scope == PART or self._counts_epochs(reading):
            self._set_within(reading)
        elif self._counts or not reading.total or not self._may_count_epochs():
            self._set(reading.step, reading.total or self.total)
        else:
            self.step = self.total = None  # the first epoch: both are possible
        self._last, self._last_epoch = reading, self.epoch

    def _set(self, step: int, total: int | None) -> None:
        self.step = step
        total = total or self.final_step or None
        self.total = total if total and total >= step else None

    def _set_within(self, reading: Reading) -> None:
        """Turn a step of an epoch into one of the run, where that is known."""
        epoch, first = self.epoch, self._first_epoch
        self.step = self.total = None
        if epoch is None or first not in (0, 1) or not reading.total or reading.step is None:
            return
        step = int(epoch - first) * reading.total + reading.step
        # "Epoch 0/9" may be the first of nine or of ten.
        total = self._epochs * reading.total if self._epochs and first == 1 else None
        self._set(step, total)

    def _may_count_epochs(self) -> bool:
        is_counted = self.epoch is not None and not self._has_fractions
        return is_counted and (self._epochs or 2) > 1

    def _counts_epochs(self, reading: Reading) -> bool:
        """Return whether a step with a total is one of an epoch, as far as the lines show."""
        last = self._last
        if not reading.total and last is not None and not last.total:
            return self._falls_back(reading, last)
        if self._counts == PART or not reading.total or reading.step is None:
            return self._counts == PART
        if last is not None and last.total == reading.total and last.step is not None:
            # Ranks that print side by side are a step or two apart.
            has_fallen = reading.step < last.step - max(0.3 * reading.total, 2)
            is_later = (self._last_epoch or 0) < (self.epoch or 0)
            # A bar is drawn again at the same step; a line that tells both isn't.
            is_told = reading.epoch is not None and last.epoch is not None
            if has_fallen or (is_later and is_told and reading.step <= last.step):
                self._counts = PART  # it began anew
            elif is_later and reading.step > last.step:
                self._counts = self._counts or RUN
        first = self._first_epoch
        if not self._counts and self._epochs and self.epoch is not None and first in (0, 1):
            most = (self.epoch - first + 1) * reading.total / self._epochs
            if reading.step > most + 1:
                self._counts = PART  # further than a step of the run could be in this epoch
        return self._counts == PART

    def _falls_back(self, reading: Reading, last: Reading) -> bool:
        """Return whether steps without a total begin anew with each epoch."""
        before, step = last.step or 0, reading.step or 0
        is_later = (last.epoch or 0) < (reading.epoch or 0) and last.epoch is not None
        if step < before - max(0.3 * before, 2) or (is_later and step <= before):
            self._falls = True
        elif step > 1.2 * self._furthest:
            self._falls = False  # it had only gone on from a checkpoint
        self._furthest = max(self._furthest, step, before)
        return self._falls

    def _is_of_training(self, reading: Reading) -> bool:
        """Return whether a bar that names nothing is that of training."""
        self._bar = reading if reading.is_open else None
        return reading.total == self._main

    def _confirm_bar(self) -> None:
        """A training loss below an open bar shows whose bar it is."""
        bar = self._bar
        if bar is not None and bar.total and not self._main and self.step is None:
            self._main = bar.total
            self._set(bar.step or 0, bar.total)
            for told in self.newest.values():
                told["step"] = self.step if told["step"] is None else told["step"]


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text; a bar's are ended by a carriage return."""
    for line in re.split(r"[\r\n]+", text):
        if line.strip():
            yield line
