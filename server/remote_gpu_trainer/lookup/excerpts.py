"""The texts of an answer, each cut to its share of the token budget: of entries and of logs.

Tokens are estimated without a tokenizer. The estimate was fitted to a GPT tokenizer on the
catalogue and on reports, and errs on the high side: a whole answer as JSON has 74 to 90 % of the
estimated tokens.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate

from ..catalogue.entry import Entry
from ..logs.evidence import Evidence, Probed
from ..logs.lines import Line
from ..numbers.out_of_memory import Told
from ..retrieval.search import Candidate
from ..text.masking import shown

SEEN = 40  # tokens of what a probe saw, as the reason of a match
LINE = 48  # tokens of a line of evidence
NAME = 200  # characters of the name of a log
READ = "read from the numbers: "  # goes before text that is in no line of the log
MAX_SHOWN = 4000  # characters of a line that are masked before it is cut
LEADS = 430  # tokens of cause, fix and check of the first match
OTHER = 50  # of each further match, its title and check
DISTINGUISH = 45
MOST_WORDS = 3  # of those that speak for a match
LONG_REPORT = 160  # characters of a report from which a sentence about it helps
KEPT = 20_000  # texts and words whose cost is remembered; most are from the catalogue and recur

_AS_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
# Where a sentence or an item of a list ends and the next begins.
_SENTENCE = re.compile(r"(?<=[.!?。]) (?=\S)|(?<=\S) (?=- )")
_PIECE = re.compile(r"[A-Za-z]+|\d+|[^\sA-Za-z\d]")


def tokens(text: str) -> float:
    """About how many tokens a text has."""
    return sum(map(_of_piece, _PIECE.findall(text)))


@lru_cache(KEPT)
def _of_piece(piece: str) -> float:
    first, size = piece[0], len(piece)
    if not first.isascii():
        return 1.25
    if first.isalpha():
        return 1.0 if size <= 7 else 1.55 if size <= 12 else size / 5
    return math.ceil(size / 3) + 0.5 if first.isdigit() else 0.78


_of_word = lru_cache(KEPT)(tokens)
SIGN = tokens(",")


def tokens_of_json(value: object) -> float:
    """About how many tokens a value has as compact JSON.

    It adds up the parts, so that a text that recurs is counted once.
    """
    if isinstance(value, dict):
        return (
            (1 + max(1, 2 * len(value))) * SIGN
            + sum(map(_of_text, value))
            + sum(map(tokens_of_json, value.values()))
        )
    if isinstance(value, list):
        return (1 + max(1, len(value))) * SIGN + sum(map(tokens_of_json, value))
    return _of_text(value) if isinstance(value, str) else tokens(_AS_JSON(value))


@lru_cache(KEPT)
def _of_text(text: str) -> float:
    return tokens(_AS_JSON(text))


@lru_cache(4000)
def _priced(text: str) -> tuple[list[str], list[float]]:
    """The words of a text, and its cost in tokens up to and including each word."""
    words = text.split(" ")
    return words, list(accumulate(map(_of_word, words)))


def cut(text: str, most: float) -> str:
    """At most about `most` tokens of a text.

    It cuts at the end of a sentence if one ends in the second half; otherwise "…" marks the cut.
    '' if there is no room for three words.
    """
    words, spent = _priced(text)
    kept = bisect_right(spent, most)
    if kept == len(words):
        return text
    if kept < 3:
        return ""
    short = " ".join(words[:kept])
    end = max(short.rfind(". "), short.rfind("; "), short.rfind(".") if short.endswith(".") else -1)
    return short[: end + 1] if end > len(short) // 2 else short + " …"


def fitting(texts: dict[str, str], most: float) -> dict[str, str]:
    """The texts in about `most` tokens, none cut within a sentence or an item of a list.

    Whole if they fit. Otherwise each keeps its first sentence, and then the texts take turns, the
    last one first.
    """
    if sum(map(tokens, texts.values())) <= most:
        return dict(texts)
    parts = {name: _SENTENCE.split(text) for name, text in texts.items()}
    kept = {name: 1 for name in texts}
    left = most - sum(tokens(part[0]) for part in parts.values())
    open_ = list(reversed(texts))
    while open_:
        for name in list(open_):
            at = kept[name]
            cost = tokens(parts[name][at]) if at < len(parts[name]) else left + 1
            if cost > left:
                open_.remove(name)
            else:
                kept[name], left = at + 1, left - cost
    return {name: " ".join(part[: kept[name]]) for name, part in parts.items()}


def first_paragraph(text: str) -> str:
    """The first paragraph of a field, on one line."""
    return " ".join(text.split("\n\n")[0].split())


def opening(text: str) -> str:
    """The first paragraph of a field, and the list that it announces with a colon.

    "Depending on what the check says:" alone is no fix.
    """
    first, rest = first_paragraph(text), text.partition("\n\n")[2]
    if first.endswith(":") and rest.startswith(("- ", "1. ")):
        return f"{first} {first_paragraph(rest)}"
    return first


def evidence_lines(evidence: Evidence, told: Told | None, most: int, chars: int) -> list[dict]:
    """At most `most` lines of evidence, each of at most `chars` characters.

    For an out-of-memory message the first line is the summary of its numbers from `told`.
    """
    if not told or not told.said:
        return [
            _line_shown(line, chars, READ if evidence.seen and line.kind == "message" else "")
            for line in evidence.decisive[:most]
        ]
    line = told.line
    others = [
        other
        for other in evidence.decisive
        if (other.source, other.number) != (line.source, line.number)
    ]
    return [
        _line_shown(line, chars, READ, told.said),
        *(_line_shown(other, chars) for other in others[: most - 1]),
    ]


def _line_shown(line: Line, chars: int, by: str = "", said: str = "") -> dict:
    """A line as the answer shows it, cut and masked.

    `by` comes first and says how the line was read; `said` replaces its text.
    """
    text = by + said if said else by + shown(line.text.strip(), MAX_SHOWN)[: chars + 2 * len(by)]
    # A line of rare characters must not take the room of the fix.
    while (cost := tokens(text)) > LINE:
        text = text[: int(len(text) * LINE / cost)]
    return {
        "source": shown(line.source, NAME),
        "line": line.number,
        "rank": line.rank,
        "text": text,
    }


def place_of(line: Line) -> dict:
    """Where a line is: its rank, the name of its log and its number."""
    return {"rank": line.rank, "source": shown(line.source, NAME), "line": line.number}


def plain(text: str) -> str:
    """The text without Markdown's backticks."""
    return text.replace("`", "")


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


def fit(answer: Answer, most: float) -> None:
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


def match_of(entry: Entry, why: str, confidence: str, stale: str) -> dict:
    """A match of an answer: its title, and as much of its check as it has room for."""
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


def fill(match: dict, entry: Entry, others: list[Entry]) -> None:
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
    match |= {"domain": entry.domain, "retry": entry.retry}


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


def why_of(candidate: Candidate) -> str:
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


Claim = tuple[Entry, str, str]  # an entry, why, and the confidence of a match


def of_probe(found: Iterable[Probed], entries: Mapping[str, Entry]) -> list[Claim]:
    """What a probe's report claims, each entry once, proven ones first.

    On the programs of evals/PROBE.md no healthy one had a finding of level wrong, and where a
    failing one had one alone, it named the failure. Of several, all but one may be consequences.
    Hints are right less often.
    """
    ordered = sorted(found, key=lambda one: not one.wrong)
    named = {one.id: one for one in reversed(ordered) if one.id in entries}
    proven = sum(one.wrong for one in named.values())
    claims = []
    for one in sorted(named.values(), key=ordered.index):
        when = f" at step {one.step}" if one.step > 0 else ""
        rank = f" on rank {one.rank}" if one.rank > 0 else ""
        said = f": `{cut(one.said, SEEN)}`" if one.said.strip() else " this failure"
        confidence = "low" if not one.wrong else "high" if proven == 1 else "medium"
        claims.append((entries[one.id], f"the probe saw{when}{rank}{said}", confidence))
    return claims


def together(first: list[Claim], second: list[Claim]) -> list[Claim]:
    """Both lists of claims, each entry once, in its first place and with both reasons."""
    others = {entry.id: why for entry, why, _ in second}
    merged = [
        (entry, "; ".join(filter(None, (why, others.pop(entry.id, "")))), confidence)
        for entry, why, confidence in first
    ]
    return [*merged, *(claim for claim in second if claim[0].id in others)]


def probe_lines(found: Iterable[Probed], most: int, chars: int) -> list[dict]:
    """At most `most` findings of a probe as lines of evidence."""
    told = sorted((one for one in found if one.said), key=lambda one: not one.wrong)
    return [
        _line_shown(Line(one.source, 1, one.rank if one.rank >= 0 else None, one.said), chars)
        for one in told[:most]
    ]


def titles(entries: list[Entry], room: float) -> list[dict]:
    """As many ids with whole titles, from the start, as fit into about `room` tokens."""
    found: list[dict] = []
    for entry in entries:
        title = {"id": entry.id, "title": plain(entry.title)}
        room -= tokens_of_json(title)
        if room < 0:
            break
        found.append(title)
    return found


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


def whole_entry(entry: Entry) -> dict:
    """An entry for JSON: every field except its Markdown and its line, with lists as lists.

    A signature is a text as on the page, without its backticks: `/…/` is a regular expression, and
    (cascade) or (advice) may stand behind it.
    """
    found = {field.name: getattr(entry, field.name) for field in fields(entry)}
    found["verified"] = entry.verified.isoformat()
    found["tell_apart"] = dict(entry.tell_apart)
    found["signatures"] = [
        (f"/{s.text}/" if s.is_regex else s.text) + (f" ({s.role})" if s.role != "root" else "")
        for s in entry.signatures
    ]
    return {name: value for name, value in found.items() if name not in ("markdown", "line")}
