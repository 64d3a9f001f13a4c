"""What a rehearsal's program takes of the cards, by nvidia-smi and by torch's own counters.

The card shows what the program needs in all, with the context and what other libraries take. torch
tells what its tensors need, and what its allocator keeps beside them.
"""

from __future__ import annotations

import glob
import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

from ..text.masking import strip_controls
from . import child
from .context import Run

ASKED = {"RGT_PROBE_MEMORY": "1"}  # what makes the probe follow torch's counters
RECORD = "memory.json"  # beside the rehearsal's log
EVERY = 1.0  # seconds between two questions
LIMIT = 30.0  # seconds for an answer; after one that hangs no more is asked
RISEN = 64  # MiB by which a card that the program uses shows more than before
MIB, GIB = 1 << 20, 1 << 30
_QUERY = "index,uuid,name,memory.used,memory.total"
_WORDS = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
ELSEWHERE = "rgt rehearse JOB --on BOX measures it on a box with one"


class Shown(NamedTuple):
    """A card as nvidia-smi shows it, in MiB."""

    uuid: str
    name: str
    used: int
    total: int


class CardMemory:
    """The most that each card showed since this was made, and the cards before that."""

    def __init__(self, run: Run):
        self.run = run
        said = child.answer(_WORDS, LIMIT)
        self.why = "" if said is not None else "nvidia-smi is missing or hangs here"
        self.before = read_cards(said or "")
        self.peaks = {index: card.used for index, card in self.before.items()}
        if not self.why and not self.before:
            self.why = "nvidia-smi shows no card here"
        self._tool: child.Command | None = None
        self._asked_at = run.up

    def look(self) -> None:
        """Take the answer that has come, and ask again when it is time."""
        if self.why:
            return
        if self._tool is not None:
            if self._tool.is_open:
                if self.run.up >= self._asked_at + LIMIT:
                    self._tool.kill()
                    self.why = "nvidia-smi hung while the program ran"
                return
            self._take(self._tool.text())
            self._tool = None
        if self.run.up >= self._asked_at + EVERY:
            self._asked_at = self.run.up
            with suppress(OSError):
                env = {**os.environ, "LC_ALL": "C"}
                self._tool = child.Command(_WORDS, env=env, errors=child.NULL)

    def end(self) -> None:
        """Wait for the last answer: the program is gone, and nothing asks after it."""
        if self._tool is not None and self._tool.finish(LIMIT):
            self._take(self._tool.text())
        self._tool = None

    def cards(self) -> list[dict[str, Any]]:
        """Return the cards that show more than before, in MiB."""
        return [
            {
                "index": index,
                "name": card.name,
                "uuid": card.uuid,
                "total_mib": card.total,
                "before_mib": card.used,
                "peak_mib": self.peaks[index],
            }
            for index, card in sorted(self.before.items())
            if self.peaks[index] >= card.used + RISEN
        ]

    def _take(self, said: str) -> None:
        for index, card in read_cards(said).items():
            self.peaks[index] = max(self.peaks.get(index, 0), card.used)


def read_cards(said: str) -> dict[int, Shown]:
    """Return the cards of an answer by their number; a card that tells no memory is left out."""
    found = {}
    for line in said.splitlines():
        words = [word.strip() for word in line.split(",")]
        # A name may hold a comma.
        if len(words) >= 5 and words[0].isdigit() and words[-2].isdigit() and words[-1].isdigit():
            name = strip_controls(", ".join(words[2:-2]))[:80]
            found[int(words[0])] = Shown(words[1], name, int(words[-2]), int(words[-1]))
    return found


def read_processes(folder: str) -> list[dict[str, Any]]:
    """Return what the probe wrote of each rank that trained, or that held memory of a card.

    A rank of two starts, as before and after a kill, has the most of both.
    """
    ranks: dict[int, dict[str, Any]] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "memory-*.json"))):
        with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            process = json.load(file)
            if isinstance(process, dict) and (process.get("steps") or process.get("cards")):
                rank = int(process.get("rank") or 0)
                ranks[rank] = _joined(ranks[rank], process) if rank in ranks else process
    return [process for _, process in sorted(ranks.items())]


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return what two starts of a rank took at most."""
    peaks = {card["index"]: card for card in one.get("cards") or []}
    for card in other.get("cards") or []:
        peak = peaks.setdefault(card["index"], card)
        peaks[card["index"]] = {
            **peak,
            **{kind: max(peak[kind], card[kind]) for kind in ("allocated", "reserved")},
        }
    further = max(one, other, key=lambda start: start.get("steps") or 0)
    both = {key: bool(one.get(key) or other.get(key)) for key in ("has_card", "evaluated")}
    return {**further, **both, "cards": [peaks[index] for index in sorted(peaks)]}


def measured(cards: CardMemory, processes: list[dict[str, Any]], has_saved: bool) -> dict[str, Any]:
    """Return what was measured, and what the program didn't reach meanwhile."""
    return {
        "cards": cards.cards(),
        "processes": processes,
        "not_reached": _not_reached(processes, has_saved),
        "why": cards.why or ("" if _took_memory(cards, processes) else _unseen(processes)),
    }


def _took_memory(cards: CardMemory, processes: list[dict[str, Any]]) -> bool:
    return bool(cards.cards()) or any(process.get("cards") for process in processes)


def _unseen(processes: list[dict[str, Any]]) -> str:
    """Return why no memory was seen where there are cards."""
    if processes and not any(process.get("has_card") for process in processes):
        return "torch took no card in the program: it trained on the CPU"
    return "no card showed more memory than before"


def _not_reached(processes: list[dict[str, Any]], has_saved: bool) -> list[str]:
    """Return what may take more memory, and didn't happen."""
    missing = [] if has_saved else ["a first save"]
    trained = [process for process in processes if process.get("steps")]
    if not trained:
        return [*missing, "a step of a torch optimizer that could be seen"]
    if not any(process.get("evaluated") for process in trained):
        missing.append("an evaluation")
    first = trained[0]
    largest = "x".join(str(side) for side in first.get("largest") or [])
    if largest:
        count = f"{first.get('calls')} batches" if first.get("shapes", 1) > 1 else "all batches"
        missing.append(f"a sample larger than {largest}, the largest of {count}")
    return missing


def lines(measurement: dict[str, Any]) -> list[str]:
    """Return what was measured in sentences: by card, by torch, and what wasn't reached."""
    found = []
    if measurement["why"]:
        found.append(f"unsure memory: not measured: {measurement['why']}; {ELSEWHERE}")
    for card in measurement["cards"]:
        peak, total, before = (card[f"{kind}_mib"] / 1024 for kind in ("peak", "total", "before"))
        other = f", {before:.1f} of it before the program" if before >= 0.1 else ""
        found.append(
            f"ok memory: GPU {card['index']} ({card['name']}) showed at most {peak:.1f} of"
            f" {total:.1f} GiB{other}; {total - peak:.1f} GiB are left"
        )
    for process in measurement["processes"]:
        for card in process.get("cards") or []:
            tensors, kept = (card[kind] / GIB for kind in ("allocated", "reserved"))
            found.append(
                f"  rank {process.get('rank')}, its card {card['index']}: tensors took"
                f" {tensors:.1f} GiB at most, torch's allocator kept {kept:.1f}"
            )
    if measurement.get("died"):
        found.append("  the program died for want of memory, so it needs more than these numbers")
    elif not measurement["why"] and measurement["not_reached"]:
        found.append(
            f"  not reached, and not in these numbers: {'; '.join(measurement['not_reached'])}"
        )
    return [strip_controls(line) for line in found]
