"""A look-up from a text or a log to its answer, within the token budget of an agent.

The command line and the MCP server call `answer_for`, which opens the log and reads the clock.
`look_up` turns the evidence into the answer. What comes from a log is cut and masked.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import BinaryIO

from ..catalogue import bundle
from ..catalogue.entry import Entry, stale_entry
from ..catalogue.signatures import Pattern
from ..logs import judging
from ..logs.files import Unreadable, shapes_of
from ..logs.judging import Evidence
from ..logs.routine import is_command
from ..logs.wrapping import unfolded
from ..numbers import log_reading
from ..numbers.out_of_memory import memory_of, told_by
from ..retrieval import search
from ..retrieval.general_or_special import (
    general_first,
    platform_not_shown,
    special_of,
    splitting_first,
)
from ..text import BadRequest
from . import check_limit
from .excerpts import (
    Answer,
    Claim,
    cut,
    evidence_lines,
    fill,
    first_paragraph,
    fit,
    match_of,
    missing_information,
    of_probe,
    place_of,
    plain,
    probe_lines,
    titles,
    together,
    why_of,
)

ALSO = 15  # titles of further candidates, unless the first match is sure
# Room is counted in estimated tokens, which are more than the true ones.
TITLES = 450  # of all titles
LINES, CHARS = 2, 90  # of evidence, and of each line
WHOLE, FURTHER = 1000, 95  # of an answer with three matches, and of each match beyond
NOTHING_FITS = "Nothing in the catalogue fits."
NOT_SURE = "Not sure that an entry fits; check whether one of these titles describes your failure."
HINTS_ALONE = "The probe gives hints, which prove nothing; run each entry's check."
WORDS_ALONE = (
    "Ranked by words alone: the sentence encoder's file is missing or damaged; "
    "reinstall remote-gpu-trainer."
)
MAX_TEXT = 20_000_000  # characters of a pasted report
WORDS = (4, 20)  # of a sentence before a report; two Chinese characters count as a word
LONGEST_SENTENCE = 240  # characters of it
CHECK = 60  # tokens of the check of an entry that explains a run
ABOUT_MEMORY = re.compile(r"memory|oom\b|vram|显存|内存", re.I)
NO_FIT = "CUDA out of memory: does training this model fit?"  # the question of a config.json alone
LONG = 100_000  # characters from which a report may be read in windows


@lru_cache(maxsize=1)
def _needles() -> tuple[bytes, ...]:
    """The texts by which a reader of large logs chooses lines."""
    return tuple(search.load().signatures.needles())


@lru_cache(maxsize=1)
def prepare() -> None:
    """Read all that stays in memory, once, where the garbage collector skips it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        bundle.load_cache(), search.load()
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def answer_for(
    *,
    text: str | None = None,
    log: str | None = None,
    stream: BinaryIO | None = None,
    limit: int = 3,
    installed: str | None = None,
    progress: Callable[[int], None] | None = None,
    seconds: float = 40,
    today: date | None = None,
    good: str | None = None,
) -> Answer:
    """Answer a text, the path of a log, of a folder of logs or of a config.json, or a stream.

    A text beside a log or stream is what somebody says about it. `seconds` bounds the
    reading of a folder or of a log at HOST:PATH; `progress(bytes_read)` is called while a log is
    read. `today` is the day that ages are judged by (default: the clock's). `good` is the path of
    a log, or of a folder of logs, of a run that went well: what it also printed doesn't count.
    Raises BadRequest, Unreadable and CatalogueError, each with one line that says what to do.
    """
    check_limit(limit)
    prepare()
    if text and len(text) > MAX_TEXT:
        raise BadRequest(
            f"the text has {len(text)} characters, more than the limit of {MAX_TEXT}; "
            "save it as a file and pass the path"
        )
    text = unfolded(text) if text else text
    reckon = _memory_of_config(log) if log is not None and log.endswith(".json") else None
    if reckon:
        log, text = None, text if text and text.strip() else NO_FIT
    ordinary = _shapes_of(good, log) if good else frozenset()
    if log is not None:
        found = _of_path(log, progress, seconds, ordinary)
    elif stream is not None:
        found = log_reading.from_stream(
            stream, needles=_needles(), progress=progress, good=ordinary
        )
    else:
        found = log_reading.from_text(
            text or "",
            needles=_needles() if text and len(text) > LONG else (),
            good=ordinary,
        )
    beside = log is not None or stream is not None
    if beside and text and text.strip():
        found = log_reading.with_words(found, text)
    said = sentence_of(text, beside) if text else ""
    answer = look_up(
        found,
        bundle.load_cache(),
        search.load(),
        limit=limit,
        today=today or date.today(),
        installed=installed,
        said=said,
        asked_in_words=bool(said or (beside and text and text.strip())),
    )
    numbers = f"The numbers say: {found.numbers}." if found.numbers else ""
    reckoned = reckon(found) if reckon and text and ABOUT_MEMORY.search(text) else ""
    answer.ask = " ".join(filter(None, (reckoned, found.left_out, numbers, answer.ask)))
    return answer


def _memory_of_config(log: str) -> Callable[[Evidence], str] | None:
    """What tells, beside some evidence, the memory of a config.json's model; None for a log."""
    from ..numbers import model_shape, training_memory  # most logs are none

    model = model_shape.at(log) if ":" not in log else None

    def told(found: Evidence) -> str:
        counted = memory_of(found.lines)
        total = counted[1].total if counted else 0.0
        reckoned = training_memory.summary(model, model_shape.Run(), total)
        return f"{reckoned} `rgt fit` reckons with your batch, length and precision."

    return told if model else None


def sentence_of(text: str, with_log: bool = False) -> str:
    """The sentence about a report in the first line of a text, or ''.

    A blank line and the report follow it. `with_log`: nothing need follow; the report is a log.
    """
    head, _, rest = text.strip()[: LONGEST_SENTENCE * 4].partition("\n")
    if not (rest.partition("\n")[0].strip() == "" if rest.strip() else with_log):
        return ""
    chinese = sum(0.5 for c in head if "\u3000" < c < "\uffef")
    words = chinese + len([word for word in head.split() if word.isascii()])
    fits = WORDS[0] <= words <= WORDS[1] and len(head) <= LONGEST_SENTENCE
    return head.strip() if fits and not is_command(head) else ""


def _shapes_of(good: str, log: str | None) -> frozenset[bytes]:
    if ":" in good or ":" in (log or ""):
        raise BadRequest("a good log is compared on this machine; copy both logs here")
    return shapes_of(good)


def _of_path(
    log: str,
    progress: Callable[[int], None] | None,
    seconds: float,
    good: frozenset[bytes] = frozenset(),
) -> log_reading.Evidence:
    if ":" not in log:
        return log_reading.from_path(log, _needles(), progress, seconds, good)
    from ..logs import remote  # imports ssh and much else

    return remote.from_path(log, log_reading, _needles(), progress, seconds)


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
    found = search.of_these_first(evidence.seen, found)  # what dumps or a curve show
    seen_ids = [one.id for one in evidence.probed if one.id in entries]
    wanted = dict.fromkeys([*(c.id for c in found.candidates), *seen_ids])
    doubts = _doubts([entries[one] for one in wanted], today, installed)
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
    claims: list[Claim] = []
    for place, (candidate, entry) in enumerate(chosen):
        by_numbers = told and entry.id == told.entry and not candidate.hit
        why = told.why if by_numbers else why_of(candidate)
        confidence = found.confidence if place == 0 else _further(candidate, found)
        if place == 0 and special:
            why += f"; narrower: {special}"
        claims.append((entry, why, confidence))
    hit = chosen[0][0].hit if chosen else None
    if seen := of_probe(evidence.probed, entries):
        crashed = evidence.failed() and found.confidence in ("high", "medium")
        first, rest = (claims[:1], claims[1:]) if crashed else ([], claims)
        claims = together(together(first, seen), rest)
        is_open = is_open and not crashed
        if not crashed:
            answer.evidence = probe_lines(evidence.probed, LINES, CHARS) + answer.evidence[:1]
            answer.ask = "" if seen[0][2] != "low" else HINTS_ALONE
            elsewhere, hit = "", None
    claims = claims[:limit]
    for place, (entry, why, confidence) in enumerate(claims):
        match = match_of(entry, why, confidence, doubts.get(entry.id, ""))
        if place == 0:
            fill(match, entry, [other for other, _, _ in claims[1:]])
        answer.matches.append(match)
    if elsewhere and found.confidence:
        answer.ask = f"Not sure. {elsewhere}"
    elif found.confidence == "low" and not seen:
        answer.ask = missing_information(
            evidence, "Not sure.", most=1, with_sentence=not asked_in_words
        )
    told_first = [
        "" if retriever.encoder else WORDS_ALONE,
        evidence.victims,
        judging.disagreement(evidence, hit.line) if hit else "",
    ]
    answer.ask = " ".join(filter(None, [*told_first, answer.ask]))
    if is_open or found.confidence in ("medium", "low"):
        rest = candidates[len(chosen) : len(chosen) + ALSO]
        answer.also = titles([entries[c.id] for c in rest], TITLES)
    fit(answer, WHOLE + FURTHER * max(0, limit - 3))
    return answer


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


def _further(candidate: search.Candidate, found: search.Found) -> str:
    """The confidence of a match after the first: low, unless a literal text of it decides too."""
    decides = candidate.hit and candidate.hit.decisive and found.confidence != "low"
    return "medium" if decides else "low"


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


def explanations(
    lines: list[str], named: str, by: str, reason: str, further: bool = True
) -> list[dict]:
    """Return the entries that explain how a run ended.

    Each is {id, title, by, domain, retry, proof, check}, texts that may be empty behind `by`.
    `lines` are the end of its log. `named`: the id that `by` names, '' for none; `reason` is why.
    `further`: whether the log's end may name others.
    """
    found, matches, seen = [], [], ""
    if further and lines:
        with suppress(Unreadable):
            answer = answer_for(text="\n".join(lines))
            matches = answer.matches
            seen = f"log: {answer.evidence[0]['text']}" if answer.first_failure else ""
    if named:
        with suppress(bundle.CatalogueError):  # an id of another release
            proof = "; ".join(filter(None, (reason, seen)))
            found.append(_explained(bundle.load().get(named), by, lines, proof))
    for match in matches:
        if match["id"] not in [entry["id"] for entry in found]:
            by = f"the log's end, {match['confidence']} confidence"
            found.append(_explained(bundle.load().get(match["id"]), by, lines, match["why"]))
    return found


def _explained(entry: Entry, by: str, lines: list[str], reason: str) -> dict:
    patterns = [Pattern(s) for s in entry.signatures if s.role == "root"]
    shows = [line for line in lines if any(pattern.matches(line) for pattern in patterns)]
    return {
        "id": entry.id,
        "title": plain(entry.title),
        "by": by,
        "domain": entry.domain,
        "retry": entry.retry,
        "proof": f"log: {shows[-1].strip()}" if shows else reason,
        "check": cut(first_paragraph(entry.check), CHECK),
    }
