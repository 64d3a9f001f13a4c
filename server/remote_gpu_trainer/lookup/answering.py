"""From evidence to an answer: rank, apply the rules of order, doubt, claim, ask, show.

`look_up` is the table of contents. Each step takes the frozen state and returns it with what it
found out, and the last one writes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date

from ..catalogue.entry import Entry
from ..catalogue.freshness import stale_entry
from ..catalogue.signatures import Hit
from ..logs import cascade
from ..logs.evidence import Evidence, disagreement
from ..numbers.out_of_memory import Shortage, shortage_in
from ..retrieval.candidates import Candidate, Ranking, promote, second_from
from ..retrieval.general_or_special import (
    named_provider_first,
    splitting_first,
)
from ..retrieval.search import Pointed, Retriever
from ..text import BadRequest
from . import check_limit
from .budget import fitting, tokens, tokens_of_json
from .claims import Claim, confidence_of_further, of_probe, together, why_of
from .matches import matches_of, titles
from .missing import missing_information
from .quotes import evidence_lines, place_of, probe_lines

ALSO = 15  # titles of further candidates, unless the first match is sure
WHOLE, FURTHER = 1000, 95  # tokens of an answer with three matches, and of each match beyond
DOUBTED = 0.5  # what the probability of an entry counts that may not hold here
NOTHING_FITS = "Nothing in the catalogue fits."
NO_ERROR = "No error found."
NOT_SURE = "Not sure that an entry fits; check whether one of these titles describes your failure."
HINTS_ALONE = "The probe gives hints, which prove nothing; run each entry's check."
WORDS_ALONE = (
    "Ranked by words alone: the sentence encoder's file is missing or damaged; "
    "reinstall remote-gpu-trainer."
)


@dataclass
class Answer:
    """The answer, in the shape that the MCP server's model `Lookup` describes.

    `matches`: likeliest first, none when nothing fits. `also`: further candidates, by id and title
    only. Titles without a match: the report is near these entries, but not near enough to claim
    one, so a reader should choose. `ask`: what would help if nothing fits or the answer is unsure.
    """

    matches: list[dict]
    evidence: list[dict]
    first_failure: dict | None
    ask: str
    also: list[dict]

    def as_dict(self) -> dict:
        """The answer as JSON has it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class LookUp:
    """What the steps of a look-up know: first what was asked, then what each step found out.

    `evidence` is what the answer rests on, `whole_text` the text of all lines that were read.
    `memory` is what an out-of-memory message in the evidence shows. `doubts` says by id why an
    entry may not hold here.
    `claims` come likeliest first; `claimed` counts the candidates among them, and `rests_on` is the
    literal text that the first rests on. `probe_answers`: a probe's findings stand before them.
    """

    evidence: Evidence
    entries: Mapping[str, Entry]
    retriever: Retriever
    limit: int
    today: date
    installed: str | None
    sentence: str
    has_own_words: bool

    whole_text: str = ""
    memory: Shortage | None = None
    ranking: Ranking = Ranking((), "")
    doubts: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    claimed: int = 0
    rests_on: Hit | None = None
    probe_answers: bool = False

    @property
    def confidence(self) -> str:
        """That of the ranking: high, medium or low, or "" where nothing is claimed by it."""
        return self.ranking.confidence

    @property
    def is_open(self) -> bool:
        """Whether nothing is claimed, but the titles may hold the right entry."""
        return bool(self.ranking.candidates) and not self.confidence and self.ranking.worth_a_look


def look_up(
    evidence: Evidence,
    entries: Mapping[str, Entry],
    retriever: Retriever,
    *,
    limit: int,
    today: date,
    installed: str | None = None,
    sentence: str = "",
    has_own_words: bool = False,
) -> Answer:
    """What explains this evidence, in at most `limit` matches.

    `entries` are by id; `installed` is the text of `pip freeze`; `sentence` is one sentence about
    the report by somebody who read it. `has_own_words`: somebody's own words came with the report,
    so the answer asks for no sentence. Raises BadRequest for a limit outside 1 to 10, and for an
    `installed` that can't be read.
    """
    check_limit(limit)
    state = LookUp(evidence, entries, retriever, limit, today, installed, sentence, has_own_words)
    state = rank_candidates(state)
    state = apply_rules_of_order(state)
    state = move_doubtful_back(state)
    state = withhold_unfounded_claim(state)
    state = claim_entries(state)
    state = claim_what_a_probe_saw(state)
    return write_answer(state)


def rank_candidates(state: LookUp) -> LookUp:
    """Rank the entries by the words of the rank that failed, or by all where those say nothing.

    The words of ranks that only lost another one are longer than those of the rank that failed, and
    the same under every cause. So they count only where the failing rank's own fit no entry.
    """
    whole = state.evidence
    state = replace(state, whole_text="\n".join(line.text for line in whole.lines))
    alone = cascade.without_cascade(whole)
    own = _ranked(state, alone)
    if alone is whole:
        return own
    if not (own.confidence or own.ranking.worth_a_look):
        of_all = _ranked(state, whole)
        return replace(of_all, ranking=promote(cascade.CRASHED, of_all.ranking))
    if own.confidence != "high":
        of_all = _ranked(state, whole)
        return replace(own, ranking=second_from(of_all.ranking, own.ranking))
    return own


def _ranked(state: LookUp, evidence: Evidence) -> LookUp:
    """Rank the entries by this evidence."""
    memory = shortage_in(evidence.lines)
    is_pointed = memory is not None and memory.entry in state.entries
    ranking = state.retriever.rank(
        evidence,
        state.limit + ALSO,
        state.sentence,
        Pointed(memory.entry, memory.first) if memory and is_pointed else None,
    )
    ranking = _without_missing_pages(ranking, state.entries)
    return replace(state, evidence=evidence, memory=memory, ranking=ranking)


def _without_missing_pages(ranking: Ranking, entries: Mapping[str, Entry]) -> Ranking:
    """Leave out the entries whose page can't be read.

    If the likeliest is one of them, nothing is claimed: the next would be a wrong answer.
    """
    candidates = tuple(c for c in ranking.candidates if c.id in entries)
    if candidates == ranking.candidates:
        return ranking
    if candidates[:1] == ranking.candidates[:1]:
        return replace(ranking, candidates=candidates)
    return replace(ranking, candidates=candidates, confidence="", worth_a_look=True)


def apply_rules_of_order(state: LookUp) -> LookUp:
    """Move the entries that rules know better than likeness does.

    The last rule wins: no words move an entry before the one that dumps or a curve show.
    """
    ranking = state.ranking
    candidates = named_provider_first(ranking.candidates, state.entries, state.whole_text)
    ranking = replace(ranking, candidates=candidates)
    ranking = splitting_first(ranking, state.entries)
    ranking = promote(state.evidence.seen, ranking)
    return replace(state, ranking=ranking)


def move_doubtful_back(state: LookUp) -> LookUp:
    """Find the entries that may not hold here, and halve what their probability counts.

    An entry may not hold that wasn't checked for long, or that is about other versions than the
    installed ones.
    """
    ids = [candidate.id for candidate in state.ranking.candidates]
    ids += [finding.id for finding in state.evidence.probed if finding.id in state.entries]
    entries = [state.entries[name] for name in dict.fromkeys(ids)]
    doubts = {**_stale(entries, state.today), **_out_of_range(entries, state.installed)}
    candidates = sorted(
        state.ranking.candidates,
        key=lambda c: -c.probability * (DOUBTED if c.id in doubts else 1.0),
    )
    ranking = replace(state.ranking, candidates=tuple(candidates))
    return replace(state, doubts=doubts, ranking=ranking)


def _stale(entries: list[Entry], today: date) -> dict[str, str]:
    """{id: when it was checked and what the limit is} of the entries past their limit."""
    doubts = {}
    for entry in entries:
        stale = stale_entry(entry, today)
        if stale:
            doubts[entry.id] = (
                f"last checked {stale.checked}, {(today - stale.checked).days} days ago; "
                f"{stale.limit_days} is the limit"
            )
    return doubts


def _out_of_range(entries: list[Entry], installed: str | None) -> dict[str, str]:
    """{id: the range and the installed version} of entries about other versions.

    Raises BadRequest for an `installed` that can't be read.
    """
    if not installed or not installed.strip():
        return {}
    from ..platforms import installed as environment  # packaging is only needed here

    try:
        versions = environment.versions(installed)
    except environment.InstalledError as error:
        raise BadRequest(str(error)) from None
    reasons = {entry.id: environment.out_of_range(entry.applies_to, versions) for entry in entries}
    return {name: why for name, why in reasons.items() if why}


def withhold_unfounded_claim(state: LookUp) -> LookUp:
    """Claim nothing of a log in which nothing failed and of which nobody says anything.

    A healthy log is like some entry too: by words alone five of twenty got a claim.
    """
    evidence, candidates = state.evidence, state.ranking.candidates
    says_something_is_wrong = (
        evidence.failed() or evidence.seen or state.sentence or state.has_own_words
    )
    if not evidence.is_log or says_something_is_wrong or (candidates and candidates[0].hit):
        return state
    return replace(state, ranking=replace(state.ranking, confidence=""))


def claim_entries(state: LookUp) -> LookUp:
    """Claim the first candidates, each with its reason, if the ranking claims anything."""
    if not state.confidence:
        return state
    chosen = state.ranking.candidates[: state.limit]
    claims = tuple(
        Claim(
            state.entries[candidate.id],
            _why(candidate, state.memory),
            confidence_of_further(candidate, state.confidence) if place else state.confidence,
        )
        for place, candidate in enumerate(chosen)
    )
    rests_on = chosen[0].hit if chosen else None
    return replace(state, claims=claims, claimed=len(chosen), rests_on=rests_on)


def _why(candidate: Candidate, memory: Shortage | None) -> str:
    """The literal text or the words of a candidate, or the numbers that alone point to it."""
    if memory and memory.entry == candidate.id and not candidate.hit:
        return memory.why
    return why_of(candidate)


def claim_what_a_probe_saw(state: LookUp) -> LookUp:
    """Put what a probe's report claims first.

    Where the run crashed, the entry of the crash stays before it: the probe saw the steps before.
    """
    seen = of_probe(state.evidence.probed, state.entries)
    if not seen:
        return replace(state, claims=state.claims[: state.limit])
    claims = list(state.claims)
    crashed = state.evidence.failed() and state.confidence in ("high", "medium")
    if crashed:
        claims = together(together(claims[:1], seen), claims[1:])
    else:
        claims = together(seen, claims)
        state = replace(state, probe_answers=True, rests_on=None)
    return replace(state, claims=tuple(claims[: state.limit]))


def write_answer(state: LookUp) -> Answer:
    """Show the claims with their lines, the further titles and what to ask, within the budget."""
    evidence = state.evidence
    lines = evidence_lines(evidence, state.memory)
    if state.probe_answers:
        lines = probe_lines(evidence.probed) + lines[:1]
    answer = Answer(
        matches=matches_of(list(state.claims), dict(state.doubts)),
        evidence=lines,
        first_failure=place_of(evidence.first) if evidence.first else None,
        ask=_ask(state),
        also=_titles(state),
    )
    fit(answer, WHOLE + FURTHER * max(0, state.limit - 3))
    return answer


def _ask(state: LookUp) -> str:
    """What the reader should know before the matches, and what would help."""
    evidence, rests_on = state.evidence, state.rests_on
    sentences = [
        "" if state.retriever.encoder else WORDS_ALONE,
        evidence.victims,
        disagreement(evidence, rests_on.line) if rests_on else "",
        _what_would_help(state),
    ]
    return " ".join(filter(None, sentences))


def _what_would_help(state: LookUp) -> str:
    """What would make the answer surer, "" where it is sure or a probe proves it."""
    if state.probe_answers:
        return HINTS_ALONE if state.claims[0].confidence == "low" else ""
    evidence, with_sentence = state.evidence, not state.has_own_words
    if state.confidence == "low":
        return missing_information(evidence, "Not sure.", most=1, with_sentence=with_sentence)
    if state.confidence:
        return ""
    if state.is_open:
        lead = NOT_SURE
    else:
        lead = NO_ERROR if evidence.seen == "sound" else NOTHING_FITS
    return missing_information(evidence, lead, with_sentence=with_sentence)


def _titles(state: LookUp) -> list[dict]:
    """The titles of the candidates behind the matches, unless the first match is sure."""
    if not state.is_open and state.confidence not in ("medium", "low"):
        return []
    rest = state.ranking.candidates[state.claimed : state.claimed + ALSO]
    return titles([state.entries[candidate.id] for candidate in rest])


def fit(answer: Answer, most: float) -> None:
    """Keep an answer within `most` tokens.

    Titles go first, from the end, then evidence. The first match loses sentences only after those.
    """

    def over() -> float:
        return tokens_of_json(answer.as_dict()) - most

    while answer.also and over() > 0:
        answer.also.pop()
    if over() > 0:
        del answer.evidence[1:]
    if (too_many := over()) > 0 and answer.matches:
        first = answer.matches[0]
        first["distinguish"] = ""
        leads = {name: first[name] for name in ("root_cause", "fix", "check")}
        first |= fitting(leads, max(0.0, sum(map(tokens, leads.values())) - too_many))
