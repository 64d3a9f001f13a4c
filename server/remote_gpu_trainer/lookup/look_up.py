"""The entry point of a look-up: opens the log, reads the clock, loads the catalogue once.

The command line and the MCP server call `answer_for`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from datetime import date
from functools import lru_cache
from typing import BinaryIO

from ..catalogue import bundle
from ..catalogue.entry import Entry
from ..catalogue.signatures import Pattern
from ..logs.files import Unreadable
from ..logs.routine import is_command
from ..logs.wrapping import unfolded
from ..numbers import log_reading
from ..retrieval import search
from ..text import BadRequest
from .answer import Answer, check_limit, look_up, plain
from .excerpts import cut, first_paragraph

MAX_TEXT = 20_000_000  # characters of a pasted report
WORDS = (4, 20)  # of a sentence before a report; two Chinese characters count as a word
LONGEST_SENTENCE = 240  # characters of it
CHECK = 60  # tokens of the check of an entry that explains a run
LONG = 100_000  # characters from which a report may be read in windows


@lru_cache(maxsize=1)
def _needles() -> tuple[bytes, ...]:
    """The texts by which a reader of large logs chooses lines."""
    return tuple(search.load().signatures.needles())


@lru_cache(maxsize=1)
def prepare() -> None:
    """Read everything that stays in memory, once.

    The garbage collector skips it, now and during each look-up.
    """
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
) -> Answer:
    """Answer a text, the path of a log or of a folder of logs, or a binary stream.

    A text beside a log or stream is what somebody says about it. `seconds` bounds the
    reading of a folder or of a log at HOST:PATH; `progress(bytes_read)` is called while a log is
    read. `today` is the day that ages are judged by (default: the clock's).
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
    if log is not None:
        found = _of_path(log, progress, seconds)
    elif stream is not None:
        found = log_reading.from_stream(stream, needles=_needles(), progress=progress)
    else:
        found = log_reading.from_text(
            text or "", needles=_needles() if text and len(text) > LONG else ()
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
    answer.ask = " ".join(filter(None, (found.left_out, numbers, answer.ask)))
    return answer


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


def _of_path(
    log: str, progress: Callable[[int], None] | None, seconds: float
) -> log_reading.Evidence:
    if ":" not in log:
        return log_reading.from_path(log, _needles(), progress, seconds)
    from ..logs import remote  # imports ssh and much else

    return remote.from_path(log, log_reading, _needles(), progress, seconds)


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
