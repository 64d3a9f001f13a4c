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

Three rules of order, which a look-up applies afterwards, then say whether a general entry goes
first, or a special one. Few words ("training hangs") fit a dozen entries: then the one whose page
tells most of the others apart leads, because its check splits the cause. A provider's entry leads a
line only if the line names the provider, and leads any report that names it and has its text.

The judge's weights are fitted by evals/train.py on reports that the encoder never saw, and stand
in judge.json. A move of a candidate gives it a probability that fits its new place, so that the
probabilities still fall from the first candidate to the last, and a later step may sort by them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul
from pathlib import Path

from ..catalogue import bundle
from ..catalogue.entry import Entry
from ..catalogue.grammar import read_page
from ..catalogue.signatures import Hit, SignatureIndex
from ..logs.evidence import Evidence
from ..logs.informative import gist, only_versions
from ..logs.kinds import APART, CONSEQUENCE, EXCEPTION, FAILED, FAILURE, WARNING
from ..logs.launcher import launcher_talk
from ..logs.lines import Line
from ..logs.prose import is_complaint
from ..logs.ranks import HANDLING
from . import cache, chinese, encoder, index, numpy
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
BELOW = 0.99  # share of a candidate's probability that one moved behind it gets
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
MEANING = 0  # its place in FEATURES
LEAD = 0  # its place in SIGNS
TOO_SHORT = 4  # known words of a report up to which it is too short to tell entries apart
NEAR = 10  # first candidates among which an entry may split the cause
SPLITS = 5  # of these that its page must tell apart, at least
KEPT = 4  # the same for the first candidate, which stays first then
LEADERS = 4  # first candidates among which a named provider's entry may lead
# Share of the probability of a provider's entry from which another one leads in its place. In lines
# that named no provider and reached it, ten of seventeen changes were right.
RIVAL = 0.2
ANYWHERE = frozenset({"generic-ssh", "local"})  # whose entries fit any box
# What people write for a platform, other than the name of its page.
_ALSO = {
    "vastai": ("vast",),
    "china": (
        *("恒源", "矩池", "gpushare", "matpool", "featurize"),
        *("hy-tmp", "hy-nas"),
    ),
    "lanrui": ("揽睿",),
    "paperspace": ("gradient notebook", "gradient deployment"),
    "lambda": ("gh200", "grace hopper"),
    "notebooks": ("kaggle", "jupyter", "notebook"),
    "kubernetes": ("k8s", "pod", "kubectl"),
    "slurm": ("sbatch", "srun", "salloc"),
    "aws": ("ec2", "amazon", "sagemaker", "亚马逊"),
    "gcp": ("google cloud", "gce", "gcloud", "谷歌云"),
    "colab": ("notebook",),
    "modal": ("modal.",),
    "runpod": ("pod",),
    "autodl": ("hf-mirror", "镜像站"),
}


@dataclass(frozen=True)
class Candidate:
    """An entry that may explain a report.

    `probability` is its share among all entries, and `hit` its signature in the report, if any.
    `words`: the words of the report that speak most for it; empty from the fourth candidate on.
    """

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


Candidates = tuple[Candidate, ...]


@dataclass(frozen=True)
class Ranking:
    """Candidates, best first, and what they are worth.

    `confidence` is high, medium or low, or "" where nothing is claimed. `worth_a_look`: whether the
    titles may hold the right one; without it the report is plainly of another field. `known_words`
    counts the different words of the compared text that occur in entries, and `known_share` is
    their share of all its words.
    """

    candidates: Candidates
    confidence: str
    worth_a_look: bool = False
    known_words: int = 0
    known_share: float = 1.0


def put_first(candidate: Candidate, candidates: Candidates) -> Candidates:
    """Put a candidate before the others, with at least the probability of the first.

    A candidate of the same id that is there already is moved as it is.
    """
    moved = next((c for c in candidates if c.id == candidate.id), candidate)
    highest = max([moved.probability, *(c.probability for c in candidates)])
    others = [c for c in candidates if c.id != candidate.id]
    return (replace(moved, probability=highest), *_below(highest, others))


def put_second(candidate: Candidate, candidates: Candidates) -> Candidates:
    """Put a candidate behind the first, unless it is the first."""
    first = candidates[0]
    if candidate.id == first.id:
        return candidates
    second = replace(candidate, probability=BELOW * first.probability)
    others = [c for c in candidates[1:] if c.id != candidate.id]
    return (first, second, *_below(second.probability, others))


def _below(probability: float, candidates: list[Candidate]) -> list[Candidate]:
    return [replace(c, probability=min(c.probability, BELOW * probability)) for c in candidates]


def promote(entry_id: str, ranking: Ranking) -> Ranking:
    """Put an entry first if it is a later candidate of a ranking that claims something.

    The claim is medium then.
    """
    if not ranking.confidence or entry_id not in [c.id for c in ranking.candidates[1:]]:
        return ranking
    candidates = put_first(Candidate(entry_id, 0.0), ranking.candidates)
    return replace(ranking, candidates=candidates, confidence="medium")


def second_from(all_ranks: Ranking, ranking: Ranking) -> Ranking:
    """Insert the entry whose root signature matches in the combined logs at second place.

    `ranking` is of the log of the rank that failed, `all_ranks` of the combined logs. Only a root
    signature counts: with the words of ranks that waited, fewer right entries came among three.
    """
    first = all_ranks.candidates[0] if all_ranks.candidates else None
    is_claimed = first and first.hit and first.hit.signature.role == "root" and all_ranks.confidence
    if not first or not is_claimed or not ranking.candidates:
        return ranking
    return replace(ranking, candidates=put_second(first, ranking.candidates))


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
    forms = [text, english] if english and len(text) <= SHORT_TEXT else [english or text]
    vectors = [encoder.vector(form, MOST_PIECES) for form in forms]
    return numpy.mean([(index.points @ vector).max(0) for vector in vectors], axis=0)


def signs(text: str, rows: numpy.ndarray, shares: numpy.ndarray, index: Index) -> list[float]:
    """SIGNS of a report. `rows` are the FEATURES of its entries, `shares` their shares.

    A report of few words, all of them known, says little, but nothing strange.
    """
    reading = chinese.read(text)
    known, known_share = index.known(reading.translated)
    first, second = best_first(shares)[:2]
    said = reading.whole if len(text) <= SHORT_TEXT else reading.translated
    shared = index.count_shared(said, first)
    if LEAST_WORDS <= known < SHORT and known_share == 1:
        shared = max(shared, ENOUGH)
    lead = float(shares[first] - shares[second])
    return [lead, float(rows[first][0]), float(rows[first][2]), math.log(1 + shared)]


def best_first(shares: numpy.ndarray) -> list[int]:
    """The columns of the entries, the one with the greatest share first."""
    return numpy.argsort(-shares, kind="stable").tolist()


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
        """The hits that name the cause in the part of the report that failed.

        An exception that was handled when the last one came counts only where that has no hit.
        """
        hits = [hit for hit in self.best_hits.values() if _names_cause(hit, self.evidence)]
        return [hit for hit in hits if not _was_handled(hit.line, self.evidence)] or hits

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
        known, known_share = self.index.known(chinese.read(text).translated)
        shares = self.judge.shares(rows)
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
            or _is_known_name(report)
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
    return Retriever(index.load(), encoder.load(), load_judge(), _kept_signatures())


def _kept_signatures() -> SignatureIndex:
    """The signatures of this installation, from the cache where it has them."""
    key = index.key_of(SignatureIndex, read_page, Entry)
    arrays = cache.read("signatures", key)
    if arrays is not None:
        return SignatureIndex.from_rows(json.loads(bytes(arrays["rows"])))
    signatures = SignatureIndex(bundle.load_cache().signatures())
    rows = json.dumps(signatures.rows(), ensure_ascii=False).encode()
    cache.keep("signatures", key, {"rows": numpy.frombuffer(rows, "uint8")})
    return signatures


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


def _is_known_name(report: Report) -> bool:
    """Whether a report is a single name, such as `sm_120`, all of whose parts entries have."""
    return len(report.text.split()) == 1 and report.known_share == 1


def _names_cause(hit: Hit, evidence: Evidence) -> bool:
    """Whether a hit names the cause in the part of the log that failed."""
    kind = hit.line.kind
    if hit.signature.role != "root":
        return False
    if hit.line in evidence.last_words:
        return True
    if kind in (WARNING, CONSEQUENCE, *APART):
        return False
    # Only a long log has lines set apart.
    is_short_log = not any(line.kind in APART for line in evidence.lines)
    return hit.decisive or kind in FAILED or is_short_log


def _was_handled(line: Line, evidence: Evidence) -> bool:
    """Whether Python printed the line as that of an exception during whose handling another came.

    The other one is the first failure, in the same log and of the same rank.
    """
    first = evidence.first
    if line.kind != EXCEPTION or first is None or first.kind != EXCEPTION:
        return False
    return any(
        line.number < link.number < first.number
        and (link.source, link.rank) == (line.source, line.rank) == (first.source, first.rank)
        for link in evidence.lines
        if link.text.startswith(HANDLING)
    )


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


def leave_out_missing(ranking: Ranking, entries: Mapping[str, Entry]) -> Ranking:
    """Leave out the entries whose page can't be read.

    If the likeliest entry is one of them, claim nothing: the next one would be a wrong answer.
    """
    candidates = tuple(c for c in ranking.candidates if c.id in entries)
    if candidates == ranking.candidates:
        return ranking
    if candidates[:1] == ranking.candidates[:1]:
        return replace(ranking, candidates=candidates)
    return replace(ranking, candidates=candidates, confidence="", worth_a_look=True)


def apply_rules_of_order(
    ranking: Ranking, evidence: Evidence, entries: Mapping[str, Entry], text: str
) -> Ranking:
    """Move the entries for which a rule knows a better place than likeness. `text` is all that was
    read.

    The rules run in order, so the last one wins: what stack dumps or a curve show counts more than
    any words.
    """
    candidates = named_provider_first(ranking.candidates, entries, text)
    ranking = splitting_first(replace(ranking, candidates=candidates), entries)
    if is_line(evidence):
        candidates = unnamed_provider_back(ranking.candidates, entries, text)
        ranking = replace(ranking, candidates=candidates)
    return promote(evidence.seen, ranking)


def splitting_first(ranking: Ranking, entries: Mapping[str, Entry]) -> Ranking:
    """For a report of few known words, put the entry first that tells most others apart.

    It is claimed, low at least, unless the report has a word that no entry has: with the name of
    another program it is of another field. A literal text at the first entry says more, so that
    one stays.
    """
    candidates = ranking.candidates
    if (
        not candidates
        or ranking.known_words > TOO_SHORT
        or not ranking.worth_a_look
        or any(c.hit for c in candidates[:1])
    ):
        return ranking
    near = candidates[:NEAR]
    names = {candidate.id for candidate in near}

    def splits(candidate: Candidate) -> int:
        return len(names.intersection(dict(entries[candidate.id].tell_apart)))

    if splits(near[0]) >= KEPT:
        best = near[0]
    else:
        best = max(near, key=splits)
        if splits(best) < SPLITS:
            return ranking
    return replace(
        ranking,
        candidates=put_first(best, candidates),
        confidence=ranking.confidence or ("low" if ranking.known_share == 1 else ""),
    )


def named_provider_first(
    candidates: Candidates, entries: Mapping[str, Entry], text: str
) -> Candidates:
    """Put a provider's entry first that the report names and whose literal text is there.

    `text` is the whole report. An entry for any box may know the same text and be likelier: of the
    reports that this moves, all eight were about the provider (evals/EXPERIMENTS.md).
    """
    for candidate in candidates[:LEADERS]:
        if (
            candidate.hit
            and candidate.hit.signature.role != "advice"
            and is_provider_named(entries[candidate.id], text)
        ):
            return put_first(candidate, candidates)
    return candidates


def unnamed_provider_back(
    candidates: Candidates, entries: Mapping[str, Entry], text: str
) -> Candidates:
    """Put an entry for any box first where a provider's leads that `text` doesn't name.

    Only one that is nearly as likely: a line may describe what happens at one provider alone. A
    literal text that the provider's entry alone has is a word of that provider.
    """

    def may_lead(candidate: Candidate) -> bool:
        entry = entries[candidate.id]
        return not _providers(entry) or is_provider_named(entry, text)

    if not candidates or may_lead(candidates[0]):
        return candidates
    first = candidates[0]
    near = [c for c in candidates[:LEADERS] if c.probability >= RIVAL * first.probability]
    leader = next((c for c in near if may_lead(c) and (c.hit or not first.hit)), first)
    return put_first(leader, candidates)


def is_provider_named(entry: Entry, text: str) -> bool:
    """Whether an entry is about a provider, and the report names it."""
    lower = text.lower()
    return any(word in lower for name in _providers(entry) for word in words_of_platform(name))


def _providers(entry: Entry) -> list[str]:
    """The platforms of a provider's entry; none for an entry about any box or about a country."""
    names = [item.partition(":")[2] for item in entry.applies_to if item.startswith("platform:")]
    is_provider = entry.path.startswith("profiles/") and entry.family != "CN"
    return names if is_provider and ANYWHERE.isdisjoint(names) else []


@lru_cache(maxsize=32)
def words_of_platform(name: str) -> tuple[str, ...]:
    """The texts that show a platform, in lower case: its names, and the tokens of its page."""
    from ..catalogue.front_matter import platform_tokens  # for start-up: it imports yaml

    tokens = platform_tokens(bundle.bundle_root(), name)
    return (name, *_ALSO.get(name, ()), *(token.lower() for token in tokens))
