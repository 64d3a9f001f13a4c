"""An answer as a person reads it: what to do and why, then the entry, then its check.

An entry's id stands there once, as the handle for `--id`; confidences, domains and the names of
decisions are for programs. Plain text and the terminal are both written from an `Advice`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..catalogue.costly import kinds_of_cost
from ..catalogue.entry import Entry
from ..runner.failures import ELSEWHERE, FIX, RESTART, STOP, WAIT
from .budget import first_sentence, opening, plain
from .state import BY_ID, BY_LIKENESS, BY_WORDS, Answer
from .writer import NOT_SURE, READ, UNSURE, several_causes

TEXT = "text"  # the source of the lines of a pasted text
MOST_TITLES = 3  # entries that an answer names without claiming them
SURE = ("high", "medium")
SEVERITY = {
    "blocks": "stops the run",
    "corrupts": "spoils the result",
    "wastes": "wastes time or money",
    "misleads": "shows misleading numbers",
}
# What to do, by the name of a decision; what changes first comes from an entry.
_DO = {
    RESTART: "Start it again",
    ELSEWHERE: "Start it again on another box",
    FIX: "Change something before another start",
    WAIT: "Wait before another start",
    STOP: "Start nothing again",
}
_AFTER = "helps after "  # what Retry of an entry may begin with
APART = "don't confuse with"
NEAR = "Entries near it, of which none is sure:"
COMPARE = "Compare your run with these, of which none is sure."
OTHERWISE = "If the check says no:"
BESIDES = "See also:"


@dataclass(frozen=True)
class Shown:
    """An entry as an answer shows it: by its id, its title, notes on why, and labelled texts."""

    id: str
    title: str
    notes: list[str] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Advice:
    """What a person reads of an answer, in this order; each part may be empty.

    `facts` answer a question. `lead` says what to do and why, in a sentence. `entry` is what is
    claimed, with its texts, the check last. `further` are other entries under `label`. `evidence`
    are quoted lines with their places, `remarks` what to know besides.
    """

    facts: list[str]
    lead: str
    entry: Shown | None
    label: str
    further: list[Shown]
    evidence: list[tuple[str, str]]
    remarks: list[str]


def advise(answer: Answer, entries: Mapping[str, Entry], whole: bool = False) -> Advice:
    """Return an answer as a person reads it.

    `entries`: by id. With `whole` the texts of the claimed entry are those of its page.
    """
    first = answer.matches[0] if answer.matches and not answer.facts else None
    lead = "" if answer.facts else answer.lead or _lead(answer, entries)
    return Advice(
        facts=answer.facts,
        lead=lead,
        entry=_claimed(first, entries[first["id"]], lead, whole) if first else None,
        label=_label(answer),
        further=_further(answer, entries),
        evidence=_evidence(answer),
        remarks=[text for text in (first_failure(answer), _ask(answer)) if text and text != lead],
    )


def _lead(answer: Answer, entries: Mapping[str, Entry]) -> str:
    """What to do and why, in one sentence; where no entry is near, what was seen and would help."""
    decision = answer.decision or {}
    if decision and decision["do"] not in (FIX, RESTART):
        return _decided(answer)
    if decision.get("do") == RESTART and not _is_claimed(answer):
        return _decided(answer)
    if not answer.matches:
        if decision:
            return _decided(answer)
        return COMPARE if answer.also else _ask(answer)
    first = answer.matches[0]
    if _rests_on_words(first) and first["confidence"] not in SURE:
        words = first["why"].removeprefix(BY_WORDS)
        named = "similar wording speaks" if words == BY_LIKENESS else f"the words {words} speak"
        before, also = "you change anything", ""
        if decision:
            before, also = "another start", f", and {decision['why']}"
        return f"Run the check of this entry before {before}: only {named} for it{also}."
    if first["confidence"] not in SURE and any(map(_has_sign, answer.matches[1:2])):
        return "Run the check of this entry: several causes print the line; it tells them apart."
    action = _action(entries[first["id"]])
    if decision.get("do") == RESTART:
        again = _decided(answer)
        return f"{action}; then {again[0].lower()}{again[1:]}"
    reason = _why_fix(first, decision) if decision else ""
    return f"{action}; {reason}." if reason else f"{action}."


def _is_claimed(answer: Answer) -> bool:
    """Whether a failure is claimed for which something is to do before another start."""
    first = answer.matches[0] if answer.matches else None
    return first is not None and (first["confidence"] in SURE or _has_sign(first))


def _decided(answer: Answer) -> str:
    """The decision as a sentence: "Start it again, from PATH: it was …"."""
    decision = answer.decision or {}
    place = decision.get("resume_from", "")
    why = decision["why"]
    if answer.matches:
        why = re.sub(rf"^{answer.matches[0]['id']}\b", "this failure", why)
    if place and decision["do"] == STOP:
        return f"{_DO[STOP]}: {why}; the newest good checkpoint is {place}."
    return f"{_DO[decision['do']]}{f', from {place}' if place else ''}: {why}."


def _why_fix(match: Mapping[str, str], decision: Mapping[str, str]) -> str:
    """Why another start as it is doesn't help: by the entry, or by how the run ended."""
    why, retry = decision["why"], match.get("retry", "")
    if not why.startswith(f"{match['id']} "):
        return why
    if retry == "may help":
        return "starting again may pass once, and fail later"
    said = "as it is changes nothing"
    if retry.startswith(_AFTER):
        said = retry.replace(_AFTER, "helps only after ", 1)
    is_sure = match["confidence"] == "high" and _has_sign(match)
    return f"{'' if is_sure else 'if this is the cause, '}starting again {said}"


def _rests_on_words(match: Mapping[str, str]) -> bool:
    """Whether a match has only words of the report for it."""
    return match["why"] == BY_LIKENESS or match["why"].startswith(BY_WORDS)


def _has_sign(match: Mapping[str, str]) -> bool:
    return not _rests_on_words(match)


def _action(entry: Entry) -> str:
    """The first sentence of an entry's fix, without its full stop."""
    return first_sentence(opening(entry.fix)).rstrip(".")


def _claimed(match: Mapping[str, str], entry: Entry, lead: str, whole: bool) -> Shown:
    """The first match, its check last; the sentence of the fix that leads isn't said again."""
    action = first_sentence(opening(entry.fix))
    is_said = lead.startswith(_action(entry)) and match["fix"].startswith(action)
    fix = match["fix"][len(action) :].strip() if is_said else match["fix"]
    texts = {
        "cause": match["root_cause"],
        "further" if is_said else "fix": fix,
        APART: match.get("distinguish", "").replace(f"{entry.id} rather than", "this rather than"),
        "check": match["check"],
    }
    if whole:
        apart = "\n".join(f"{other}: {plain(how)}" for other, how in entry.tell_apart)
        texts.pop("further", "")
        texts = {
            "cause": entry.root_cause,
            "fix": entry.fix,
            APART: apart or texts[APART],
            "check": entry.check,
        }
    return Shown(match["id"], plain(entry.title), _notes(match), [*filter(_is_said, texts.items())])


def _is_said(text: tuple[str, str]) -> bool:
    return bool(text[1])


def _notes(match: Mapping[str, str]) -> list[str]:
    """What a failure does to a run, and why this entry; then what makes it doubtful."""
    severity, why = SEVERITY.get(match["severity"], match["severity"]), match["why"]
    if _rests_on_words(match):
        words = why.removeprefix(BY_WORDS)
        by = BY_LIKENESS if words == BY_LIKENESS else f"the words {words}"
        why = f"{'likely' if match['confidence'] in SURE else 'possible'}, by {by}"
    notes = [severity if why == BY_ID else f"{severity}; {why}"]
    return [*notes, f"in doubt: {match['stale']}"] if match["stale"] else notes


def _label(answer: Answer) -> str:
    if answer.facts:
        return BESIDES
    if answer.matches:
        return OTHERWISE
    return NEAR if answer.decision else ""


def _further(answer: Answer, entries: Mapping[str, Entry]) -> list[Shown]:
    """The entries beside the claimed one, each with its check; else titles with a first step.

    Behind a sure one stand only those with a sign in the report.
    """
    if answer.facts:
        sure = [match for match in answer.matches if match["confidence"] in SURE]
        return [Shown(match["id"], match["title"]) for match in sure[:MOST_TITLES]]
    if answer.matches:
        is_sure = answer.matches[0]["confidence"] == "high"
        others = [match for match in answer.matches[1:] if not is_sure or _has_sign(match)]
        return [
            Shown(
                match["id"],
                plain(entries[match["id"]].title),
                texts=[("check", first_sentence(opening(entries[match["id"]].check)))],
            )
            for match in others
        ]
    return [
        Shown(
            title["id"],
            plain(entries[title["id"]].title),
            texts=[_first_step(entries[title["id"]])],
        )
        for title in answer.also[:MOST_TITLES]
    ]


def _first_step(entry: Entry) -> tuple[str, str]:
    """What an entry that isn't claimed says to do first: its fix, but its check where the fix
    begins with something that deletes, restarts, pays or raises a rate."""
    fix = first_sentence(opening(entry.fix))
    return ("check", first_sentence(opening(entry.check))) if kinds_of_cost(fix) else ("fix", fix)


def _evidence(answer: Answer) -> list[tuple[str, str]]:
    """The quoted lines, but for the one that the claimed entry names already.

    Of a pasted text, which lies before the reader, only what was read from its numbers.
    """
    why = answer.matches[0]["why"] if answer.matches else ""

    def is_told(line: Mapping[str, object]) -> bool:
        place = rf"in {re.escape(str(line['source']))} line {line['line']}\b"
        return bool(why) and (line["source"] == TEXT or bool(re.search(place, why)))

    return [
        (place_of(line), line["text"])
        for line in answer.evidence
        if line["text"].startswith(READ) or not is_told(line)
    ]


def _ask(answer: Answer) -> str:
    """What to know besides and what would help, without what the lead has said."""
    text = answer.ask
    ids = [match["id"] for match in answer.matches]
    for sentence in (NOT_SURE, UNSURE, several_causes(ids) if ids else ""):
        text = text.replace(sentence, "") if sentence else text
    return " ".join(text.split())


def place_of(line: Mapping[str, object]) -> str:
    """Where a line of evidence is: 'train.log:45 rank 1'."""
    rank = "" if line["rank"] is None else f" rank {line['rank']}"
    return f"{line['source']}:{line['line']}{rank}"


def first_failure(answer: Answer) -> str:
    """Which ranks failed, or what the first one did instead, and the line that shows it, or ''."""
    from ..logs.ranks import is_step

    first = answer.first_failure
    others = [place for place in answer.first_failures if place != first]
    if not first or first["rank"] is None:
        return f"several ranks at fault: {_listed(others)}" if others else ""
    shown_by = [
        line["text"]
        for line in answer.evidence
        if (line["source"], line["line"]) == (first["source"], first["line"])
    ]
    how = first.get("how") or ("is behind" if shown_by and is_step(shown_by[0]) else "failed first")
    also = f"; at fault too: {_listed(others)}" if others else ""
    return f"{how}: {_listed([first])}{also}"


def _listed(places: list[dict]) -> str:
    return ", ".join(
        f"rank {place['rank']} ({place['source']} line {place['line']})" for place in places
    )
