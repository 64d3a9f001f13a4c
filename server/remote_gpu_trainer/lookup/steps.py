"""Turn evidence into an answer: rank the entries, correct their order, claim some, write it down.

`look_up` lists the steps in order. Each step takes the state, a frozen `LookUp`, and returns a copy
with what it found out. The last step writes the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date

from ..catalogue.entry import Entry
from ..catalogue.freshness import stale_entry
from ..catalogue.signatures import Hit
from ..logs import cascade
from ..logs.endings import is_interrupted
from ..logs.evidence import Evidence, disagreement
from ..logs.kinds import FAILED
from ..numbers.out_of_memory import Shortage, shortage_in
from ..retrieval.candidates import Candidate, Ranking, promote, put_first, second_from
from ..retrieval.general_or_special import (
    named_provider_first,
    splitting_first,
    unnamed_provider_back,
)
from ..retrieval.search import Pointed, Retriever, is_line
from ..runner.failures import as_answer
from ..text import BadRequest
from . import check_limit
from .budget import cut, fitting, tokens, tokens_of_json
from .claims import Claim, confidence_of_further, of_probe, together, why_of
from .decisions import decision_of
from .divergence import RAISE_RATE, says_diverges
from .matches import matches_of, titles
from .missing import missing_information
from .parts import ALSO, BESIDE, CUT, FURTHER, MOST, WHOLE
from .quotes import evidence_lines, place_of, probe_lines

OUT_OF_MEMORY = "U10"  # the entry that tells the kinds of out-of-memory apart
DOUBTED = 0.5  # factor for the probability of an entry that may not hold here
NOTHING_FITS = "Nothing in the catalogue fits."
NO_ERROR = "No error found."
NOT_SURE = "Not sure that an entry fits; check whether one of these titles describes your failure."
HINTS_ALONE = "The probe gives hints, which prove nothing; run each entry's check."
BY_RANKS = "what the ranks show beside each other"
SELDOM = ("facts", "first_failures", "decision")  # fields of an answer that most answers don't have
WORDS_ALONE = (
    "Ranked by words alone: the sentence encoder's file is missing or damaged; "
    "reinstall remote-gpu-trainer."
)


@dataclass
class Answer:
    """The answer, in the shape that the MCP server's model `Lookup` describes.

    `matches` come likeliest first; there are none if nothing fits. `also` has the ids and titles
    of further candidates. `first_failures` are the places of all ranks that failed on their own,
    where several did. If there are titles but no match, the report is near these entries but
    not near enough to claim one, so the reader should choose. `ask` says what to know before the
    matches, and what would help if nothing fits or the answer is unsure. `facts` are what a
    platform's page says, each a sentence, where the question was about a platform's bill or data.
    `decision` is what to do next, as `runner.failures.as_answer` gives it; None where nothing is
    known.
    """

    matches: list[dict]
    evidence: list[dict]
    first_failure: dict | None
    ask: str
    also: list[dict]
    facts: list[str] = field(default_factory=list)
    first_failures: list[dict] = field(default_factory=list)
    decision: dict | None = None

    def as_dict(self) -> dict:
        """Return the answer as a dict for JSON; SELDOM only where there are some."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if name not in SELDOM or value}


@dataclass(frozen=True)
class LookUp:
    """The state of a look-up: first the question, then what each step found out.

    `evidence` is what the answer rests on: without the words of other ranks, if those of the rank
    that failed suffice. `whole_text` is the text of all lines that were read. `memory` is what an
    out-of-memory message in the evidence shows. `model_memory` is a sentence on what training a
    given model takes. `doubts` says by id why an entry may not hold here.

    `claims` come likeliest first. `rests_on` is the signature in the report on which the first
    claim rests. With `probe_answers` the claims begin with what a probe found.
    """

    evidence: Evidence
    entries: Mapping[str, Entry]
    retriever: Retriever
    limit: int
    today: date
    installed: str | None
    sentence: str
    has_own_words: bool
    model_memory: str = ""
    checkpoint: str = ""

    whole_text: str = ""
    memory: Shortage | None = None
    ranking: Ranking = Ranking((), "")
    doubts: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    rests_on: Hit | None = None
    probe_answers: bool = False

    @property
    def confidence(self) -> str:
        """The confidence of the ranking: high, medium or low, or "" if it claims nothing."""
        return self.ranking.confidence

    @property
    def rests_on_signs(self) -> bool:
        """Whether nobody said anything beside a file, so that words alone claim nothing.

        A file beside that of a good run says that something is wrong.
        """
        is_silent = not (self.sentence or self.has_own_words or self.evidence.is_compared)
        return self.evidence.of_file and is_silent

    @property
    def needs_signs(self) -> bool:
        """Whether a further match or title needs a sign in the logs: in a file, or of ranks."""
        is_of_ranks = bool(self.evidence.read) and len(self.evidence.ranks) > 1
        return self.rests_on_signs or (is_of_ranks and not self.has_own_words)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether an out-of-memory message is what failed, not what a library warned of."""
        return self.memory is not None and self.memory.line.kind in FAILED

    @property
    def is_open(self) -> bool:
        """Whether the ranking claims nothing, but one of the titles may be the right entry.

        In a file they may be so only if something failed that the file doesn't explain itself.
        """
        if not self.ranking.candidates or self.confidence or not self.ranking.worth_a_look:
            return False
        evidence = self.evidence
        if not self.needs_signs:
            return True
        return evidence.failed() and not (evidence.ended or evidence.own or evidence.went_on)


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
    model_memory: str = "",
    checkpoint: str = "",
) -> Answer:
    """Return what explains this evidence, in at most `limit` matches.

    `entries` maps ids to entries. `installed` is the text of `pip freeze`. `sentence` is one
    sentence about the report by somebody who read it. With `has_own_words` somebody's own words
    came with the report, so the answer doesn't ask for a sentence. `model_memory` is a sentence on
    what training a given model takes. Raises BadRequest for a limit
    outside 1 to 10, and for an `installed` that can't be read.
    """
    check_limit(limit)
    state = LookUp(
        evidence,
        entries,
        retriever,
        limit,
        today,
        installed,
        sentence,
        has_own_words,
        model_memory,
        checkpoint,
    )
    state = rank_candidates(state)
    state = apply_rules_of_order(state)
    state = move_doubtful_back(state)
    state = leave_out_higher_rate(state)
    state = withhold_unfounded_claim(state)
    state = trust_memory_message(state)
    state = claim_entries(state)
    state = claim_what_a_probe_saw(state)
    return write_answer(state)


def rank_candidates(state: LookUp) -> LookUp:
    """Rank the entries by the words of the rank that failed first.

    When one rank of a job fails, the others lose it and write more than it did, the same words
    whatever the cause. So their words count only if those of the first rank fit no entry.
    """
    all_ranks = state.evidence
    state = replace(state, whole_text="\n".join(line.text for line in all_ranks.lines))
    first_rank = cascade.without_cascade(all_ranks)
    by_first = _ranked(state, first_rank)
    if first_rank is all_ranks:  # there was nothing to leave out
        return by_first
    if not (by_first.confidence or by_first.ranking.worth_a_look):
        by_all = _ranked(state, all_ranks)
        return replace(by_all, ranking=promote(cascade.CRASHED, by_all.ranking))
    if by_first.confidence != "high":
        by_all = _ranked(state, all_ranks)
        return replace(by_first, ranking=second_from(by_all.ranking, by_first.ranking))
    return by_first


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

    If the likeliest entry is one of them, claim nothing: the next one would be a wrong answer.
    """
    candidates = tuple(c for c in ranking.candidates if c.id in entries)
    if candidates == ranking.candidates:
        return ranking
    if candidates[:1] == ranking.candidates[:1]:
        return replace(ranking, candidates=candidates)
    return replace(ranking, candidates=candidates, confidence="", worth_a_look=True)


def apply_rules_of_order(state: LookUp) -> LookUp:
    """Move the entries for which a rule knows a better place than the ranking.

    The rules run in order, so the last one wins: what stack dumps or a curve show counts more than
    any words.
    """
    ranking = state.ranking
    candidates = named_provider_first(ranking.candidates, state.entries, state.whole_text)
    ranking = replace(ranking, candidates=candidates)
    ranking = splitting_first(ranking, state.entries)
    if is_line(state.evidence):
        candidates = unnamed_provider_back(ranking.candidates, state.entries, state.whole_text)
        ranking = replace(ranking, candidates=candidates)
    ranking = promote(state.evidence.seen, ranking)
    return replace(state, ranking=ranking)


def move_doubtful_back(state: LookUp) -> LookUp:
    """Find the entries that may not hold here, and sort them by half their probability.

    An entry may not hold if it was last checked too long ago, or if it is about other versions than
    the installed ones.
    """
    ids = [candidate.id for candidate in state.ranking.candidates]
    ids += [finding.id for finding in state.evidence.probed if finding.id in state.entries]
    entries = [state.entries[name] for name in dict.fromkeys(ids)]
    doubts = {**stale_doubts(entries, state.today), **_out_of_range(entries, state.installed)}
    candidates = sorted(
        state.ranking.candidates,
        key=lambda c: -c.probability * (DOUBTED if c.id in doubts else 1.0),
    )
    ranking = replace(state.ranking, candidates=tuple(candidates))
    return replace(state, doubts=doubts, ranking=ranking)


def leave_out_higher_rate(state: LookUp) -> LookUp:
    """Leave out the entries that raise the learning rate where the report says that it diverges.

    Their words are near such a report, as it names a rate. If one of them is the likeliest entry,
    claim nothing: the judge spoke for it alone. What a curve shows stays.
    """
    left_out = RAISE_RATE - {state.evidence.seen}
    candidates = state.ranking.candidates
    others = tuple(candidate for candidate in candidates if candidate.id not in left_out)
    if others == candidates or not says_diverges(f"{state.sentence}\n{state.whole_text}"):
        return state
    ranking = replace(state.ranking, candidates=others)
    if others[:1] != candidates[:1]:
        worth_a_look = ranking.worth_a_look or bool(ranking.confidence)
        ranking = replace(ranking, confidence="", worth_a_look=worth_a_look)
    return replace(state, ranking=ranking)


def stale_doubts(entries: list[Entry], today: date) -> dict[str, str]:
    """Return {id: its age and the limit} for the entries that were checked too long ago."""
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
    """Return {id: the range and the installed version} for the entries about other versions.

    Raises BadRequest for an `installed` that can't be read.
    """
    if not installed or not installed.strip():
        return {}
    # Here for a fast start: it imports packaging, which nothing else in a look-up needs.
    from ..platforms import installed as environment

    try:
        versions = environment.versions(installed)
    except environment.InstalledError as error:
        raise BadRequest(str(error)) from None
    reasons = {entry.id: environment.out_of_range(entry.applies_to, versions) for entry in entries}
    return {name: why for name, why in reasons.items() if why}


def withhold_unfounded_claim(state: LookUp) -> LookUp:
    """Claim nothing without a sign of the failure.

    The words of a healthy log are near some entry too. Without this step, five of twenty healthy
    logs got a claim. In a file, where nobody says what is wrong, words alone claim nothing at all:
    an entry needs a signature in the file, or what its numbers or stacks show. Nor do they in the
    logs of ranks that somebody's Ctrl-C ended. What a run outlived explains no failure.
    """
    evidence, candidates = state.evidence, state.ranking.candidates
    first = candidates[0] if candidates else None
    is_outlived = evidence.went_on and evidence.seen in ("", "sound")
    if state.rests_on_signs and (evidence.says_all or is_outlived):
        return replace(state, ranking=replace(state.ranking, confidence=""))
    if state.sentence or state.has_own_words or (first and first.hit):
        return state
    if state.rests_on_signs:
        is_founded = state.ran_out_of_memory or evidence.seen not in ("", "sound")
    elif evidence.read and is_interrupted(evidence.failures):
        is_founded = evidence.seen not in ("", "sound")
    else:
        is_founded = bool(evidence.seen) or evidence.failed() or not evidence.is_log
    if is_founded:
        return state
    return replace(state, ranking=replace(state.ranking, confidence=""))


def trust_memory_message(state: LookUp) -> LookUp:
    """Claim the entry about any out-of-memory message where a file has one and no other claim.

    Such a message is a sign, however few words of the entry stand around it.
    """
    if not state.rests_on_signs or state.confidence or not state.ran_out_of_memory:
        return state
    if OUT_OF_MEMORY not in state.entries or state.evidence.went_on:
        return state
    candidates = put_first(Candidate(OUT_OF_MEMORY, 0.0), state.ranking.candidates)
    return replace(state, ranking=replace(state.ranking, candidates=candidates, confidence="low"))


def claim_entries(state: LookUp) -> LookUp:
    """If the ranking claims anything, claim its first candidates, each with the reason."""
    if not state.confidence:
        return state
    chosen = state.ranking.candidates[: state.limit]
    if state.needs_signs:
        chosen = (*chosen[:1], *(c for c in chosen[1:] if c.hit))
    claims = tuple(
        Claim(
            state.entries[candidate.id],
            _why(candidate, state),
            confidence_of_further(candidate, state.confidence) if place else state.confidence,
        )
        for place, candidate in enumerate(chosen)
    )
    rests_on = chosen[0].hit if chosen else None
    return replace(state, claims=claims, rests_on=rests_on)


def _why(candidate: Candidate, state: LookUp) -> str:
    """Return the reason for a candidate: its signature, memory numbers, the ranks, or its words."""
    if not candidate.hit:
        if state.memory and state.memory.entry == candidate.id:
            return state.memory.why
        if state.evidence.how and state.evidence.seen == candidate.id:
            return BY_RANKS
    return why_of(candidate)


def claim_what_a_probe_saw(state: LookUp) -> LookUp:
    """Put the entries that a probe's report names first.

    If the run crashed, the entry of the crash stays before them, because the probe saw only the
    steps before the crash.
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
    """Write the claims, the lines behind them, further titles and what to ask into an answer."""
    evidence = state.evidence
    lines = evidence_lines(evidence, state.memory)
    if state.probe_answers:
        lines = probe_lines(evidence.probed) + lines[:1]
    answer = Answer(
        matches=matches_of(list(state.claims), dict(state.doubts)),
        evidence=lines,
        first_failure=_first_failure(state),
        ask=_ask(state),
        also=_titles(state),
        first_failures=[place_of(line) for line in evidence.culprits],
        decision=as_answer(decision_of(state), state.checkpoint),
    )
    _check_first(answer, evidence)
    fit(answer, WHOLE + FURTHER * max(0, state.limit - 3))
    return answer


def _check_first(answer: Answer, evidence: Evidence) -> None:
    """Put what the ranks say to look at before the check of the first match, in place.

    It takes the place of the check of ABSENT, which finds the rank that is known already.
    """
    if answer.matches and evidence.check:
        first = answer.matches[0]
        rest = "" if first["id"] == cascade.CRASHED else first["check"]
        first["check"] = " ".join(filter(None, (evidence.check, rest)))


def _first_failure(state: LookUp) -> dict | None:
    """Return where the first failure is; None if the run outlived it and nothing is claimed.

    `how` is what the rank did where it didn't fail.
    """
    first, how = state.evidence.first, state.evidence.how
    if first is None or (state.evidence.went_on and not state.claims):
        return None
    return {**place_of(first), **({"how": how} if how else {})}


def _ask(state: LookUp) -> str:
    """Return what the reader should know before the matches, and what would help."""
    evidence, rests_on = state.evidence, state.rests_on
    decision = [
        "" if state.retriever.encoder else WORDS_ALONE,
        evidence.ended,
        evidence.older,
        disagreement(evidence, rests_on.line) if rests_on and not evidence.ended else "",
    ]
    said = {
        "memory": state.model_memory,
        "left_out": evidence.left_out,
        "numbers": f"The numbers say: {evidence.numbers}." if evidence.numbers else "",
        "decision": " ".join(filter(None, decision)),
        "ranks": " ".join(filter(None, (evidence.victims, _places(evidence)))),
        "help": _what_would_help(state),
        "read": evidence.read,
    }
    ask = " ".join(filter(None, (cut(text, MOST[part]) for part, text in said.items())))
    return cut(ask, MOST["ask"])


def _places(evidence: Evidence) -> str:
    return f"Where they stood: {evidence.places}." if evidence.places else ""


def _what_would_help(state: LookUp) -> str:
    """Return what would make the answer surer, or "" if it is sure or a probe proves it."""
    if state.probe_answers:
        return HINTS_ALONE if state.claims[0].confidence == "low" else ""
    evidence, with_own_words = state.evidence, state.has_own_words
    with_sentence = not with_own_words
    if causes := _causes_of_line(state):
        ids = ", ".join(causes)
        return f"Several causes print this line: {ids}; the check of {causes[0]} decides."
    if state.confidence == "low":
        return missing_information(evidence, "Not sure.", most=1, with_sentence=with_sentence)
    if state.confidence:
        return ""
    if state.is_open:
        lead = NOT_SURE
    elif evidence.ended:
        return ""
    elif evidence.own and not evidence.went_on:
        return evidence.own
    else:
        is_calm = state.rests_on_signs and (evidence.went_on or not evidence.failed())
        if is_calm and not evidence.seen:
            evidence = replace(evidence, seen="sound")
        lead = NO_ERROR if evidence.seen == "sound" else NOTHING_FITS
    return missing_information(evidence, lead, with_sentence=with_sentence)


def _causes_of_line(state: LookUp) -> list[str]:
    """The ids of the matches of a line that several causes print, such as `Killed`; else none."""
    if state.confidence != "low" or not is_line(state.evidence) or len(state.claims) < 2:
        return []
    hits = [candidate.hit for candidate in state.ranking.candidates if candidate.hit]
    is_shared = len(hits) > 1 or any(hit.signature.role == "cascade" for hit in hits)
    return [claim.entry.id for claim in state.claims] if is_shared and state.rests_on else []


def _titles(state: LookUp) -> list[dict]:
    """Return the titles of the candidates behind the matches, none if the first is sure.

    Beside a match there are few: of 222 held-out reports with one that isn't sure, three have their
    entry among the titles, two of them in the first three places. Behind a claim about logs of
    several ranks stand only those with a sign in the logs.
    """
    if not state.is_open and state.confidence not in ("medium", "low"):
        return []
    claimed = {claim.entry.id for claim in state.claims}
    most = BESIDE if state.claims else ALSO
    rest = [c for c in state.ranking.candidates if c.id not in claimed][:most]
    if state.claims and state.needs_signs and len(state.evidence.ranks) > 1:
        rest = [candidate for candidate in rest if candidate.hit]
    return titles([state.entries[candidate.id] for candidate in rest])


def fit(answer: Answer, most: float) -> None:
    """Cut an answer to about `most` tokens, in place, the parts of `CUT` from its end on.

    The last titles go first. Next goes all evidence but its first line. Only then does the first
    match lose what tells it from the next, and then sentences. If that isn't enough, the last
    matches go.
    """

    def over() -> float:
        return tokens_of_json(answer.as_dict()) - most

    shorten = {
        "titles": _shorten_titles,
        "line": _shorten_evidence,
        "distinguish": _shorten_distinguish,
        "leads": _shorten_leads,
        "match": _shorten_matches,
    }
    for part in reversed(CUT):
        shorten[part](answer, over)


def _shorten_titles(answer: Answer, over: Callable[[], float]) -> None:
    while answer.also and over() > 0:
        answer.also.pop()


def _shorten_evidence(answer: Answer, over: Callable[[], float]) -> None:
    if over() > 0:
        del answer.evidence[1:]


def _shorten_distinguish(answer: Answer, over: Callable[[], float]) -> None:
    if over() > 0 and answer.matches:
        answer.matches[0]["distinguish"] = ""


def _shorten_leads(answer: Answer, over: Callable[[], float]) -> None:
    if (too_many := over()) > 0 and answer.matches:
        first = answer.matches[0]
        leads = {name: first[name] for name in ("root_cause", "fix", "check")}
        first |= fitting(leads, max(0.0, sum(map(tokens, leads.values())) - too_many))


def _shorten_matches(answer: Answer, over: Callable[[], float]) -> None:
    while len(answer.matches) > 1 and over() > 0:
        answer.matches.pop()
