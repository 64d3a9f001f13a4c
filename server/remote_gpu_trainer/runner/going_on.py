"""Did a program that was started again go on where it was? By what it saved and what it printed.

One that begins anew saves under the same names and prints the same steps. A sound one may do both
too: it overwrites last.pt, begins at an epoch's start, or counts its steps anew in each epoch.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from . import apart, content, log
from .asking import Failed
from .context import Run

HEAD = 1 << 18  # bytes of a log's beginning in which its first steps are looked for
TAIL = 1 << 16
_EPOCH = re.compile(rb"epochs?[^0-9a-z\r\n]{0,4}([0-9]+)", re.I)
# A date, or seconds since 1970: it grows whatever the program does.
_TIME = re.compile(r"20\d\d[-_.]?[01]\d[-_.]?[0-3]\d|(?<!\d)1[6-9]\d{8}")
_PART = re.compile(r"rank|shard|part|node|gpu|-of-", re.I)  # whose numbers tell of no time
KINDS = ("again", "beyond", "lower", "saved", "")  # what decides first


class Steps(NamedTuple):
    """What a start printed. `lowest`, `last`: steps. `fell`: whether its steps went back, so that
    they don't count the whole training. `epoch`: the lowest one, -1 for none. `count`: of steps."""

    lowest: int
    last: int
    fell: bool
    epoch: int
    count: int


def steps_of(run: Run, first: int) -> Steps | None:
    """Return what the start whose log begins with this file has printed; None for no step."""
    text = log.head(run, first, HEAD)
    found = log.find_steps(run, text)
    if not found:
        return None
    fell, most = False, found[0]
    for step in found:
        fell = fell or step * 2 < most
        most = max(most, step)
    newest = log.find_step(run, log.tail(run, first, TAIL))
    epochs = [int(number) for number in _EPOCH.findall(text) if len(number) < 10]
    last = found[-1] if newest is None else newest
    return Steps(min(found), last, fell, min(epochs, default=-1), len(set(found)))


def went_on(before: Steps | None, after: Steps | None, saved: int | None = None) -> bool | None:
    """Return whether the steps after a start show that it went on; None where they don't tell.

    `saved`: the step of what it began with, where that is known. A start at the beginning of an
    epoch but the first one comes out above half of it.
    """
    if before is None or after is None:
        return None
    if -1 < before.epoch < after.epoch:
        return True
    if before.fell:
        return None
    return after.lowest > before.lowest and not _is_far_below(before, after, saved)


def has_fallen(before: Steps | None, after: Steps | None, saved: int | None = None) -> bool:
    """Return whether an attempt's steps begin far below those of the attempt before it, which may
    have begun with the same checkpoint."""
    if before is None or after is None or before.fell or -1 < before.epoch < after.epoch:
        return False
    return _is_far_below(before, after, saved)


def _is_far_below(before: Steps, after: Steps, saved: int | None) -> bool:
    reached = before.last if saved is None else min(before.last, saved)
    return after.lowest * 2 <= reached


class Saves:
    """The checkpoints that lay there when a program was killed, `saved` the newest whole one.

    `count`: the highest number among them, as steps or epochs, [] where names carry none.
    """

    def __init__(self, run: Run, saved: str):
        self.run, self.saved = run, saved
        self._before = self._list()
        self.count = self._count(saved)
        if not self.count:
            # Beside last.pt may lie numbered ones; one that is newer may have been torn.
            written = self._before.get(saved, 0)
            older = [path for path, time in self._before.items() if time <= written]
            self.count = max(map(self._count, older), default=[])

    def look(self) -> tuple[str, str]:
        """Return what has been saved since: `beyond` the highest number, `again` under it, `lower`
        or `saved` without a number; and its path. "" for nothing. It may not be whole yet."""
        found = {"": ""}
        for path, time in self._list().items():
            if self._before.get(path) == time:
                continue
            count = self._count(path)
            if not self.count or not count:
                found["saved"] = path
            elif _is_above(count, self.count):
                found["beyond"] = path
            else:
                found["lower" if _is_above(self.count, count) else "again"] = path
        if self.count:
            found.pop("saved", None)
        return next((kind, found[kind]) for kind in KINDS if kind in found)

    def _list(self) -> dict[str, int]:
        run = self.run
        with suppress(Failed):
            found = apart.call(
                run, content.newest_first, run.checkpoints, run.spec.checkpoint_pattern
            )
            return {item.path: item.weights for item in (content.Item(*item) for item in found)}
        return {}

    def _count(self, path: str) -> list[int]:
        """Return the steps or epochs in a name, [] for one that carries none.

        A number that no word tells of counts where names differ in it: model_7b has none.
        """
        name = os.path.basename(path)
        if _TIME.search(name):
            return []
        told = content.counted(name)
        if told or _PART.search(name):
            return told
        kind = content.kind_of(path)
        differs = any(other != path and content.kind_of(other) == kind for other in self._before)
        return content.numbers_of(path) if differs else []


def _is_above(count: list[int], other: list[int]) -> bool:
    """Compare the numbers of two names; of two forms only the last one, which is the finest."""
    return count > other if len(count) == len(other) else count[-1] > other[-1]
