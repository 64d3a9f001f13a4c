"""The edge of a look-up: opens the log, reads the clock, loads the catalogue once. Both front ends call it."""

from __future__ import annotations

import gc
from datetime import date
from functools import lru_cache

from ..catalogue import cache as shelf
from ..catalogue.entry import Entry
from ..catalogue.signatures import SignatureIndex
from ..logs.sentences import is_command
from ..logs.unfolding import unfolded
from ..numbers import log_reading
from ..retrieval import ranking, waiting
from ..text.errors import BadRequest
from .answer import Answer, check_limit, look_up

MAX_TEXT = 20_000_000  # characters of a pasted report
WORDS, LONGEST_SENTENCE = (
    (4, 20),
    240,
)  # of a sentence before a report; two Chinese characters count as a word
LONG = 100_000  # characters from which a report may be read in windows


@lru_cache(maxsize=1)
def signatures() -> SignatureIndex:
    """The compiled signatures of this installation's catalogue."""
    return SignatureIndex(shelf.load().signatures())


@lru_cache(maxsize=1)
def _needles() -> tuple[bytes, ...]:
    """What a reader of large logs looks for."""
    return tuple(signatures().needles())


@lru_cache(maxsize=1)
def prepare() -> None:
    """Read everything that stays, and keep the garbage collector from walking over it, now and during each look-up."""
    collects = gc.isenabled()
    gc.disable()
    try:
        shelf.load(), ranking.load(), waiting.load(), signatures()
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def answer_for(
    *,
    text: str | None = None,
    log: str | None = None,
    stream=None,
    limit: int = 3,
    installed: str | None = None,
    progress=None,
    seconds: float = 40,
    today: date | None = None,
) -> Answer:
    """Answer one of: a text, the path of a log or folder, a binary stream; a text beside a log or stream joins its evidence. `seconds`: most for a folder or a log at HOST:PATH.
    `today`: the day that ages are judged by (default: the clock's).

    Raises BadRequest, Unreadable and CatalogueError, each with one line that says what to do.
    """
    check_limit(limit)
    prepare()
    if text and len(text) > MAX_TEXT:
        raise BadRequest(
            f"found a text of {len(text)} characters, expected at most {MAX_TEXT}; put it into a file and name that"
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
    heard = log_reading.from_text(said) if said else None
    answer = look_up(
        found,
        shelf.load(),
        ranking.load(),
        signatures(),
        limit=limit,
        today=today or date.today(),
        installed=installed,
        said=heard,
        unlearned=waiting.load(),
    )
    numbers = f"The numbers say: {found.numbers}." if found.numbers else ""
    answer.ask = " ".join(filter(None, (found.left_out, numbers, answer.ask)))
    return answer


def sentence_of(text: str, with_log: bool = False) -> str:
    """What its first line says of a report: one sentence, and then a blank line and the report, or the log beside it. '' where there is none."""
    head, _, rest = text.strip()[: LONGEST_SENTENCE * 4].partition("\n")
    if not (rest.partition("\n")[0].strip() == "" if rest.strip() else with_log):
        return ""
    words = sum(0.5 if "\u3000" < c < "\uffef" else 0 for c in head) + len(
        [word for word in head.split() if word.isascii()]
    )
    return (
        head.strip()
        if WORDS[0] <= words <= WORDS[1] and len(head) <= LONGEST_SENTENCE and not is_command(head)
        else ""
    )


def _of_path(log: str, progress, seconds: float) -> log_reading.Evidence:
    if ":" not in log:
        return log_reading.from_path(log, _needles(), progress, seconds)
    from ..logs import (
        remote as remote_logs,  # ssh and all that comes with it, for paths that may be HOST:PATH
    )

    return remote_logs.from_path(log, log_reading, _needles(), progress, seconds)


def whole_entry(entry: Entry) -> dict:
    """An entry as JSON: every field, lists as lists."""
    fields = entry._asdict()
    fields["verified"] = entry.verified.isoformat()
    fields["tell_apart"] = dict(entry.tell_apart)
    fields["signatures"] = [f"/{s.text}/" if s.is_regex else s.text for s in entry.signatures]
    return {name: value for name, value in fields.items() if name not in ("markdown", "line")}
