"""Did a program that was started again go on where it was? By what it saved and what it printed.

One that begins anew saves the number of its checkpoint once more, and prints steps below it. Either
alone is done by sound programs too: they save what they loaded, overwrite last.pt, begin at an
epoch's start, count steps anew in each epoch.
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


class Steps(NamedTuple):
    """What a start printed. `lowest`, `last`: steps. `fell`: whether its steps went back, so that
    they don't count the whole training. `epoch`: the lowest one, -1 for none."""

    lowest: int
    last: int
    fell: bool
    epoch: int


def steps_of(run: Run, first: int) -> Steps | None:
    """Return what the start whose log begins with this file has printed; None for no step.

    Each bar begins at 0, that of a program that goes on as well, so that 0 is no step.
    """
    text = log.head(run, first, HEAD)
    found = list(filter(None, log.find_steps(run, text)))
    if not found:
        return None
    fell, most = False, found[0]
    for step in found:
        fell = fell or step * 2 < most
        most = max(most, step)
    newest = log.find_step(run, log.tail(run, first, TAIL))
    epochs = [int(number) for number in _EPOCH.findall(text) if len(number) < 10]
    return Steps(min(found), newest or found[-1], fell, min(epochs, default=-1))


def went_on(before: Steps | None, after: Steps | None, saved: int | None = None) -> bool:
    """Return whether the steps after a start show that it went on.

    `saved`: the step of what it began with, where that is known. A start at the beginning of an
    epoch but the first one comes out above half of it.
    """
    if before is None or after is None:
        return False
    if -1 < before.epoch < after.epoch:
        return True
    reached = before.last if saved is None else min(before.last, saved)
    if before.fell:
        return False
    return after.lowest >= reached or after.lowest > max(before.lowest, reached / 2)


class Saves:
    """The checkpoints that lay there before a start which goes on from `saved`."""

    def __init__(self, run: Run, saved: str):
        self.run, self.saved = run, saved
        self._before = self._list()
        written = self._before.get(saved, 0)
        # Beside last.pt may lie numbered ones; one that is newer than `saved` may have been torn.
        older = [path for path, time in self._before.items() if time <= written]
        self._most: dict[str, list[int]] = {}
        for path in [saved] if self._count(saved) else older:
            form = _form(path)
            self._most[form] = max(self._most.get(form, []), self._count(path))

    def look(self) -> dict[str, str]:
        """Return what has been saved since, by kind: `beyond` the highest number of names of its
        form, `again` under it, `lower`, or `saved` without such a number. It may not be whole."""
        found: dict[str, str] = {}
        for path, time in self._list().items():
            if self._before.get(path) == time:
                continue
            count, most = self._count(path), self._most.get(_form(path))
            if not count or not most:
                kind = "saved"
            else:
                kind = "beyond" if count > most else "lower" if count < most else "again"
            found[kind] = path
        return found

    def anew(self, found: dict[str, str], after: Steps | None) -> str:
        """Return the checkpoint that proves a beginning anew: a step that was there is saved once
        more, and steps far below it were printed. "" for none.

        A start at the beginning of an epoch but the first one prints no less than half.
        """
        for kind in ("again", "lower"):
            step = content.step_of(found[kind]) if kind in found else None
            if step is not None and after is not None and after.lowest * 2 <= step:
                return found[kind]
        return ""

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


def _form(path: str) -> str:
    """A path without its steps, epochs and fractions: another fold has another form."""
    folder, name = os.path.split(content.FRACTION.sub(".", path))
    name = re.sub(r"-v\d+(?=\.\w+$)", "", name)  # Lightning's second file of the same step
    rest = content.COUNTED.sub(lambda found: found[0].rstrip("0123456789"), name)
    return os.path.join(folder, rest if rest != name else re.sub(r"\d+", "0", name))
