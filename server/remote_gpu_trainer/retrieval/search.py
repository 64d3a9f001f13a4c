"""Rank the entries for some evidence, and say whether to claim the first. No clock, no network.

Three things speak for an entry: the meaning of the report (the encoder compares it with two cards
of the entry), its words (BM25F), and a signature in it. The fitted judge weighs the three, which
gives the ranking by likeness. Then the first of these cases that holds decides which entry comes
first and whether it is claimed:

1. The numbers of the run are sound: only what the run warns of is claimed.
2. A curve or stack dumps show an entry: it comes first.
3. In a file, the program caught the cause and logged it before it failed by something else: the
   entry of the cause comes first or second.
4. A signature names the cause: its entry comes first or second.
5. A signature of a rank that only lost another one: its entry comes first or second.
6. The report says too little: nothing is claimed.
7. Numbers point to an entry: it comes first or second.
8. None of these: likeness decides alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..catalogue import bundle
from ..catalogue.signatures import Hit, SignatureIndex
from ..logs.evidence import Evidence
from ..logs.kinds import APART, CONSEQUENCE, EXCEPTION, FAILED, FAILURE, WARNING
from ..logs.prose import is_complaint
from ..logs.salient import only_versions
from ..logs.wrapping import launcher_talk
from . import chinese, encoder, index, numpy
from .candidates import Candidate, Candidates, Ranking, put_first, put_second
from .encoder import Encoder
from .gist import gist
from .index import Index
from .judge import (
    LEAST_WORDS,
    Judge,
    best_first,
    features,
    known_words,
    load_judge,
    signs,
)

# A line is claimed as low if an entry explains it with at least this chance. The judge's own limit
# is for files and longer reports. See evals/EXPERIMENTS.md.
LINE_IN_SCOPE = 0.23
FEW_WORDS, FEW_RIGHT = 4, 0.1  # of a line that has no other word: the least chance to be right
LONGEST_LINE, MOST_WORDS = 240, 16  # characters, and words; two Chinese characters are a word
# A signature that names the cause gives "high" only if its entry leads the next by this share. Of
# the 287 reports of the tuning half that reach it .979 were right, of the others .90.
CLEAR = 0.9
RELATED = 0.5  # from this meaning of the first entry, a report gets titles in any case
# From this share of known words, a report without Latin letters gets titles. The encoder knows few
# Chinese characters, so the meaning of such a report says little.
COVERED = 0.7
REASONED = 3  # candidates that say which words speak for them
OF_THE_MACHINE = frozenset(("ENV", "HW"))  # families of what explains failures of every other
MEANING = 0  # its place in judge.FEATURES
LEAD = 0  # its place in judge.SIGNS


@dataclass(frozen=True)
class Pointed:
    """The entry that numbers in a report point to. It goes first, or second without `first`."""

    entry_id: str
    first: bool


@dataclass(frozen=True)
class Report:
    """What the steps of a ranking know of a report.

    `text` is its gist. `hits` are the signatures found in it. `best_hits` maps the id of an entry
    to one of its hits, a decisive one if there is one. `features` and `shares` have one row for
    each entry of the index. `signs` describe the likeliest entry (see `judge.SIGNS`). `known_words`
    counts the words of the gist that occur in entries, and `known_share` is their share of all its
    words.
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
        """The decisive hits in the order of the lines. In a sound run these are warnings."""
        decisive = [hit for hit in self.best_hits.values() if hit.decisive]
        return sorted(decisive, key=lambda hit: (hit.line.source, hit.line.number))

    @property
    def causes(self) -> list[Hit]:
        """The hits that name the cause in the part of the report that failed."""
        return [hit for hit in self.best_hits.values() if _names_cause(hit, self.evidence)]

    @property
    def caught(self) -> list[Hit]:
        """In a file that failed, the hits that name a cause in what was logged before it failed.

        Programs log much before they fail, so only a cause of the same family counts, as that of a
        port taken counts before a missing process group, or one in the machine, without whose card
        there is no group; any cause if the failure has none.
        """
        evidence, first = self.evidence, self.evidence.first
        if not evidence.of_file or evidence.says_all:
            return []
        if evidence.is_compared and first is None:  # any complaint that the good run doesn't have
            return [hit for hit in self.best_hits.values() if _is_logged_cause(hit)]
        if first is None or not evidence.failed():
            return []
        last = [hit for hit in self.causes if hit.line.number >= first.number]
        families = {_family(hit.entry_id) for hit in last}
        families |= OF_THE_MACHINE if families else set()
        return [
            hit
            for hit in self.best_hits.values()
            if _is_logged_cause(hit, with_warnings=bool(families))
            and (not families or _family(hit.entry_id) in families)
            and hit.line.source == first.source
            and hit.line.number < first.number
        ]

    @property
    def cascade(self) -> Hit | None:
        """The first hit in the words of a rank that failed only because it lost another one.

        A line that says so needn't read as a failure, as `killed` doesn't. What a launcher writes
        under every failure counts only where nothing else failed.
        """
        is_alone = is_line(self.evidence)
        talk = launcher_talk(self.evidence.lines)
        failed = [line for line in self.evidence.lines if line.kind in FAILED]
        is_all = all((line.source, line.number) in talk for line in failed)
        for hit in self.hits:
            is_said_by_program = (hit.line.source, hit.line.number) not in talk
            if _is_cascade(hit, is_alone) and (is_all or is_said_by_program):
                return hit
        return None

    @property
    def says_too_little(self) -> bool:
        """Whether a report has less than two known words, or only states versions."""
        lines = self.evidence.lines
        return self.known_words < LEAST_WORDS or only_versions(line.text for line in lines)


@dataclass(frozen=True)
class Retriever:
    """The models and indexes of a look-up. `encoder` is None if its file is missing or damaged."""

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

        `sentence` is one sentence about the report by somebody who read it. The cases are those of
        the module's docstring, in the same order.
        """
        report = self._read(evidence, sentence)
        likely = self._by_likeness(report, most)
        if evidence.seen == "sound":
            return _warnings_alone([] if evidence.of_file else report.warnings, likely)
        if evidence.seen in self.index.column:  # it is the id of an entry
            return _seen_first(evidence.seen, likely)
        if report.caught:
            return _cause_leads(report, likely, report.caught)
        if report.causes:
            return _cause_leads(report, likely, report.causes)
        if report.cascade:
            says_nothing = report.says_too_little and not is_line(evidence)
            others = () if says_nothing else likely.candidates
            if evidence.of_file and not sentence and not (others and others[0].hit):
                likely = replace(likely, confidence="")  # words alone claim nothing in a file
            return _cascade_claimed(report.cascade, replace(likely, candidates=others))
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
        known, known_share = known_words(text, self.index)
        return Report(
            evidence,
            text,
            hits,
            {hit.entry_id: hit for hit in sorted(hits, key=lambda hit: hit.decisive)},
            rows,
            shares,
            signs(text, rows, shares, self.index),
            known,
            known_share,
        )

    def _by_likeness(self, report: Report, most: int) -> Ranking:
        """Rank the entries by their shares, and claim the first if the judge does."""
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
        if not confidence and self._is_likely_line(report):
            confidence = "low"
        worth_a_look = (
            worth_a_look
            or float(report.features[columns[0]][MEANING]) >= RELATED
            or (_lacks_latin_letters(report.text) and report.known_share >= COVERED)
            # Without the encoder no share is sure, but the nearest entries are worth a look.
            or self.encoder is None
        )
        return Ranking(candidates, confidence, worth_a_look, report.known_words, report.known_share)

    def _is_likely_line(self, report: Report) -> bool:
        """Whether a report is a line, and its answer likely right."""
        if self.encoder is None or not is_line(report.evidence):
            return False
        has_few_words = report.known_words <= FEW_WORDS and report.known_share == 1
        is_right = has_few_words and self.judge.chance(report.signs) >= FEW_RIGHT
        return is_right or self.judge.in_scope(report.signs) >= LINE_IN_SCOPE


def is_line(evidence: Evidence) -> bool:
    """Whether somebody gave one line, such as a title or a message, not a file or a report.

    A line says all that its writer knows, so it is claimed sooner than a file that was read.
    """
    texts = [line.text for line in evidence.lines if line.text.strip()]
    if evidence.of_file or len(texts) != 1 or len(texts[0]) > LONGEST_LINE:
        return False
    return chinese.count_of_words(texts[0]) <= MOST_WORDS


@lru_cache(maxsize=1)
def load() -> Retriever:
    """Return the retriever of this installation. Raises CatalogueError."""
    signatures = SignatureIndex(bundle.load_cache().signatures())
    return Retriever(index.load(), encoder.load(), load_judge(), signatures)


def _is_logged_cause(hit: Hit, with_warnings: bool = False) -> bool:
    """Whether a hit names a cause in a line that complains, and is no failure itself.

    Nor is it a warning, unless `with_warnings`.
    """
    line = hit.line
    is_plain = line.kind not in FAILED and (
        with_warnings or not (line.kind == WARNING or line.says("warning"))
    )
    return hit.signature.role == "root" and is_plain and is_complaint(line.text)


def _family(entry_id: str) -> str:
    """The letters of an id: "D" of D4."""
    return entry_id.rstrip("0123456789")


def _warnings_alone(warnings: list[Hit], likely: Ranking) -> Ranking:
    """Claim only what a sound run warns of. Its other words tell of no failure."""
    candidates = tuple(Candidate(hit.entry_id, 1.0, hit) for hit in warnings)
    return replace(
        likely,
        candidates=candidates,
        confidence="low" if candidates else "",
        worth_a_look=False,
    )


def _seen_first(entry_id: str, likely: Ranking) -> Ranking:
    """Put the entry first that a curve or stack dumps show, with at least medium confidence."""
    return replace(
        likely,
        candidates=put_first(Candidate(entry_id, 0.0), likely.candidates),
        confidence="high" if likely.confidence == "high" else "medium",
    )


def _cause_leads(report: Report, likely: Ranking, causes: list[Hit]) -> Ranking:
    """Put the entry whose signature names the cause first.

    It goes second if the likeliest entry also has such a signature. Otherwise the signature
    overrules the judge: where the two differed, it was right in three of four reports and the judge
    in none.
    """
    candidates = likely.candidates
    leader = _first_failing(causes, report.evidence, candidates)
    named = Candidate(leader.entry_id, 0.0, leader)
    if candidates[0].id not in [hit.entry_id for hit in causes]:
        return replace(likely, candidates=put_first(named, candidates), confidence="medium")
    # The lead decides, not the chance to be right, which changes with any other words in the log.
    confidence = "high" if report.signs[LEAD] >= CLEAR else "medium"
    return replace(likely, candidates=put_second(named, candidates), confidence=confidence)


def _cascade_claimed(hit: Hit, likely: Ranking) -> Ranking:
    """Put an entry about losing another rank second, or claim it if likeness claims nothing.

    Such an entry isn't the cause, but it says what to look at next.
    """
    candidate = Candidate(hit.entry_id, 0.0, hit)
    if likely.confidence:
        return replace(likely, candidates=put_second(candidate, likely.candidates))
    return replace(likely, candidates=put_first(candidate, likely.candidates), confidence="low")


def _pointed_to(pointed: Pointed, report: Report, likely: Ranking) -> Ranking:
    """Put the entry that numbers point to first or second."""
    candidate = Candidate(pointed.entry_id, 0.0, report.best_hits.get(pointed.entry_id))
    put = put_first if pointed.first else put_second
    return replace(likely, candidates=put(candidate, likely.candidates))


def _lacks_latin_letters(text: str) -> bool:
    """Whether a text has no Latin letter, as one that is all Chinese."""
    return not any(char.isascii() and char.isalpha() for char in text)


def _names_cause(hit: Hit, evidence: Evidence) -> bool:
    """Whether a hit names the cause in the part of the log that failed."""
    kind = hit.line.kind
    if hit.signature.role != "root" or kind in (WARNING, CONSEQUENCE, *APART):
        return False
    # Only a long log has lines set apart.
    is_short_log = not any(line.kind in APART for line in evidence.lines)
    return hit.decisive or kind in FAILED or is_short_log


def _is_cascade(hit: Hit, is_alone: bool) -> bool:
    """Whether a rank failed with this text because it lost another one or waited too long.

    With `is_alone` there is no other line, and its kind doesn't matter.
    """
    is_failure = is_alone or hit.line.kind in (EXCEPTION, FAILURE)
    return hit.signature.role == "cascade" and is_failure


def _first_failing(hits: list[Hit], evidence: Evidence, candidates: Candidates) -> Hit:
    """Return the first hit of the rank that failed first, or else of the whole report.

    If a line has several hits, return that of the likeliest entry.
    """
    rank = evidence.first.rank if evidence.first else None
    likely = {candidate.id: -candidate.probability for candidate in candidates}
    return min(
        hits,
        key=lambda hit: (hit.line.rank != rank, hit.line.number, likely.get(hit.entry_id, 0.0)),
    )
