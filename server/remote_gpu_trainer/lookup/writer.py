"""Write what a look-up found into an answer, within its budget of tokens.

One table says what an answer may hold, and the most tokens of each part. Tokens are those that
`budget.tokens` estimates: 1,000 of them are at most 900 of a tokenizer. The parts can't all be full
at once, so `shorten` cuts an answer that is over `WHOLE`, the last part of `CUT` first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import fields, replace

from ..catalogue.entry import Entry
from ..logs.ends import shows_course
from ..logs.evidence import Evidence, Probed, disagreement
from ..logs.kinds import MESSAGE, ROUTINE
from ..logs.lines import Line
from ..numbers.entries import RANK_MISSING
from ..numbers.memory import Shortage
from ..retrieval.ranking import is_line
from ..runner.failures import as_answer
from ..text.masking import shown
from .budget import (
    cut,
    cut_before_code,
    first_paragraph,
    fitting,
    opening,
    plain,
    tokens,
    tokens_of_json,
)
from .decisions import decision_of
from .state import Answer, Claim, LookUp

WHOLE, FURTHER = 1000, 95  # tokens of an answer with three matches, and of each match beyond
LINES = 2  # lines of evidence
ALSO = 15  # candidates of which an answer without a match shows the titles
BESIDE = 5  # and one with matches that aren't sure

MOST = {
    # In `matches`.
    "leads": 430,  # cause, fix and check of the first match
    "distinguish": 45,  # how to tell it from the next
    "match": 50,  # title and check of each further match
    # In `evidence`.
    "line": 48,  # each line
    # In `ask`: all of it, then its parts in their order.
    "ask": 330,
    "memory": 165,  # what training the model of a config.json takes
    "left_out": 130,  # what of a folder wasn't read, or what the dumps in it say
    "numbers": 80,  # what losses and tables show that is no fault
    "ranks": 170,  # what became of which rank, and where each stood
    "decision": 100,  # who ended the run, what may not belong to it
    "help": 130,  # which line of the user's own failed, or what would make the answer surer
    "read": 90,  # which lines and which of several runs were looked at
    # In `also`.
    "titles": 450,
}
CUT = ("match", "leads", "distinguish", "line", "titles")
CHARS = 90  # of a line that an answer quotes
NAME = 200  # characters of the name of a log
MAX_SHOWN = 4000  # characters of a line that are masked before it is cut
READ = "read from the numbers: "  # goes before text that is in no line of the log

# [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537]     where a library was built
_SOURCE = re.compile(r"(?<![\w.])/(?:[\w.+-]{1,60}/){2,20}(?=[\w+-]{1,60}\.(?:cc|cpp|cu|h|hpp)\b)")
WAITED = "waited for another rank or lost it"  # what a rank did that has no failure of its own
NOTHING_FITS = "Nothing in the catalogue fits."
NO_ERROR = "No error found."
NO_COURSE = "No line is known as an error, and none shows a training that goes on or is done."
BROKE_OFF = (
    "No line that is known as an error, but the log ends with a new line, quoted as evidence, and "
    "doesn't say that it is done."
)
NOT_SURE = "Not sure that an entry fits; check whether one of these titles describes your failure."
HINTS_ALONE = "The probe gives hints, which prove nothing; run each entry's check."
WORDS_ALONE = (
    "Ranked by words alone: the sentence encoder's file is missing or damaged; "
    "reinstall remote-gpu-trainer."
)
UNSURE = "Not sure."
LONG_REPORT = 160  # characters of a report from which a sentence about it helps
SENTENCE = (
    "one sentence of 4 to 16 words that says what you see and when, "
    "then a blank line and the report"
)
END_OF_LOG = "the last 50 lines of the log with the last exception"
FIRST_ERROR = "the lines around the first error, from the rank that failed first"
RANK_LOGS = (
    "the folder of per-rank logs (torchrun --log-dir), "
    "and `py-spy dump` of each rank if the run hangs"
)
STACKS = (
    "Look before you stop it: `py-spy dump --pid PID` of each rank, twice, a minute apart, tells "
    "where; the log of each rank (torchrun --log-dir) may tell which one came last."
)
AFTER_FAILURE = "If a run has failed, its message or its log says more."
_SEVERAL = re.compile(r"\bgpus\b|\branks\b|\brank ?[1-9]|多卡|多机", re.I)
NUMBERS = "numbers (loss, step time, memory, exit code), and the change after which it began"


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
    shorten(answer, WHOLE + FURTHER * max(0, state.limit - 3))
    return answer


def _check_first(answer: Answer, evidence: Evidence) -> None:
    """Put what the ranks say to look at before the check of the first match, in place.

    It takes the place of the check of ABSENT, which finds the rank that is known already.
    """
    if answer.matches and evidence.check:
        first = answer.matches[0]
        rest = "" if first["id"] == RANK_MISSING else first["check"]
        first["check"] = " ".join(filter(None, (evidence.check, rest)))


def _first_failure(state: LookUp) -> dict | None:
    """Return where the first failure is; None if the run outlived it and nothing is claimed.

    `how` is what the rank did where it didn't fail.
    """
    first, how = state.evidence.first, state.evidence.how
    if first is None or (state.evidence.went_on and not state.claims):
        return None
    if first.rank is not None and first.says("secondary"):
        how = how or WAITED
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
        return several_causes(causes)
    if state.ranking.confidence == "low":
        lead = "" if state.rests_on else UNSURE
        return missing_information(evidence, lead, most=1, with_sentence=with_sentence)
    if state.ranking.confidence:
        return ""
    if is_open(state):
        lead = NOT_SURE
    elif evidence.ended:
        return ""
    elif evidence.own and not evidence.went_on:
        return evidence.own
    else:
        is_calm = state.rests_on_signs and (evidence.went_on or not evidence.failed())
        evidence, lead = _lead(evidence, is_calm)
    return missing_information(evidence, lead, with_sentence=with_sentence)


def _lead(evidence: Evidence, is_calm: bool) -> tuple[Evidence, str]:
    """Return what is said first where nothing is claimed, and the evidence: sound or not.

    `is_calm`: it is a file in which nothing failed, or nothing that its run didn't outlive.
    """
    if evidence.standstill and evidence.seen in ("", "sound"):
        return replace(evidence, seen=""), evidence.standstill
    if not evidence.seen and not evidence.places:
        if evidence.last_words:
            return evidence, BROKE_OFF
        if is_calm and shows_course(evidence.lines):
            evidence = replace(evidence, seen="sound")
        elif is_calm:
            return evidence, NO_COURSE
    return evidence, NO_ERROR if evidence.seen == "sound" else NOTHING_FITS


def is_open(state: LookUp) -> bool:
    """Whether the ranking claims nothing, but one of the titles may be the right entry.

    In a file they may be so only if something failed that the file doesn't explain itself.
    """
    if not state.ranking.candidates or state.ranking.confidence or not state.ranking.worth_a_look:
        return False
    evidence = state.evidence
    is_told = state.sentence or state.has_own_words or evidence.is_compared
    if evidence.last_words and not is_told:
        return False
    if not state.needs_signs:
        return True
    return evidence.failed() and not (evidence.ended or evidence.own or evidence.went_on)


def several_causes(ids: list[str]) -> str:
    """Return what is said of the entries of a line that several causes print."""
    return f"Several causes print this line: {', '.join(ids)}; the check of {ids[0]} decides."


def _causes_of_line(state: LookUp) -> list[str]:
    """The ids of the matches of a line that several causes print, such as `Killed`; else none."""
    if state.ranking.confidence != "low" or not is_line(state.evidence) or len(state.claims) < 2:
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
    # A claim may be less sure than the ranking: its line may not be the one that ended the run.
    sure = (
        state.claims[0].confidence
        if state.ranking.confidence and state.claims
        else state.ranking.confidence
    )
    if not is_open(state) and sure not in ("medium", "low"):
        return []
    claimed = {claim.entry.id for claim in state.claims}
    most = BESIDE if state.claims else ALSO
    rest = [c for c in state.ranking.candidates if c.id not in claimed][:most]
    if state.claims and state.needs_signs and len(state.evidence.ranks) > 1:
        rest = [candidate for candidate in rest if candidate.hit]
    return titles([state.entries[candidate.id] for candidate in rest])


def matches_of(claims: list[Claim], doubts: dict[str, str]) -> list[dict]:
    """The matches of an answer: the first with its texts, the others with title and check.

    `doubts` says by id why an entry may not hold here.
    """
    matches = [_match(claim, doubts.get(claim.entry.id, "")) for claim in claims]
    if claims:
        matches[0] |= _texts_of_first(claims[0].entry, [claim.entry for claim in claims[1:]])
    return matches


def _match(claim: Claim, doubt: str) -> dict:
    """A match with its title, and as much of its check as it has room for."""
    entry, title = claim.entry, plain(claim.entry.title)
    room = max(MOST["match"] - tokens(title), 20.0)
    return {
        "id": entry.id,
        "title": title,
        "why": claim.why,
        "confidence": claim.confidence,
        "severity": entry.severity,
        "check": cut_before_code(first_paragraph(entry.check), room) or f"see entry {entry.id}",
        "stale": doubt,
    }


def _texts_of_first(entry: Entry, others: list[Entry]) -> dict:
    """What the first match has in addition. `others` are the entries of the further matches."""
    leads = fitting(
        {
            "root_cause": first_paragraph(entry.root_cause),
            "fix": opening(entry.fix),
            "check": first_paragraph(entry.check),
        },
        MOST["leads"],
    )
    return {
        **leads,
        "distinguish": cut_before_code(_distinguish(entry, others), MOST["distinguish"]),
        "domain": entry.domain,
        "retry": entry.retry,
    }


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


def titles(entries: list[Entry]) -> list[dict]:
    """As many ids with whole titles, from the start, as fit into their part of the answer."""
    shown: list[dict] = []
    room = float(MOST["titles"])
    for entry in entries:
        title = {"id": entry.id, "title": plain(entry.title)}
        room -= tokens_of_json(title)
        if room < 0:
            break
        shown.append(title)
    return shown


def whole_entry(entry: Entry) -> dict:
    """An entry for JSON: every field except its Markdown and its line, with lists as lists.

    A signature is a text as on the page, without its backticks: `/…/` is a regular expression, and
    (cascade) or (advice) may stand behind it.
    """
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    values["verified"] = entry.verified.isoformat()
    values["tell_apart"] = dict(entry.tell_apart)
    values["signatures"] = [
        (f"/{s.text}/" if s.is_regex else s.text) + (f" ({s.role})" if s.role != "root" else "")
        for s in entry.signatures
    ]
    return {name: value for name, value in values.items() if name not in ("markdown", "line")}


def evidence_lines(evidence: Evidence, memory: Shortage | None) -> list[dict]:
    """The first decisive lines.

    For an out-of-memory message the first is the summary of its numbers, from `memory`. Where
    several ranks were compared, the lines go first that tell them apart.
    """
    lines = _once([*evidence.quoted, *evidence.decisive])
    if not memory or not memory.sentence:
        return [
            _quote(line, by=READ if evidence.seen and line.kind == MESSAGE else "")
            for line in lines[:LINES]
        ]
    message = memory.line
    others = [
        line for line in lines if (line.source, line.number) != (message.source, message.number)
    ]
    return [
        _quote(message, by=READ, instead=memory.sentence),
        *(_quote(line) for line in others[: LINES - 1]),
    ]


def _once(lines: list[Line]) -> list[Line]:
    """Each line once: a copy with another rank or kind is the same line."""
    first: dict[tuple[str, int, str], Line] = {}
    for line in lines:
        first.setdefault((line.source, line.number, line.text), line)
    return list(first.values())


def probe_lines(findings: Iterable[Probed]) -> list[dict]:
    """The first findings of a probe that say something, as lines, proven ones first."""
    telling = sorted((f for f in findings if f.said), key=lambda finding: not finding.wrong)
    return [
        _quote(Line(f.source, 1, f.rank if f.rank >= 0 else None, f.said)) for f in telling[:LINES]
    ]


def place_of(line: Line) -> dict:
    """Where a line is: its rank, the name of its log and its number."""
    return {"rank": line.rank, "source": shown(line.source, NAME), "line": line.number}


def _quote(line: Line, by: str = "", instead: str = "") -> dict:
    """A line as the answer shows it.

    `by` comes first and says how the line was read; `instead` stands in place of its text.
    """
    # What was read from numbers is a whole sentence of ours, and has more room than a raw line.
    own = _SOURCE.sub("…/", shown(line.text.strip(), MAX_SHOWN))
    text = by + (instead or own[: CHARS + 2 * len(by)])
    # A line of rare characters must not take the room of the fix.
    while (cost := tokens(text)) > MOST["line"]:
        text = text[: int(len(text) * MOST["line"] / cost)]
    return {
        "source": shown(line.source, NAME),
        "line": line.number,
        "rank": line.rank,
        "text": text.rstrip(" ;"),  # a cut must not promise more
    }


def missing_information(
    evidence: Evidence, lead: str, *, most: int = 9, with_sentence: bool = True
) -> str:
    """`lead`, and at most `most` things that would help and aren't there yet.

    `with_sentence`: whether a sentence about the report may be among them. A question has no log.
    """
    if _is_question(evidence):
        return lead if most == 1 else f"{lead} {AFTER_FAILURE}".lstrip()
    is_sound = evidence.seen == "sound"
    help_ = "If something is wrong anyway, this would help" if is_sound else "What would help"
    if evidence.standstill and lead == evidence.standstill:
        return f"{lead} {STACKS}"
    missing = [
        *([SENTENCE] if with_sentence and _is_long(evidence) else []),
        *_more_of_the_log(evidence, is_sound),
        *([RANK_LOGS] if _tells_of_ranks(evidence) else []),
        NUMBERS,
    ]
    return f"{lead} {help_}: {'; '.join(missing[:most])}.".lstrip()


def _is_question(evidence: Evidence) -> bool:
    """Whether somebody asks something in a line in which nothing has failed."""
    if evidence.of_file or len(evidence.lines) != 1 or evidence.failed():
        return False
    from ..platforms.questions import is_question  # here for a fast start: a log asks nothing

    return is_question(evidence.lines[0].text)


def _is_long(evidence: Evidence) -> bool:
    return sum(len(line.text) for line in evidence.lines) > LONG_REPORT


def _more_of_the_log(evidence: Evidence, is_sound: bool) -> list[str]:
    """The part of a log to send: none of a sound run, or where a failure is in it."""
    if not evidence.is_log and not any(line.kind == ROUTINE for line in evidence.lines):
        return [END_OF_LOG]
    return [] if is_sound or evidence.failed() else [FIRST_ERROR]


def _tells_of_ranks(evidence: Evidence) -> bool:
    """Whether the job has several ranks, by their lines or by the first words of the report.

    `local_rank: 0` of torchrun's summary stands there for a single process too.
    """
    return len(evidence.ranks) > 1 or any(
        _SEVERAL.search(line.text) for line in evidence.lines[:50]
    )


def shorten(answer: Answer, most: float) -> None:
    """Cut an answer to about `most` tokens, in place, the parts of `CUT` from its end on.

    The last titles go first. Next goes all evidence but its first line. Only then does the first
    match lose what tells it from the next, and then sentences. If that isn't enough, the last
    matches go.
    """

    def over() -> float:
        return tokens_of_json(answer.as_dict()) - most

    parts = {
        "titles": _shorten_titles,
        "line": _shorten_evidence,
        "distinguish": _shorten_distinguish,
        "leads": _shorten_leads,
        "match": _shorten_matches,
    }
    for part in reversed(CUT):
        parts[part](answer, over)


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
