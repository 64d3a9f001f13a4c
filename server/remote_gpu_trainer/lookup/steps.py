"""Turn evidence into an answer: rank the entries, correct their order, claim some, write it down.

`look_up` lists the steps in order. Each step takes the state, a frozen `LookUp`, and returns a copy
with what it found out. The last step writes the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from ..catalogue.entry import Entry
from ..catalogue.freshness import stale_entry
from ..logs.ends import ending_of, is_interrupted
from ..logs.evidence import Evidence, Probed, disagreement
from ..logs.kinds import FAILED, ROUTINE
from ..logs.lines import Line
from ..logs.ranks import drop_secondary
from ..numbers.entries import OUT_OF_MEMORY, RANK_MISSING
from ..numbers.memory import shortage_in
from ..retrieval.ranking import (
    Candidate,
    Pointed,
    Retriever,
    apply_rules_of_order,
    leave_out_missing,
    promote,
    put_first,
    second_from,
)
from ..text import BadRequest
from ..text.masking import shown
from . import check_limit
from .budget import cut, plain
from .ruled_out import ruled_out
from .state import BY_LIKENESS, BY_WORDS, Answer, Claim, LookUp
from .writer import ALSO, NAME, write_answer

SEEN = 40  # tokens of what a probe saw, as the reason of a match
MOST_WORDS = 3  # of those that speak for a match
DOUBTED = 0.5  # factor for the probability of an entry that may not hold here
BY_RANKS = "what the ranks show beside each other"


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
    ranking = apply_rules_of_order(state.ranking, state.evidence, entries, state.whole_text)
    state = replace(state, ranking=ranking)
    state = move_doubtful_back(state)
    state = leave_out_ruled_out(state)
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
    first_rank = drop_secondary(all_ranks)
    by_first = _ranked(state, first_rank)
    if first_rank is all_ranks:  # there was nothing to leave out
        return by_first
    if not (by_first.ranking.confidence or by_first.ranking.worth_a_look):
        by_all = _ranked(state, all_ranks)
        return replace(by_all, ranking=promote(RANK_MISSING, by_all.ranking))
    if by_first.ranking.confidence != "high":
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
    ranking = leave_out_missing(ranking, state.entries)
    return replace(state, evidence=evidence, memory=memory, ranking=ranking)


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


def leave_out_ruled_out(state: LookUp) -> LookUp:
    """Leave out the entries that something else in the report rules out.

    Their words are near such a report, or even their signature is in it. If one of them is the
    likeliest entry, claim nothing, and put what may be instead before the titles. What a curve
    shows stays.
    """
    candidates = state.ranking.candidates
    text = f"{state.sentence}\n{state.whole_text}"
    out = ruled_out(text, {candidate.id for candidate in candidates} - {state.evidence.seen})
    others = tuple(candidate for candidate in candidates if candidate.id not in out)
    if others == candidates:
        return state
    ranking = replace(state.ranking, candidates=others)
    if others[:1] != candidates[:1]:
        worth_a_look = ranking.worth_a_look or bool(ranking.confidence)
        for entry_id in reversed(out[candidates[0].id]):
            others = put_first(Candidate(entry_id, 0.0), others)
        ranking = replace(ranking, candidates=others, confidence="", worth_a_look=worth_a_look)
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
    logs of ranks that somebody's Ctrl-C ended. A person's words in a file get titles. What a run
    outlived explains no failure.
    """
    evidence, candidates = state.evidence, state.ranking.candidates
    first = candidates[0] if candidates else None
    is_outlived = evidence.went_on and evidence.seen in ("", "sound") and not evidence.last_words
    # Nobody outlives the notice that names the end itself, whatever a handler prints behind it.
    is_outlived &= not (first and first.hit and ending_of([first.hit.line]))
    if state.rests_on_signs and (evidence.says_all or is_outlived):
        return replace(state, ranking=replace(state.ranking, confidence=""))
    if state.sentence or state.has_own_words:
        return state
    if evidence.is_report and not (first and first.hit) and evidence.seen in ("", "sound"):
        worth_a_look = state.ranking.worth_a_look or bool(state.ranking.confidence)
        ranking = replace(state.ranking, confidence="", worth_a_look=worth_a_look)
        return replace(state, ranking=ranking)
    if first and first.hit and _stands_at_end(first.hit.line, evidence):
        return state
    if state.rests_on_signs:
        is_founded = _ran_out_of_memory(state) or evidence.seen not in ("", "sound")
    elif evidence.read and is_interrupted(evidence.failures):
        is_founded = evidence.seen not in ("", "sound")
    else:
        is_founded = bool(evidence.seen) or evidence.failed() or not evidence.is_log
    if is_founded:
        return state
    return replace(state, ranking=replace(state.ranking, confidence=""))


def _stands_at_end(line: Line, evidence: Evidence) -> bool:
    """Whether a line is of the new ones that a log ends with, or of a log that ends in none.

    A log without routine is short, and none of its lines is of a run that went on.
    """
    last = evidence.last_words
    return not last or line in last or not any(each.kind == ROUTINE for each in evidence.lines)


def trust_memory_message(state: LookUp) -> LookUp:
    """Claim the entry about any out-of-memory message where a file has one and no other claim.

    Such a message is a sign, however few words of the entry stand around it: no claim is unsure.
    Where it shows no need of memory it is none, and in a file the entry is only listed.
    """
    if state.memory and not state.memory.shows_need:
        return _list_memory(state) if state.rests_on_signs else state
    first = state.ranking.candidates[:1]
    if (
        state.memory
        and state.ranking.confidence == "low"
        and [c.id for c in first] == [OUT_OF_MEMORY]
    ):
        return replace(state, ranking=replace(state.ranking, confidence="medium"))
    if not state.rests_on_signs or state.ranking.confidence or not _ran_out_of_memory(state):
        return state
    if OUT_OF_MEMORY not in state.entries or state.evidence.went_on:
        return state
    candidates = put_first(Candidate(OUT_OF_MEMORY, 0.0), state.ranking.candidates)
    ranking = replace(state.ranking, candidates=candidates, confidence="medium")
    return replace(state, ranking=ranking)


def _ran_out_of_memory(state: LookUp) -> bool:
    """Whether an out-of-memory message is what failed, not what a library warned of."""
    return state.memory is not None and state.memory.line.kind in FAILED


def _list_memory(state: LookUp) -> LookUp:
    """Put the entry about any out-of-memory message first among the titles, and claim it not.

    Another entry whose signature stands in the file stays claimed.
    """
    first = state.ranking.candidates[0] if state.ranking.candidates else None
    if OUT_OF_MEMORY not in state.entries or (state.ranking.confidence and first and first.hit):
        return state
    candidates = put_first(Candidate(OUT_OF_MEMORY, 0.0), state.ranking.candidates)
    ranking = replace(state.ranking, candidates=candidates, confidence="", worth_a_look=True)
    return replace(state, ranking=ranking)


def claim_entries(state: LookUp) -> LookUp:
    """If the ranking claims anything, claim its first candidates, each with the reason."""
    confidence = state.ranking.confidence
    if not confidence:
        return state
    chosen = state.ranking.candidates[: state.limit]
    if state.needs_signs:
        chosen = (*chosen[:1], *(c for c in chosen[1:] if c.hit))
    claims = tuple(
        Claim(
            state.entries[candidate.id],
            _why(candidate, state),
            confidence_of_further(candidate, state.ranking.confidence) if place else confidence,
        )
        for place, candidate in enumerate(chosen)
    )
    rests_on = chosen[0].hit if chosen else None
    ended_otherwise = rests_on is not None and disagreement(state.evidence, rests_on.line)
    if ended_otherwise and claims[0].confidence == "high":
        claims = (replace(claims[0], confidence="medium"), *claims[1:])
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
    crashed = state.evidence.failed() and state.ranking.confidence in ("high", "medium")
    if crashed:
        claims = together(together(claims[:1], seen), claims[1:])
    else:
        claims = together(seen, claims)
        state = replace(state, probe_answers=True, rests_on=None)
    return replace(state, claims=tuple(claims[: state.limit]))


def why_of(candidate: Candidate) -> str:
    """The literal text of a match, or the words that speak for it, as the report writes them."""
    if candidate.hit:
        line = candidate.hit.line
        rank = f", rank {line.rank}" if line.rank is not None else ""
        text = plain(shown(candidate.hit.text, 80))
        return f"`{text}` in {shown(line.source, NAME)} line {line.number}{rank}"
    telling: list[str] = []
    for word in candidate.words:
        # Of "dataloader" and "data" one is enough.
        if not any(word in other or other in word for other in telling):
            telling.append(word)
    return f"{BY_WORDS}{', '.join(telling[:MOST_WORDS])}" if telling else BY_LIKENESS


def confidence_of_further(candidate: Candidate, first: str) -> str:
    """The confidence of a match behind the first, whose confidence is `first`.

    Low, unless a literal text of it decides too.
    """
    decides = candidate.hit and candidate.hit.decisive and first != "low"
    return "medium" if decides else "low"


def of_probe(findings: Iterable[Probed], entries: Mapping[str, Entry]) -> list[Claim]:
    """What a probe's report claims, each entry once, proven ones first.

    On the programs of evals/PROBE.md no healthy one had a finding of level wrong, and where a
    failing one had one alone, it named the failure. Of several, all but one may be consequences.
    Hints are right less often.
    """
    ordered = sorted(findings, key=lambda finding: not finding.wrong)
    first_of = {finding.id: finding for finding in reversed(ordered) if finding.id in entries}
    proven = sum(finding.wrong for finding in first_of.values())
    claims = []
    for finding in sorted(first_of.values(), key=ordered.index):
        step = f" at step {finding.step}" if finding.step > 0 else ""
        rank = f" on rank {finding.rank}" if finding.rank > 0 else ""
        text = f": `{cut(finding.said, SEEN)}`" if finding.said.strip() else " this failure"
        confidence = "low" if not finding.wrong else "high" if proven == 1 else "medium"
        claims.append(Claim(entries[finding.id], f"the probe saw{step}{rank}{text}", confidence))
    return claims


def together(first: list[Claim], second: list[Claim]) -> list[Claim]:
    """Both lists of claims, each entry once, in its first place and with both reasons."""
    reasons = {claim.entry.id: claim.why for claim in second}
    merged = []
    for claim in first:
        both = filter(None, (claim.why, reasons.pop(claim.entry.id, "")))
        merged.append(replace(claim, why="; ".join(both)))
    return [*merged, *(claim for claim in second if claim.entry.id in reasons)]
