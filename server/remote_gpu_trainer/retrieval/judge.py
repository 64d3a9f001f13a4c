"""The fitted judge: three linear models over a few numbers of a report.

One orders the entries by FEATURES. Two say, by SIGNS, how likely the first entry is right, and
whether any entry explains the report. evals/train.py fits them on reports that the encoder never
saw, and writes their weights to judge.json.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from pathlib import Path

from ..catalogue.signatures import Hit
from . import chinese, numpy
from .encoder import Encoder
from .index import Index

JUDGE = Path(__file__).with_name("judge.json")
MOST_PIECES = 64  # of a report's text, for its meaning: with 128 it finds the same entries
SHORT_TEXT = 60  # characters of a Chinese text that is read in both languages
LEAST_WORDS = 2  # known words without which a report says nothing
SHORT = 10  # known words below which a report is short
# Words of the first entry that a short report counts for, at least. With 10, "It does not work" got
# titles, though it says nothing.
ENOUGH = 3
CONFIDENCES = ("high", "medium", "low")
FEATURES = (
    "meaning",  # cosine of the report and the nearer of the entry's two cards
    "words",  # BM25F, relative to the best entry
    "signature",  # a literal text of the entry is in a decisive line: 1, else 0
)
SIGNS = (
    "lead",  # share of the first entry, less that of the second
    "meaning",  # of the first entry
    "signature",  # of the first entry
    "held",  # logarithm of the number of its words that the first entry has too
)


@dataclass(frozen=True)
class Judge:
    """The weights of the three models, and the limits of a claim.

    `order` weighs FEATURES. `right` and `inside` weigh SIGNS and end with a constant: whether the
    first entry is right, and whether any entry explains the report. `limits`: the least `right` of
    each confidence, and the least `inside` of titles.
    """

    order: tuple[float, ...]
    right: tuple[float, ...]
    inside: tuple[float, ...]
    limits: dict[str, float]

    def shares(self, features: numpy.ndarray) -> numpy.ndarray:
        """Each entry's share of belief, shape (entries,), from its FEATURES; they sum to 1."""
        scores = features @ numpy.array(self.order, "f")
        scores = numpy.exp(scores - scores.max())
        return scores / scores.sum()

    def confidence(self, signs: list[float]) -> tuple[str, bool]:
        """(high, medium, low or "" for no claim; whether titles are worth a look) from SIGNS."""
        right, inside = self.chance(signs), self.in_scope(signs)
        claimed = next((name for name in CONFIDENCES if right >= self.limits[name]), "")
        return claimed, bool(claimed) or inside >= self.limits["titles"]

    def chance(self, signs: list[float]) -> float:
        """How likely the first entry is right, from 0 to 1."""
        return _probability(self.right, signs)

    def in_scope(self, signs: list[float]) -> float:
        """How likely any entry explains the report, from 0 to 1."""
        return _probability(self.inside, signs)


def _probability(model: tuple[float, ...], signs: list[float]) -> float:
    return 1 / (1 + math.exp(-sum(map(mul, model, signs)) - model[-1]))


@lru_cache(maxsize=1)
def load_judge() -> Judge:
    """The fitted judge of this installation."""
    raw = json.loads(JUDGE.read_text(encoding="utf-8"))
    signs = (*SIGNS, "constant")
    return Judge(
        tuple(raw["order"][name] for name in FEATURES),
        tuple(raw["right"][name] for name in signs),
        tuple(raw["inside"][name] for name in signs),
        raw["limits"],
    )


def features(text: str, hits: list[Hit], index: Index, encoder: Encoder | None) -> numpy.ndarray:
    """FEATURES of each entry, shape (entries, 3). Without an encoder all meanings are 0."""
    rows = numpy.zeros((len(index.ids), len(FEATURES)), "f")
    if encoder:
        rows[:, 0] = _meanings(text, index, encoder)
    scores = index.bm25(chinese.read(text).whole)
    rows[:, 1] = scores / max(float(scores.max()), 1e-6)
    for hit in hits:
        if hit.decisive and hit.entry_id in index.column:
            rows[index.column[hit.entry_id], 2] = 1
    return rows


def _meanings(text: str, index: Index, encoder: Encoder) -> numpy.ndarray:
    """The meaning of each entry for a text: of a Chinese one that of its English.

    A short one is read in both languages, and the mean counts. For a long one that takes too long.
    """
    english = chinese.read(text).english
    forms = [english or text]
    if english and len(text) <= SHORT_TEXT:
        forms.append(text)
    vectors = [encoder.vector(form, MOST_PIECES) for form in forms]
    return numpy.mean([(index.points @ vector).max(0) for vector in vectors], axis=0)


def signs(text: str, rows: numpy.ndarray, shares: numpy.ndarray, index: Index) -> list[float]:
    """SIGNS of a report. `rows` are the FEATURES of its entries, `shares` their shares."""
    first, second = best_first(shares)[:2]
    reading = chinese.read(text)
    held = index.held(reading.whole if len(text) <= SHORT_TEXT else reading.translated, first)
    if is_short(text, index):
        held = max(held, ENOUGH)
    lead = float(shares[first] - shares[second])
    return [lead, float(rows[first][0]), float(rows[first][2]), math.log(1 + held)]


def is_short(text: str, index: Index) -> bool:
    """Whether a report has few words, all of them known: it says little, but nothing strange."""
    known, share = known_words(text, index)
    return LEAST_WORDS <= known < SHORT and share == 1


def known_words(text: str, index: Index) -> tuple[int, float]:
    """(how many different words of a text occur in entries, their share of its words)."""
    return index.known(chinese.read(text).translated)


def best_first(shares: numpy.ndarray) -> list[int]:
    """The columns of the entries, the one with the greatest share first."""
    return numpy.argsort(-shares, kind="stable").tolist()
