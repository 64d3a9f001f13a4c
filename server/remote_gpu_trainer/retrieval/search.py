"""Evidence to ranked entries, and whether to claim one. Pure: no clock, no network.

Three things speak for an entry: what the report means (the encoder, against two cards of the
entry), its words (BM25F), and a literal signature in it. One linear model over these orders the
entries; two more say whether any entry explains the report, and how likely the first is right.
evals/train.py fits them on reports that the encoder never saw, and writes their numbers to
judge.json.

A literal text that names the cause is never overruled: its entry is first or second.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul
from pathlib import Path

from ..catalogue import bundle
from ..catalogue.signatures import Hit, SignatureIndex
from ..logs.judging import Evidence
from ..logs.lines import APART, FAILED
from ..logs.routine import only_versions, salient
from . import encoder, index, numpy
from .encoder import Encoder
from .index import Index

JUDGE = Path(__file__).with_name("judge.json")
MOST_CHARS = 1000  # of a report's most telling lines
MOST_PIECES = 64  # of those, for its meaning: with 128 it finds the same entries
LEAST_WORDS = 2  # known words without which a report says nothing
SHORT = 10  # known words below which a report is short
ENOUGH = 3  # words of the first entry that a short report counts for, at least
SHORT_RIGHT = 0.35  # least chance to be right of a low claim on one in which nothing failed
CLEAR = 0.9  # lead of an entry that a literal text names from which it is sure
RELATED = 0.5  # meaning of the first entry from which a report gets titles in any case
COVERED = 0.7  # share of known words from which Chinese alone gets titles: it is barely encoded
REASONED = 3  # first entries that say by which words they were found
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
class Candidate:
    """An entry, its share among all entries, its signature in the report if any.

    `words`: the words of the report that speak most for it.
    """

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Candidates, best first, and what they are worth.

    `confidence` is high, medium, low, or "" where nothing is claimed. `worth_a_look`: whether the
    titles may hold the right one; without it the report is plainly of another field.
    """

    candidates: tuple[Candidate, ...]
    confidence: str
    worth_a_look: bool = False


@dataclass(frozen=True)
class Judge:
    """The numbers of three linear models, and the limits of a claim.

    `order` weighs FEATURES. `right` and `inside` weigh SIGNS and end with a constant: whether the
    first entry is right, and whether any entry explains the report. `limits`: the least `right` of
    each confidence, and the least `inside` of titles.
    """

    order: tuple[float, ...]
    right: tuple[float, ...]
    inside: tuple[float, ...]
    limits: dict[str, float]

    def shares(self, found: numpy.ndarray) -> numpy.ndarray:
        """Each entry's share of belief from its FEATURES; they sum to 1."""
        scores = found @ numpy.array(self.order, "f")
        scores = numpy.exp(scores - scores.max())
        return scores / scores.sum()

    def confidence(self, sign: list[float]) -> tuple[str, bool]:
        """(high, medium, low or "" for no claim; whether titles are worth a look) from SIGNS."""
        right, inside = self.chance(sign), _probability(self.inside, sign)
        claimed = next((name for name in CONFIDENCES if right >= self.limits[name]), "")
        return claimed, bool(claimed) or inside >= self.limits["titles"]

    def chance(self, sign: list[float]) -> float:
        """How likely the first entry is right."""
        return _probability(self.right, sign)


def _probability(model: tuple[float, ...], sign: list[float]) -> float:
    return 1 / (1 + math.exp(-sum(map(mul, model, sign)) - model[-1]))


@lru_cache(maxsize=1)
def load_judge() -> Judge:
    """The fitted numbers of this installation."""
    raw = json.loads(JUDGE.read_text(encoding="utf-8"))
    signs = (*SIGNS, "constant")
    return Judge(
        tuple(raw["order"][name] for name in FEATURES),
        tuple(raw["right"][name] for name in signs),
        tuple(raw["inside"][name] for name in signs),
        raw["limits"],
    )


def gist(evidence: Evidence, said: str = "") -> str:
    """The part of a report that is compared: `said`, then its most telling lines.

    In a long log these are the lines of the failure and what somebody says of it. What the log says
    besides, even beside the failure, makes a report neither surer nor likelier.
    """
    lines = salient(evidence)
    kinds = {line.kind for line, _, _ in lines}
    apart = {*APART[1:], "plain"} if "told" in kinds else set(APART[1:])
    if kinds - apart:
        lines = [row for row in lines if row[0].kind not in apart or row[2]]
    found, room = [said] if said else [], MOST_CHARS - len(said)
    for _, text, _ in lines:
        text = text.strip()
        found.append(text[: max(room, 0)])
        room -= len(text) + 1
        if room <= 0:
            break
    return "\n".join(found)


def features(text: str, hits: list[Hit], index: Index, encoder: Encoder | None) -> numpy.ndarray:
    """FEATURES of each entry, shape (entries, 3). Without an encoder all meanings are 0."""
    found = numpy.zeros((len(index.ids), len(FEATURES)), "f")
    if encoder:
        found[:, 0] = (index.points @ encoder.vector(text, MOST_PIECES)).max(0)
    scores = index.bm25(text)
    found[:, 1] = scores / max(float(scores.max()), 1e-6)
    for hit in hits:
        if hit.decisive and hit.entry_id in index.column:
            found[index.column[hit.entry_id], 2] = 1
    return found


def is_short(text: str, index: Index) -> bool:
    """Whether a report has few words, all of them known: it says little, but nothing strange."""
    known, share = index.known(text)
    return LEAST_WORDS <= known < SHORT and share == 1


def signs(text: str, found: numpy.ndarray, share: numpy.ndarray, index: Index) -> list[float]:
    """SIGNS of a report whose entries have these FEATURES and shares."""
    first, second = _best_first(share)[:2]
    held = index.held(text, first)
    if is_short(text, index):
        held = max(held, ENOUGH)
    lead = float(share[first] - share[second])
    return [lead, float(found[first][0]), float(found[first][2]), math.log(1 + held)]


def _best_first(share: numpy.ndarray) -> list[int]:
    """The columns of the entries, the one with the greatest share first."""
    return numpy.argsort(-share, kind="stable").tolist()


@dataclass(frozen=True)
class Retriever:
    """All that a look-up asks. `encoder` is None where its file is missing or damaged."""

    index: Index
    encoder: Encoder | None
    judge: Judge
    signatures: SignatureIndex

    def rank(
        self,
        evidence: Evidence,
        most: int = 18,
        said: str = "",
        points: tuple[str, bool] | None = None,
    ) -> Found:
        """The `most` likeliest entries.

        `said`: one sentence about the report by somebody who read it. `points`: the entry that
        numbers in the report point to, and whether it goes first or stands second.
        """
        index = self.index
        hits, text = self.signatures.find(evidence), gist(evidence, said)
        found = features(text, hits, index, self.encoder)
        known, covered = index.known(text)
        share = self.judge.shares(found)
        best: dict[str, Hit] = {}
        for hit in sorted(hits, key=lambda hit: hit.decisive):
            best[hit.entry_id] = hit
        order = _best_first(share)[:most]
        candidates = tuple(
            Candidate(
                index.ids[at],
                float(share[at]),
                best.get(index.ids[at]),
                tuple(index.reasons(text, at)) if place < REASONED else (),
            )
            for place, at in enumerate(order)
        )
        if evidence.seen == "sound":  # a healthy run: what it warns of, and no guess
            warned = sorted([hit for hit in best.values() if hit.decisive], key=_place)
            return Found(
                tuple(Candidate(hit.entry_id, 1.0, hit) for hit in warned), "low" if warned else ""
            )
        sign = signs(text, found, share, index)
        confidence, worth_a_look = self.judge.confidence(sign)
        is_asked = not any(line.kind in FAILED for line in evidence.lines)
        if is_asked and is_short(text, index) and self.encoder and not confidence:
            confidence = "low" if self.judge.chance(sign) >= SHORT_RIGHT else ""
        worth_a_look = worth_a_look or float(found[order[0]][0]) >= RELATED
        if not any(char.isascii() and char.isalpha() for char in text):
            worth_a_look = worth_a_look or covered >= COVERED
        told = [hit for hit in best.values() if is_failure(hit, evidence)]
        if evidence.seen in index.column:  # a curve that an entry is about
            candidates = put_first(Candidate(evidence.seen, 0.0), candidates)
            confidence = confidence if confidence == "high" else "medium"
        elif told:
            leader = _first_failing(told, evidence, candidates)
            is_agreed = candidates[0].id in [hit.entry_id for hit in told]
            # Not by the chance to be right: any words in the log would count for or against it.
            confidence = "high" if is_agreed and sign[0] >= CLEAR else "medium"
            if is_agreed:
                candidates = behind(1, Candidate(leader.entry_id, 0.0, leader), candidates)
            else:
                candidates = put_first(Candidate(leader.entry_id, 0.0, leader), candidates)
        elif lost := next(filter(_is_cascade, hits), None):  # all that is known
            survivor = Candidate(lost.entry_id, 0.0, lost)
            candidates = (
                behind(1, survivor, candidates) if confidence else put_first(survivor, candidates)
            )
            confidence = confidence or "low"
        elif known < LEAST_WORDS or only_versions(line.text for line in evidence.lines):
            return Found((), "")
        elif points:
            pointed = Candidate(points[0], 0.0, best.get(points[0]))
            candidates = (
                put_first(pointed, candidates) if points[1] else behind(1, pointed, candidates)
            )
        # Without an encoder no share is sure, but the nearest by words are worth a look.
        return Found(candidates, confidence, self.encoder is None or worth_a_look)


@lru_cache(maxsize=1)
def load() -> Retriever:
    """The retriever of this installation. Raises CatalogueError."""
    signatures = SignatureIndex(bundle.load_cache().signatures())
    return Retriever(index.load(), encoder.load(), load_judge(), signatures)


def _place(hit: Hit) -> tuple[str, int]:
    return hit.line.source, hit.line.number


def is_failure(hit: Hit, evidence: Evidence) -> bool:
    """Whether a literal text names the cause in the part of the log that failed."""
    kind = hit.line.kind
    if hit.signature.role != "root" or kind in ("warning", "consequence", *APART):
        return False
    is_short = not any(line.kind in APART for line in evidence.lines)
    return hit.decisive or kind in FAILED or is_short


def _is_cascade(hit: Hit) -> bool:
    """Whether a rank that lost another one, or waited too long, failed with this text."""
    return hit.signature.role == "cascade" and hit.line.kind in ("exception", "failure")


def _first_failing(hits: list[Hit], evidence: Evidence, candidates: tuple[Candidate, ...]) -> Hit:
    """The literal text that stands first on the rank that failed first.

    Of several in one line the likeliest entry's.
    """
    rank = evidence.first.rank if evidence.first else None
    likely = {candidate.id: -candidate.probability for candidate in candidates}
    return min(
        hits,
        key=lambda hit: (hit.line.rank != rank, hit.line.number, likely.get(hit.entry_id, 0.0)),
    )


def put_first(other: Candidate, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """With this one before the others, at no less than the share of the first."""
    found = next((c for c in candidates if c.id == other.id), other)
    most = max([found.probability, *(c.probability for c in candidates)])
    return (
        replace(found, probability=most),
        *[
            replace(c, probability=min(c.probability, 0.99 * most))
            for c in candidates
            if c.id != other.id
        ],
    )


def of_these_first(name: str, found: Found) -> Found:
    """With this one first, where it is one of several candidates that are claimed."""
    if not found.confidence or name not in [c.id for c in found.candidates[1:]]:
        return found
    named = put_first(Candidate(name, 0.0), found.candidates)
    return replace(found, candidates=named, confidence="medium")


def before(found: Found, others: Found) -> Found:
    """What was found in one rank's log, and second what a root text in those of all names."""
    named = [
        c
        for c in others.candidates[:1]
        if c.hit and c.hit.signature.role == "root" and others.confidence
    ]
    return (
        replace(found, candidates=behind(1, named[0], found.candidates))
        if named and found.candidates
        else found
    )


def behind(
    count: int, other: Candidate, candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """With this one behind the first `count`, unless it is among those."""
    if other.id in [c.id for c in candidates[:count]]:
        return candidates
    least = 0.99 * candidates[count - 1].probability
    return (
        *candidates[:count],
        replace(other, probability=least),
        *[
            replace(c, probability=min(c.probability, 0.99 * least))
            for c in candidates[count:]
            if c.id != other.id
        ],
    )
