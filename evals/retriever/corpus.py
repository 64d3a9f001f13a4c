"""Which reports the encoder learns from, which ones fit the judge, and what is held out.

The reporting halves, fresh.jsonl, by_time.jsonl and sealed.jsonl.gz are opened for their addresses
alone, so that no thread of theirs is learned by another way.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from grading.cases import read_cases
from remote_gpu_trainer.catalogue.bundle import Catalogue
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval.search import gist

EVALS = Path(__file__).resolve().parent.parent
HELD_OUT = EVALS / "sets/held_out.json"
SEALED = EVALS / "sets/sealed.jsonl.gz"  # compressed, so that no search shows what is in it
NONE = ""
# What a real report counts for: its two readers agree, name different entries, or one of them names
# none; or one reader alone judged and retold it.
READ = {"both": 3.0, "split": 0.8, "doubt": 0.2, "once": 2.0}
MOST_WEIGHT = 2.0
FITTED = 5  # one thread in so many is kept from the encoder; the judge is fitted on those
LEAST_CHARS = 15


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
        return gist(log_reading.from_text(self.text))


def held_out() -> tuple[frozenset[str], frozenset[str]]:
    """(entries, trackers) whose reports nothing learns from; `how` in the file says the rule."""
    raw = json.loads(HELD_OUT.read_text(encoding="utf-8"))
    return frozenset(raw["entries"]), frozenset(raw["trackers"])


def tracker(source: str) -> str:
    """`owner/name` of a GitHub thread, else the host of the address."""
    found = re.match(r"https?://(?:github\.com/([^/]+/[^/]+)|([^/]+))", source)
    return (found[1] or found[2]).lower() if found else ""


def fitted(key: str) -> bool:
    """Whether this thread is for the judge, by the hash of its address."""
    return int(sha256(key.encode()).hexdigest()[:8], 16) % FITTED == 0


def reports(catalogue: Catalogue) -> Iterator[tuple[Report, bool]]:
    """(report, whether it is for the judge) of all that may be learned from."""
    (entries, trackers), shut = held_out(), unseen_threads()
    for text, names, source, weight, tuning in _all(catalogue):
        if source in shut:
            continue
        labels = tuple(dict.fromkeys(n for n in names if n == NONE or n in catalogue.by_id))
        if not labels or tracker(source) in trackers or not entries.isdisjoint(labels):
            continue
        report = Report(
            text,
            tuple(n for n in labels if n != NONE),
            min(weight, MOST_WEIGHT),
            bool(source),
        )
        yield report, tuning and fitted(source)


def unseen_threads() -> frozenset[str]:
    """The addresses of all reports that only measure."""
    halves = ("cases.jsonl", "sets/waiting.jsonl")
    whole = ("sets/fresh.jsonl", "sets/by_time.jsonl")
    sealed = gzip.decompress(SEALED.read_bytes()).decode().splitlines()
    return frozenset(
        case.source
        for name in (*halves, *whole)
        for case in read_cases(EVALS / name)
        if name in whole or case.half == "reporting"
    ).union(json.loads(line)["source"] for line in sealed)


def _all(catalogue: Catalogue) -> Iterator[tuple[str, list[str], str, float, bool]]:
    """(text, entries or [NONE], source, weight, whether it is of the tuning half of a set)."""
    for name in ("cases.jsonl", "sets/waiting.jsonl", "sets/near.jsonl", "sets/outside.jsonl"):
        for case in read_cases(EVALS / name):
            if case.half == "tuning":
                names = [catalogue.current(n) for n in (*case.expect, *case.since)]
                yield case.text, names or [NONE], case.source, 1.0, True
    data = EVALS / "training/data"
    for path in sorted([*data.rglob("practice/**/*.jsonl"), *data.glob("next/*.jsonl")]):
        for line in path.read_text(encoding="utf-8").splitlines():
            raw = json.loads(line)
            names = [
                NONE if n.lower() == "none" else catalogue.current(n)
                for n in (raw["label"], *raw.get("also", ()))
            ]
            source = raw.get("source", "")
            weight = READ[raw.get("read", "once")] if source else 1.0
            yield raw["text"], names, source, weight, False
