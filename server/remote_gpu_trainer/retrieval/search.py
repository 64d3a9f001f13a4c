"""Evidence to ranked entries, and when to answer nothing. Pure: no clock, no file, no network.

Five voters rank the entries: literal signatures, words weighted by field (BM25F), a linear
classifier, a network with one hidden layer over words, and another over what the report means.

Whether to answer at all is decided apart. A second classifier says how much the report is like one
that any entry explains. A small gate weighs that with the lead of the first entry, with signatures,
and with one number of meaning. evals/train.py makes all numbers from practice reports and the
tuning half of the cases; they lie in ranking.bin.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..catalogue.signatures import Hit, SignatureIndex
from ..logs.judging import Evidence
from ..logs.lines import APART
from ..logs.salient_lines import only_versions, salient
from .features import features
from .gist import gist
from .ranking import Question, Ranking
from .voting import gate_score, gate_values, scores_of, shares_of, votes
from .waiting import Guess, Waiting

LEAST_WORDS = 2  # known words without which a report says nothing
SAID = 0.3  # weight of somebody's sentence in the ranking
EVEN = 0.66  # limit of the mean probability that nothing fits, with a sentence
# Share of its limit that this probability must stay under in a long log, which holds words of all
# kinds: with somebody's words beside it, and without.
TOLD, UNTOLD = 0.82, 0.75
WARNED = 0.5  # the same where the only literal texts are warnings, which healthy runs print too
SHOWN = 0.75  # limit of the probability where the report names the platform of the first entry
MATCHES = 3  # of an answer, usually; what follows is a title
# Least share by words alone for an entry to stand before one whose literal text is there.
WORDED = 0.3
# Times as likely as the first entry, for one that the ranking doesn't know to come before it.
FAR = 2.0
REASONED = 3  # first entries that say by which words they were found
# Known words without which this confidence isn't claimed, unless a signature decides.
SURE_WORDS = {"high": 6, "medium": 3}


@dataclass(frozen=True)
class Candidate:
    """An entry, its probability, its signature in the report if any, and the words for it.

    The words that speak most for it come first.
    """

    id: str
    probability: float
    hit: Hit | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """Candidates, best first, and what they are worth.

    `none` is the probability that no entry fits. `confidence` is high, medium, low, or '' where
    nothing is claimed. `doubtful`: nothing is claimed, but the titles are worth a look by someone
    who knows the run.
    """

    candidates: tuple[Candidate, ...]
    none: float
    confidence: str
    doubtful: bool = False


def rank(
    evidence: Evidence,
    ranking: Ranking,
    signatures: SignatureIndex,
    most: int = 13,
    said: Evidence | None = None,
    shows: Callable[[str], bool] = lambda name: False,
    unlearned: Waiting | None = None,
    leads: Callable[[str, str], bool] = lambda first, name: False,
    points: tuple[str, bool] | None = None,
    foreign: Callable[[str], bool] = lambda name: False,
) -> Found:
    """The `most` likeliest entries.

    `said`: one sentence about the report by somebody who read it. It is read within the report and
    by itself, because the two readings err in different ways.
    `shows(id)`: whether the report names the platform that an entry is about.
    `unlearned`: is asked for an entry that the ranking doesn't know, where no literal text decides.
    `leads(first, name)`: whether the page of the first entry tells it apart from another. A general
    entry, as that of all out-of-memory errors, leads to those of its kinds.
    `points`: the entry that something other than words points to, and whether it goes first or
    stands second.
    `foreign(id)`: whether an entry is about a provider that the report doesn't name. Where it is
    the first, a likelier one that its page tells apart goes before it.
    """
    hits, waiting = _parted(signatures.find(evidence), ranking)
    read = read_of(evidence, ranking)
    asked, shares, none = _weighed(read, hits, ranking)
    if said is not None:
        _, others, nothing = _weighed(
            read_of(said, ranking), _parted(signatures.find(said), ranking)[0], ranking
        )
        shares = _normal([a ** (1 - SAID) * b**SAID for a, b in zip(shares, others, strict=True)])
        none = math.sqrt(none * nothing) * ranking.limits["none"] / EVEN
    elif (kinds := {line.kind for line in evidence.lines}).intersection(APART):
        none = min(1.0, none / (TOLD if "told" in kinds else UNTOLD))
    ordered = sorted(zip(shares, ranking.entries, strict=True), key=_likeliest)[:most]
    best: dict[str, Hit] = {}
    for hit in sorted(hits, key=lambda h: h.decisive):
        best[hit.entry_id] = hit
    spoken = [name for _, name in ordered[:REASONED] if name not in best]
    strongest = ranking.strongest(asked) if spoken else []
    candidates = tuple(
        Candidate(
            name,
            share,
            best.get(name),
            tuple(ranking.reasons(name, strongest)) if name in spoken else (),
        )
        for share, name in ordered
    )
    known = ranking.telling(asked, max(SURE_WORDS.values()))
    literal = any(hit.decisive for hit in hits)
    if literal and not (candidates[0].hit and candidates[0].hit.decisive):
        share, name = max(
            (share, name)
            for share, name in zip(shares, ranking.entries, strict=True)
            if name in best and best[name].decisive
        )
        told = Candidate(name, share, best[name])
        candidates = (
            put_first(told, candidates, ranking.limits["medium"])
            if candidates[0].probability < WORDED
            else _behind(1, [told], candidates)
        )
    worded = False  # whether words alone decide
    if literal and waiting:
        candidates = _behind(
            1, [Candidate(name, 0.0, hit) for name, hit in waiting.items()], candidates
        )
    elif waiting:
        if none > ranking.limits["none"]:
            candidates = ()  # what the ranking isn't sure of doesn't stand beside a literal text
        for name, hit in waiting.items():
            candidates = put_first(Candidate(name, 0.0, hit), candidates, ranking.limits["medium"])
    if evidence.seen == "sound" and literal:  # a healthy run: what it warns of, and no guess
        warned = {
            name: Candidate(name, ranking.limits["medium"], hit)
            for name, hit in best.items()
            if hit.decisive
        }
        candidates = tuple([c for c in candidates if c.id in warned]) or tuple(warned.values())
    failed = evidence.seen == "sound" or any(
        hit.decisive and hit.line.kind != "warning" for hit in hits
    )
    if literal and not failed:
        none = min(1.0, none / WARNED)
    if (literal and failed) or waiting:
        # The literal text of a failure is always worth an answer, that of a warning only where the
        # report is about it.
        none = min(none, ranking.limits["none"])
        known = max(SURE_WORDS.values())
    elif evidence.seen in ranking.column:
        none = min(none, ranking.limits["none"])  # and so is a curve that an entry is about
        candidates = put_first(Candidate(evidence.seen, 0.0), candidates, ranking.limits["medium"])
    elif (
        evidence.seen == "sound"
        or known < LEAST_WORDS
        or only_versions(line.text for line in evidence.lines)
    ):
        none = 1.0
    else:
        worded = True
    if points and worded:  # says more than words, but not that it was a training run
        new = Candidate(points[0], 0.0)
        candidates = (
            put_first(new, candidates, ranking.limits["medium"])
            if points[1]
            else _behind(1, [new], candidates)
        )
    if ranking.limits["none"] < none <= SHOWN and shows(candidates[0].id):
        none = ranking.limits["none"]
    confidence = _confidence(candidates, none, known, ranking)
    found = Found(candidates, none, confidence, not confidence and none <= ranking.limits["titles"])
    guess = unlearned.guess(read.words, read.point) if unlearned and worded else None
    if (
        guess
        and confidence
        and (confidence == "high" or guess.enough == "title")
        and leads(candidates[0].id, guess.id)
    ):
        new, first = Candidate(guess.id, guess.probability, words=guess.words), candidates[0]
        if foreign(first.id) and guess.probability > (1 - none) * first.probability:
            return replace(
                found,
                candidates=put_first(new, candidates, ranking.limits["medium"]),
                confidence="medium",
            )
        return replace(found, candidates=_behind(1, [new], candidates))
    return (
        _with(guess, found, ranking.limits["medium"]) if guess and confidence != "high" else found
    )


def _with(guess: Guess, found: Found, least: float) -> Found:
    """What was found, and a guess at an entry that the ranking doesn't know.

    The guess goes before the others where it is far likelier, else behind the first or among the
    titles.
    """
    new = Candidate(guess.id, guess.probability, words=guess.words)
    first = put_first(new, found.candidates, least)
    if not found.confidence:
        if guess.enough == "title":
            return replace(found, candidates=first) if found.doubtful else found
        return replace(
            found,
            candidates=first,
            confidence="medium" if guess.enough == "alone" else "",
            doubtful=guess.enough != "alone",
        )
    if guess.enough == "title":
        return replace(found, candidates=_behind(MATCHES, [new], found.candidates))
    if guess.probability > FAR * (1 - found.none) * found.candidates[0].probability:
        return replace(found, candidates=first, confidence="medium")
    return replace(found, candidates=_behind(1, [new], found.candidates))


def _parted(hits: list[Hit], ranking: Ranking) -> tuple[list[Hit], dict[str, Hit]]:
    """(hits of entries that the ranking knows, the decisive hit of each that it doesn't)."""
    known = [hit for hit in hits if hit.entry_id in ranking.column]
    return known, {
        hit.entry_id: hit for hit in hits if hit.decisive and hit.entry_id not in ranking.column
    }


@dataclass(frozen=True)
class Read:
    """The weighted words of a report, and what it means as a vector."""

    words: dict[str, float]
    point: list[float]


def read_of(evidence: Evidence, ranking: Ranking) -> Read:
    """What the ranking is asked with, and the classifier of entries that it doesn't know."""
    told = salient(evidence)
    return Read(features(evidence, told), ranking.encoder.vector(gist(told)))


def _weighed(read: Read, hits: list[Hit], ranking: Ranking) -> tuple[Question, list[float], float]:
    """(the question, each entry's share, the probability that none fits)."""
    asked = ranking.question(read.words)
    voted = votes(asked, read.point, hits, ranking)
    inside = gate_score(
        gate_values(voted, scores_of(voted.by_voter, ranking.gate_weights)), ranking.gate
    )
    none = 1 / (1 + math.exp(min(50.0, max(-50.0, inside))))
    return asked, shares_of(scores_of(voted.by_voter, ranking.weights)), none


def _normal(shares: list[float]) -> list[float]:
    total = sum(shares) or 1.0
    return [share / total for share in shares]


def put_first(
    candidate: Candidate, candidates: tuple[Candidate, ...], least: float
) -> tuple[Candidate, ...]:
    """With this entry before the others, at a probability of at least `least`; theirs are lower."""
    found = next((c for c in candidates if c.id == candidate.id), candidate)
    found = replace(found, probability=max(found.probability, least))
    return (
        found,
        *[
            replace(c, probability=min(c.probability, 0.99 * found.probability))
            for c in candidates
            if c.id != candidate.id
        ],
    )


def of_these_first(name: str, found: Found) -> Found:
    """With this one first, where it is one of several candidates that are claimed."""
    known = next((c for c in found.candidates[1:] if c.id == name), None)
    if known is None or not found.confidence:
        return found
    return replace(
        found,
        candidates=put_first(known, found.candidates, found.candidates[0].probability),
        confidence="medium",
    )


def before(found: Found, others: Found) -> Found:
    """What was found in one rank's log, and second what a literal text in those of all names."""
    named = [c for c in others.candidates[:1] if c.hit and others.confidence]
    return replace(found, candidates=_behind(1, named, found.candidates)) if named else found


def _behind(
    count: int, others: list[Candidate], candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """With these behind the first `count`, unless one of them is among those."""
    names = {other.id for other in others}
    if any(c.id in names for c in candidates[:count]):
        return candidates
    least = 0.99 * candidates[count - 1].probability
    return (
        *candidates[:count],
        *[replace(other, probability=least) for other in others],
        *[
            replace(c, probability=min(c.probability, 0.99 * least))
            for c in candidates[count:]
            if c.id not in names
        ],
    )


def _likeliest(item: tuple[float, str]) -> float:
    return -item[0]


def _confidence(candidates: tuple[Candidate, ...], none: float, said: int, ranking: Ranking) -> str:
    if not candidates or none > ranking.limits["none"]:
        return ""
    best = candidates[0].probability
    for name in ("high", "medium"):
        if best >= ranking.limits[name] and said >= SURE_WORDS[name]:
            return name
    return "low"
