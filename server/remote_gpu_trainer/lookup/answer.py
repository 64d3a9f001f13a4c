"""Turn ranked entries into the answer that an agent reads, within its token budget.

Every answer is made here. The command line and the MCP server both call `look_up` and return the
same object. Everything in it that comes from a log is cut and masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from ..catalogue.entry import Entry, stale_entry
from ..logs import judging
from ..logs.judging import Evidence
from ..numbers.out_of_memory import told_by
from ..retrieval import numpy, search
from ..retrieval.neighbours import special_of, splitting_first
from ..retrieval.platform_mentions import general_first, platform_not_shown
from ..text import BadRequest
from ..text.masking import shown
from .excerpts import (
    NAME,
    cut,
    evidence_lines,
    first_paragraph,
    fitting,
    opening,
    place_of,
    tokens,
    tokens_of_json,
)

LIMITS = (1, 10)
ALSO = 15  # titles of further candidates, unless the first match is sure
# Room is counted in estimated tokens, which are more than the true ones.
TITLES = 450  # of all titles
LEADS = 430  # of cause, fix and check of the first match
OTHER = 50  # of each further match, its title and check
DISTINGUISH = 45
LINES, CHARS = 2, 90  # of evidence, and of each line
WHOLE, FURTHER = 1000, 95  # of an answer with three matches, and of each match beyond
NOTHING_FITS = "Nothing in the catalogue fits."
NOT_SURE = "Not sure that an entry fits; check whether one of these titles describes your failure."
WORDS_ALONE = (
    "Ranked by words alone: the sentence encoder's file is missing or damaged; "
    "reinstall remote-gpu-trainer."
)
WITHOUT_NUMPY = "Ranked by words alone: NumPy can't be imported; install numpy."
MOST_WORDS = 3  # of those that speak for a match
LONG_REPORT = 160  # characters of a report from which a sentence about it helps


class Answer:
    """The answer, in the shape that `models.Lookup` describes.

    `matches`: likeliest first, none when nothing fits. `also`: further candidates, by id and title
    only. Titles without a match: the report is near these entries, but not near enough to claim
    one, so a reader should choose. `ask`: what would help if nothing fits or the answer is unsure.
    """

    def __init__(self, evidence: list[dict], first_failure: dict | None):
        self.matches: list[dict] = []
        self.evidence, self.first_failure = evidence, first_failure
        self.ask = ""
        self.also: list[dict] = []

    def __eq__(self, other) -> bool:
        return isinstance(other, Answer) and self.as_dict() == other.as_dict()

    def as_dict(self) -> dict:
        """The answer as JSON has it."""
        return {
            name: getattr(self, name)
            for name in ("matches", "evidence", "first_failure", "ask", "also")
        }


def look_up(
    evidence: Evidence,
    entries: Mapping[str, Entry],
    retriever: search.Retriever,
    *,
    limit: int,
    today: date,
    installed: str | None = None,
    said: str = "",
    asked_in_words: bool = False,
) -> Answer:
    """What explains this evidence. Raises BadRequest for a limit outside 1–10.

    `entries` are by id; `installed` is the text of `pip freeze`; `said` is that of
    `Retriever.rank`. `asked_in_words`: somebody's own words came with the report, so the answer
    asks for no sentence.
    """
    check_limit(limit)
    text = "\n".join(line.text for line in evidence.lines)

    def ranked(read: Evidence) -> tuple:
        told = told_by(read.lines)
        points = (told.entry, told.first) if told and told.entry in entries else None
        return told, _there(retriever.rank(read, limit + ALSO, said, points), entries)

    alone = judging.without_cascade(evidence)
    told, found = ranked(alone)
    if alone is not evidence and not (found.confidence or found.worth_a_look):
        told, found = ranked(evidence)
        found = search.of_these_first(judging.CRASHED, found)
    elif alone is not evidence:
        if found.confidence != "high":
            found = search.before(found, ranked(evidence)[1])
        evidence = alone
    found = replace(found, candidates=general_first(found.candidates, entries, text))
    asked = search.gist(evidence, said)
    found = splitting_first(found, entries, retriever.index.known(asked)[0])
    found, special = special_of(found, entries, retriever, asked)
    doubts = _doubts([entries[c.id] for c in found.candidates], today, installed)
    candidates = sorted(
        found.candidates, key=lambda c: -c.probability * (0.5 if c.id in doubts else 1.0)
    )
    told_of = evidence.failed() or evidence.seen or said or asked_in_words
    if evidence.is_log and not told_of and not (candidates and candidates[0].hit):
        found = replace(found, confidence="")  # likeness to an entry is no failure
    elsewhere = (
        platform_not_shown(entries[candidates[0].id], text)
        if candidates and not candidates[0].hit
        else ""
    )
    if elsewhere and found.confidence == "high":
        found = replace(found, confidence="medium")
    answer = Answer(
        evidence=evidence_lines(evidence, told, LINES, CHARS),
        first_failure=place_of(evidence.first) if evidence.first else None,
    )
    is_open = bool(candidates) and not found.confidence and found.worth_a_look
    if not found.confidence:
        said_first = "No error found." if evidence.seen == "sound" else NOTHING_FITS
        answer.ask = missing_information(
            evidence,
            f"{NOT_SURE} {elsewhere}".strip() if is_open else said_first,
            with_sentence=not asked_in_words,
        )
    chosen = [(c, entries[c.id]) for c in candidates[:limit]] if found.confidence else []
    for place, (candidate, entry) in enumerate(chosen):
        by_numbers = told and entry.id == told.entry and not candidate.hit
        why = told.why if by_numbers else _why(candidate)
        confidence = found.confidence if place == 0 else _further(candidate, found)
        match = _match(entry, why, confidence, doubts.get(entry.id, ""))
        if place == 0:
            if special:
                match["why"] += f"; narrower: {special}"
            _fill(match, entry, [other for _, other in chosen[1:]])
        answer.matches.append(match)
    if elsewhere and found.confidence:
        answer.ask = f"Not sure. {elsewhere}"
    elif found.confidence == "low":
        answer.ask = missing_information(
            evidence, "Not sure.", most=1, with_sentence=not asked_in_words
        )
    hit = chosen[0][0].hit if chosen else None
    told_first = [
        "" if retriever.encoder else WORDS_ALONE if numpy else WITHOUT_NUMPY,
        evidence.victims,
        judging.disagreement(evidence, hit.line) if hit else "",
    ]
    answer.ask = " ".join(filter(None, [*told_first, answer.ask]))
    if is_open or found.confidence in ("medium", "low"):
        rest = candidates[len(chosen) : len(chosen) + ALSO]
        answer.also = _titles([entries[c.id] for c in rest], TITLES)
    _fit(answer, WHOLE + FURTHER * max(0, limit - 3))
    return answer


def _fit(answer: Answer, most: float) -> None:
    """Keep an answer within its budget.

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


def _match(entry: Entry, why: str, confidence: str, stale: str) -> dict:
    title = plain(entry.title)
    room = max(OTHER - tokens(title), 20.0)
    return {
        "id": entry.id,
        "title": title,
        "why": why,
        "confidence": confidence,
        "severity": entry.severity,
        "check": cut(first_paragraph(entry.check), room) or f"see entry {entry.id}",
        "stale": stale,
    }


def missing_information(
    evidence: Evidence, said: str, *, most: int = 9, with_sentence: bool = True
) -> str:
    """`said`, and at most `most` things that would help and aren't there yet.

    `with_sentence`: whether a sentence about the report may be among them.
    """
    sound = evidence.seen == "sound"
    wanted = []
    if with_sentence and sum(len(line.text) for line in evidence.lines) > LONG_REPORT:
        wanted.append(
            "one sentence of 4 to 16 words that says what you see and when, "
            "then a blank line and the report"
        )
    if not evidence.is_log and not any(line.kind == "routine" for line in evidence.lines):
        wanted.append("the last 50 lines of the log with the last exception")
    elif not sound and not evidence.failed():
        wanted.append("the lines around the first error, from the rank that failed first")
    if len(evidence.ranks) > 1 or any(
        "gpus" in line.text.lower() or "rank" in line.text.lower() for line in evidence.lines[:50]
    ):
        wanted.append(
            "the folder of per-rank logs (torchrun --log-dir), "
            "and `py-spy dump` of each rank if the run hangs"
        )
    wanted.append(
        "numbers (loss, step time, memory, exit code), and the change after which it began"
    )
    lead = "If something is wrong anyway, this would help" if sound else "What would help"
    return f"{said} {lead}: {'; '.join(wanted[:most])}."


def _there(found: search.Found, entries: Mapping[str, Entry]) -> search.Found:
    """Leave out the entries whose page can't be read.

    If the likeliest is one of them, nothing is claimed: the next would be a wrong answer.
    """
    candidates = tuple(c for c in found.candidates if c.id in entries)
    if candidates == found.candidates:
        return found
    if candidates[:1] == found.candidates[:1]:
        return replace(found, candidates=candidates)
    return replace(found, candidates=candidates, confidence="", worth_a_look=True)


def _titles(entries: list[Entry], room: float) -> list[dict]:
    """As many ids with whole titles, from the start, as fit into about `room` tokens."""
    found: list[dict] = []
    for entry in entries:
        title = {"id": entry.id, "title": plain(entry.title)}
        room -= tokens_of_json(title)
        if room < 0:
            break
        found.append(title)
    return found


def _fill(match: dict, entry: Entry, others: list[Entry]) -> None:
    """Put the texts of the first match into it."""
    match |= fitting(
        {
            "root_cause": first_paragraph(entry.root_cause),
            "fix": opening(entry.fix),
            "check": first_paragraph(entry.check),
        },
        LEADS,
    )
    match["distinguish"] = cut(_distinguish(entry, others), DISTINGUISH)
    for name in ("domain", "retry"):
        if value := getattr(entry, name, ""):
            match[name] = value


def check_limit(limit: int) -> None:
    """Raises BadRequest unless the limit is a whole number from 1 to 10."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not LIMITS[0] <= limit <= LIMITS[1]:
        raise BadRequest(
            f"can't use limit {limit!r}; give a whole number from {LIMITS[0]} to {LIMITS[1]}"
        )


def plain(text: str) -> str:
    """The text without Markdown's backticks."""
    return text.replace("`", "")


def _why(candidate: search.Candidate) -> str:
    """The literal text of a match, or the words that speak for it, as the report writes them."""
    if candidate.hit:
        line = candidate.hit.line
        rank = f", rank {line.rank}" if line.rank is not None else ""
        found = plain(shown(candidate.hit.text, 80))
        return f"`{found}` in {shown(line.source, NAME)} line {line.number}{rank}"
    told: list[str] = []
    for word in candidate.words:
        if not any(word in other or other in word for other in told):
            told.append(word)
    return f"words: {', '.join(told[:MOST_WORDS])}" if told else "similar wording"


def _further(candidate: search.Candidate, found: search.Found) -> str:
    """The confidence of a match after the first: low, unless a literal text of it decides too."""
    decides = candidate.hit and candidate.hit.decisive and found.confidence != "low"
    return "medium" if decides else "low"


def _distinguish(entry: Entry, others: list[Entry]) -> str:
    """How to tell the first match from the next.

    What the entry says about a neighbour, otherwise what the neighbour says about it, otherwise the
    check of the next match.
    """
    apart = dict(entry.tell_apart)
    named = [f"{other.id}: {apart[other.id]}" for other in others if other.id in apart]
    if named:
        return "; ".join(named[:2])
    for other in others:
        turned = dict(other.tell_apart).get(entry.id)
        if turned:
            return f"{entry.id} rather than {other.id}: {turned}"
    return f"{others[0].id} instead, if: {first_paragraph(others[0].check)}" if others else ""


def _doubts(entries: list[Entry], today: date, installed: str | None) -> dict[str, str]:
    """{id: why this entry may not hold here}. Raises BadRequest for a bad `installed`."""
    doubts = {}
    for entry in entries:
        stale = stale_entry(entry, today)
        if stale:
            doubts[entry.id] = (
                f"last checked {stale.checked}, {(today - stale.checked).days} days ago; "
                f"{stale.limit_days} is the limit"
            )
    if installed and installed.strip():
        from ..platforms import installed as environment  # packaging is only needed here

        try:
            have = environment.versions(installed)
        except environment.InstalledError as error:
            raise BadRequest(str(error)) from None
        for entry in entries:
            why = environment.out_of_range(entry.applies_to, have)
            if why:
                doubts[entry.id] = why
    return doubts
