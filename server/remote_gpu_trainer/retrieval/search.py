"""Evidence to ranked entries, and whether to claim one. Pure: no clock, no network.

Three things speak for an entry: what the report means (the encoder, against two cards of the
entry), its words (BM25F), and a literal signature in it. The fitted judge puts them together. Then
the first of these cases that holds decides what leads and what is claimed:

1. a run whose numbers are sound: only what it warns of
2. a curve or dumps that an entry is about
3. a literal text that names the cause; it is never overruled: its entry is first or second
4. a literal text of a rank that only lost another one
5. a report that says too little
6. numbers that point to an entry
7. likeness alone
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..catalogue import bundle
from ..catalogue.signatures import Hit, SignatureIndex
from ..logs.evidence import Evidence
from ..logs.kinds import APART, FAILED
from ..logs.salient import only_versions
from . import encoder, index, numpy
from .candidates import Candidate, Candidates, Ranking, put_first, put_second
from .encoder import Encoder
from .gist import gist
from .index import Index
from .judge import LEAST_WORDS, Judge, best_first, features, is_short, load_judge, signs

# Least chance to be right of a low claim on a short question. Of a report in which something
# failed, the judge's own limit holds.
SHORT_RIGHT = 0.35
# A literal match is "high" only when its entry leads the next by this share. Of 287 such reports of
# the tuning half .979 were right, of the others .90.
CLEAR = 0.9
RELATED = 0.5  # meaning of the first entry from which a report gets titles in any case
# Share of known words from which a report in Chinese alone gets titles. The encoder knows few
# characters, so its meaning says little.
COVERED = 0.7
REASONED = 3  # first entries that say by which words they were found
MEANING, LEAD = 0, 0  # places among FEATURES and among SIGNS


@dataclass(frozen=True)
class Pointed:
    """The entry that numbers in a report point to: `first` puts it first, else second."""

    entry_id: str
    first: bool


@dataclass(frozen=True)
class Report:
    """What the steps of a ranking know of a report.

    `text` is its gist. `features` and `shares` have a row for each entry of the index, `signs` are
    those of the first. `hits` are the literal texts in it; `best_hits` holds one for each entry, a
    decisive one where there is one. `known_words` counts the words of the gist that entries have,
    `known_share` is their share of its words.
    """

    evidence: Evidence
    text: str
    hits: list[Hit]
    best_hits: dict[str, Hit]
    features: numpy.ndarray
    shares: numpy.ndarray
    signs: list[float]
    known_words: int
    known_share: float

    @property
    def warnings(self) -> list[Hit]:
        """The decisive literal texts, in the order of the lines."""
        decisive = [hit for hit in self.best_hits.values() if hit.decisive]
        return sorted(decisive, key=lambda hit: (hit.line.source, hit.line.number))

    @property
    def causes(self) -> list[Hit]:
        """The literal texts that name the cause in the part of the report that failed."""
        return [hit for hit in self.best_hits.values() if _names_cause(hit, self.evidence)]

    @property
    def cascade(self) -> Hit | None:
        """The first literal text with which a rank that lost another one failed."""
        return next(filter(_is_cascade, self.hits), None)

    @property
    def says_too_little(self) -> bool:
        """Whether a report has no two known words, or only states versions."""
        lines = self.evidence.lines
        return self.known_words < LEAST_WORDS or only_versions(line.text for line in lines)


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
        sentence: str = "",
        pointed: Pointed | None = None,
    ) -> Ranking:
        """Rank the `most` likeliest entries, and say whether to claim the first.

        `sentence`: one sentence about the report by somebody who read it. `pointed`: the entry that
        numbers in the report point to.
        """
        report = self._read(evidence, sentence)
        likely = self._by_likeness(report, most)
        if evidence.seen == "sound":
            return _warnings_alone(report.warnings, likely)
        if evidence.seen in self.index.column:
            return _seen_first(evidence.seen, likely)
        if report.causes:
            return _cause_leads(report, likely)
        if report.cascade:
            return _cascade_claimed(report.cascade, likely)
        if report.says_too_little:
            return replace(likely, candidates=(), confidence="", worth_a_look=False)
        if pointed:
            return _pointed_to(pointed, report, likely)
        return likely

    def _read(self, evidence: Evidence, sentence: str) -> Report:
        """Compare a report with every entry."""
        text, hits = gist(evidence, sentence), self.signatures.find(evidence)
        rows = features(text, hits, self.index, self.encoder)
        shares = self.judge.shares(rows)
        known_words, known_share = self.index.known(text)
        return Report(
            evidence,
            text,
            hits,
            {hit.entry_id: hit for hit in sorted(hits, key=lambda hit: hit.decisive)},
            rows,
            shares,
            signs(text, rows, shares, self.index),
            known_words,
            known_share,
        )

    def _by_likeness(self, report: Report, most: int) -> Ranking:
        """Order the entries and claim the first as the judge says."""
        columns = best_first(report.shares)[:most]
        candidates = tuple(
            Candidate(
                self.index.ids[column],
                float(report.shares[column]),
                report.best_hits.get(self.index.ids[column]),
                tuple(self.index.reasons(report.text, column)) if place < REASONED else (),
            )
            for place, column in enumerate(columns)
        )
        confidence, worth_a_look = self.judge.confidence(report.signs)
        if not confidence and self._is_fair_question(report):
            confidence = "low"
        worth_a_look = (
            worth_a_look
            or float(report.features[columns[0]][MEANING]) >= RELATED
            or (_is_chinese(report.text) and report.known_share >= COVERED)
            # Without an encoder no share is sure, but the nearest by words are worth a look.
            or self.encoder is None
        )
        return Ranking(candidates, confidence, worth_a_look, report.known_words)

    def _is_fair_question(self, report: Report) -> bool:
        """Whether a short question, in which nothing failed, is likely enough answered."""
        return (
            not any(line.kind in FAILED for line in report.evidence.lines)
            and self.encoder is not None
            and is_short(report.text, self.index)
            and self.judge.chance(report.signs) >= SHORT_RIGHT
        )


@lru_cache(maxsize=1)
def load() -> Retriever:
    """The retriever of this installation. Raises CatalogueError."""
    signatures = SignatureIndex(bundle.load_cache().signatures())
    return Retriever(index.load(), encoder.load(), load_judge(), signatures)


def _warnings_alone(warnings: list[Hit], likely: Ranking) -> Ranking:
    """Claim only what a sound run warns of: its words are no guess at a failure."""
    candidates = tuple(Candidate(hit.entry_id, 1.0, hit) for hit in warnings)
    return replace(
        likely,
        candidates=candidates,
        confidence="low" if candidates else "",
        worth_a_look=False,
    )


def _seen_first(entry_id: str, likely: Ranking) -> Ranking:
    """Put the entry first that a curve or dumps show, at least medium."""
    return replace(
        likely,
        candidates=put_first(Candidate(entry_id, 0.0), likely.candidates),
        confidence="high" if likely.confidence == "high" else "medium",
    )


def _cause_leads(report: Report, likely: Ranking) -> Ranking:
    """Put the entry whose literal text names the cause first, or second behind another such.

    Of the reports in which the literal text and the judge differed, the text was right in three of
    four and the judge in none.
    """
    causes, candidates = report.causes, likely.candidates
    leader = _first_failing(causes, report.evidence, candidates)
    named = Candidate(leader.entry_id, 0.0, leader)
    if candidates[0].id not in [hit.entry_id for hit in causes]:
        return replace(likely, candidates=put_first(named, candidates), confidence="medium")
    # The lead decides, not the chance to be right: any words in the log would move the chance.
    confidence = "high" if report.signs[LEAD] >= CLEAR else "medium"
    return replace(likely, candidates=put_second(named, candidates), confidence=confidence)


def _cascade_claimed(hit: Hit, likely: Ranking) -> Ranking:
    """Claim the entry of a rank that lost another one: it says what to do where nothing else does.

    It stands second where likeness claims another entry.
    """
    survivor = Candidate(hit.entry_id, 0.0, hit)
    if likely.confidence:
        return replace(likely, candidates=put_second(survivor, likely.candidates))
    return replace(likely, candidates=put_first(survivor, likely.candidates), confidence="low")


def _pointed_to(pointed: Pointed, report: Report, likely: Ranking) -> Ranking:
    """Put the entry first or second that numbers point to."""
    candidate = Candidate(pointed.entry_id, 0.0, report.best_hits.get(pointed.entry_id))
    put = put_first if pointed.first else put_second
    return replace(likely, candidates=put(candidate, likely.candidates))


def _is_chinese(text: str) -> bool:
    """Whether a text has no Latin letter."""
    return not any(char.isascii() and char.isalpha() for char in text)


def _names_cause(hit: Hit, evidence: Evidence) -> bool:
    """Whether a literal text names the cause in the part of the log that failed."""
    kind = hit.line.kind
    if hit.signature.role != "root" or kind in ("warning", "consequence", *APART):
        return False
    is_short_log = not any(line.kind in APART for line in evidence.lines)
    return hit.decisive or kind in FAILED or is_short_log


def _is_cascade(hit: Hit) -> bool:
    """Whether a rank that lost another one, or waited too long, failed with this text."""
    return hit.signature.role == "cascade" and hit.line.kind in ("exception", "failure")


def _first_failing(hits: list[Hit], evidence: Evidence, candidates: Candidates) -> Hit:
    """The literal text that stands first on the rank that failed first.

    Of several in one line the likeliest entry's.
    """
    rank = evidence.first.rank if evidence.first else None
    likely = {candidate.id: -candidate.probability for candidate in candidates}
    return min(
        hits,
        key=lambda hit: (hit.line.rank != rank, hit.line.number, likely.get(hit.entry_id, 0.0)),
    )
