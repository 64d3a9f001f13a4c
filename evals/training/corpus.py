"""Which reports the encoder learns from, which ones fit the judge, and what is held out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from grading.cases import read_cases, unpacked
from grading.unseen import EVALS, held_out, shut, tracker
from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.logs.informative import gist

NONE = ""
# What a real report counts for: its two readers agree, name different entries, or one of them names
# none; or one reader alone judged and retold it.
READ = {"both": 3.0, "split": 0.8, "doubt": 0.2, "once": 2.0}
MOST_WEIGHT = 2.0
FITTED = 5  # one thread in so many, by the hash of its address, is for the judge alone
LEAST_CHARS = 15
DATA = EVALS / "training/data"


@dataclass(frozen=True)
class Report:
    """A text, the entries that explain it (best first; none: out of scope), and what it counts for.

    `real`: somebody posted it; else it was invented for this purpose.
    """

    text: str
    labels: tuple[str, ...]
    weight: float
    real: bool

    @property
    def gist(self) -> str:
        """The part of it that the encoder reads."""
        return gist(reading.from_text(self.text))


def reports(catalogue: Catalogue, known: frozenset[str]) -> Iterator[tuple[Report, bool]]:
    """(report, whether it is for the judge) of all that may be learned from.

    Labels outside `known` don't count: an entry that is newer than the encoder asks for no other.
    """
    (entries, trackers), unseen = held_out(), shut()
    for text, names, source, weight, tuning in _all(catalogue, known):
        if source in unseen or len(text) < LEAST_CHARS:
            continue
        labels = tuple(dict.fromkeys(n for n in names if n == NONE or n in catalogue.by_id))
        if not labels or tracker(source) in trackers or not entries.isdisjoint(labels):
            continue
        named = tuple(n for n in labels if n != NONE)
        report = Report(text, named, min(weight, MOST_WEIGHT), bool(source))
        judged = tuning and int(sha256(source.encode()).hexdigest()[:8], 16) % FITTED == 0
        yield report, judged


def practice(path: Path) -> Iterator[dict[str, Any]]:
    """The reports of a file in DATA, as its lines have them."""
    return map(json.loads, unpacked(path).splitlines())


def _all(catalogue: Catalogue, known: frozenset[str]) -> Iterator[tuple]:
    """(text, entries or [NONE], source, weight, whether it is of the tuning half of a set)."""
    for name in ("cases.jsonl", "sets/waiting.jsonl", "sets/near.jsonl", "sets/outside.jsonl"):
        for case in read_cases(EVALS / name):
            if case.half == "tuning":
                names = [n for n in (*case.expect, *case.since) if n in known]
                if names or not case.expect:
                    names = [catalogue.current(n) for n in names] or [NONE]
                    yield case.text, names, case.source, 1.0, True
    for path in sorted(DATA.rglob("*.jsonl.xz")):
        for raw in practice(path):
            names = [n.replace("none", NONE) for n in (raw["label"], *raw.get("also", ()))]
            names = [catalogue.current(n) for n in names if n == NONE or n in known]
            weight = READ[raw.get("read", "once")] if "source" in raw else 1.0
            yield raw["text"], names, raw.get("source", ""), weight, False
