"""Free room, the cards and the kernel's log, asked of tools that may hang and are left behind."""

from __future__ import annotations

import os
import re

from . import child
from .context import Run
from .failures import OWN_XIDS

IDLE = 0.35  # of a card's power limit: below that it doesn't compute
EVERY = 6  # heartbeats between two questions
LIMIT = 30.0  # seconds after which what isn't answered counts as unknown
_QUERY = "utilization.gpu,power.draw,power.limit,memory.used,name,memory.total,temperature.gpu"
# The rest of a card's line: its name, which may have a comma, then memory and temperature.
_CARD = re.compile(r"(.*?)(?:, *([\d.]+|\[[^],]*\]), *([\d.]+|\[[^],]*\]))?\s*\Z")
_FIELDS = ("use", "memory_mb", "total_mb", "temperature_c")
# A line of df -P: file system, blocks, used, available, capacity, path. Not all have --output.
_ROOM = re.compile(r"\s(\d+)\s+-?\d+\s+(-?\d+)\s+(?:\d+%|-)\s+/")

# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
XID = re.compile(r"NVRM: Xid \([^)\n]{0,100}\): (\d{1,4})")


class Collectors:
    """`free_mb`: the least free room beside run and checkpoints. `disk`: the bytes free and in all
    of that file system. `gpu`: a text about the cards. `gpus`: of each card what it tells of use
    (percent), memory_mb, total_mb and temperature_c. `hot`: whether all the run's cards are busy
    without work; `busy`: whether one computes. None, [] and False while unknown."""

    def __init__(self, run: Run):
        self.run = run
        self.free_mb: int | None = None
        self.disk: tuple[int, int] | None = None
        self.gpu: str | None = None
        self.gpus: list[dict[str, int]] = []
        self.hot = self.busy = False
        self._tools: dict[str, child.Command] = {}
        self._asked: dict[str, float] = {}

    def poll(self) -> None:
        """Take what has come, leave behind what hangs, and ask again when it is time."""
        folders = [self.run.folder.path]
        if self.run.checkpoints:
            folders.append(self.run.checkpoints)
        self._poll("df", ["df", "-Pk", "--", *folders])
        if self.run.spec.gpus:
            options = ["--format=csv,noheader,nounits", f"--query-gpu={_QUERY}"]
            self._poll("nvidia-smi", ["nvidia-smi", *options])

    def _poll(self, name: str, words: list[str]) -> None:
        age = self.run.up - self._asked.get(name, -1e9)
        tool = self._tools.get(name)
        if tool and tool.is_open:
            if age >= LIMIT:
                tool.kill()
                self._take(name, "")
            return  # one that can't be killed would get a crowd beside it
        if tool:
            del self._tools[name]
            self._take(name, tool.text())
        if age >= EVERY * self.run.spec.timings.heartbeat:
            self._asked[name] = self.run.up
            try:
                env = {**os.environ, "LC_ALL": "C"}
                self._tools[name] = child.Command(words, env=env, errors=child.NULL)
            except OSError:
                self._take(name, "")

    def _take(self, name: str, said: str) -> None:
        """Read an answer; '' leaves nothing known."""
        if name == "df":
            self.free_mb, self.disk = least_room(said), _least_disk(said)
            return
        cards, hot, busy = [], 0, False
        self.gpus = []
        for line in said.splitlines():
            words = [word.strip() for word in line.split(",", 4)]
            if len(words) < 5:
                continue
            used, power, limit = (_number(word) for word in words[:3])
            # At full utilisation and idle power the card waits for a message that doesn't come.
            is_idle = limit > 0 and power < IDLE * limit
            hot += used >= 99 and is_idle
            busy = busy or (used >= 10 and not is_idle)
            match = _CARD.match(words[4])
            name, total, heat = match.groups() if match else (words[4], None, None)
            numbers = zip(_FIELDS, (words[0], words[3], total, heat))
            found = {field: word for field, word in numbers if word and word[0].isdigit()}
            self.gpus.append({field: int(_number(word)) for field, word in found.items()})
            cards.append(f"{name} {words[0]}% {int(power)}/{int(limit)}W {words[3]}MB")
        self.gpu = "; ".join(cards) or None
        self.hot, self.busy = 0 < hot >= self.run.spec.gpus, busy


def least_room(said: str) -> int | None:
    """Return the least free megabytes that df -Pk tells, None where it tells none."""
    return min((int(room) // 1024 for _, room in _ROOM.findall(said)), default=None)


def _least_disk(said: str) -> tuple[int, int] | None:
    """Return the free bytes and all bytes of the file system with the least room, None for none."""
    found = [(int(room) * 1024, int(blocks) * 1024) for blocks, room in _ROOM.findall(said)]
    return min(found, default=None)


def _number(word: str) -> float:
    """Return a number, 0 for what a card doesn't tell ([N/A])."""
    try:
        return float(word)
    except ValueError:
        return 0.0


def kernel_log() -> str:
    """Return what the kernel has logged, '' where it can't be read."""
    return child.answer(["dmesg"], 5.0) or ""


def xids(text: str | None = None) -> list[int]:
    """Return the Xids of a failed card in a text, the kernel's log by default, the oldest first."""
    found = map(int, XID.findall(kernel_log() if text is None else text))
    return [number for number in found if number not in OWN_XIDS]
