"""The front door of a look-up: what was given, as evidence, to an answer.

The command line and the MCP server call `answer_for`, which opens the log and reads the clock.
`look_up` turns the evidence into the answer. What comes from a log is cut and masked.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import BinaryIO

from ..catalogue import bundle
from ..catalogue.entry import ID
from ..logs import reading
from ..logs.ends import as_message
from ..logs.evidence import Evidence
from ..logs.files import ReadOptions, shapes_of
from ..logs.prefixes import unfolded
from ..logs.prose import is_command
from ..retrieval import ranking
from ..text import BadRequest
from . import check_limit, config_memory
from .state import BY_ID, Answer, Claim
from .steps import look_up, stale_doubts
from .writer import matches_of

MOST_OF_AN_ID = 20  # characters
MAX_TEXT = 20_000_000  # characters of a pasted report
WORDS = (4, 20)  # of a sentence before a report; two Chinese characters count as a word
LONGEST_SENTENCE = 240  # characters of it
LONG = 100_000  # characters from which a report may be read in windows


@lru_cache(maxsize=1)
def prepare() -> None:
    """Read all that stays in memory, once, where the garbage collector skips it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        bundle.load_cache()
        ranking.load()
        gc.freeze()
    finally:
        if collects:
            gc.enable()


def answer_for(
    *,
    text: str | None = None,
    log: str | Sequence[str] | None = None,
    stream: BinaryIO | None = None,
    limit: int = 3,
    installed: str | None = None,
    progress: Callable[[int], None] | None = None,
    seconds: float = 40,
    today: date | None = None,
    good: str | None = None,
    run: int | None = None,
) -> Answer:
    """Answer a text, the path of a log, of a folder of logs or of a config.json, or a stream.

    Several paths are those of files of one run, such as its output and its errors. A text beside a
    log or stream is what somebody says about it; alone, where it is an entry's id, it is answered
    by that entry. `seconds` bounds the
    reading of a folder or of a log at HOST:PATH; `progress(bytes_read)` is called while a log is
    read. `today` is the day that ages are judged by (default: the clock's). `good` is the path of
    a log, or of a folder of logs, of a run that went well: what it also printed doesn't count.
    `run` says which of several runs in a log file counts, as in `ReadOptions`.
    Raises BadRequest, Unreadable and CatalogueError, each with one line that says what to do.
    """
    check_limit(limit)
    prepare()
    check_length(text or "")
    if log is None and stream is None and (named := entry_named(text or "", today)):
        return named
    text = unfolded(text or "")  # agents write a line break as "\n", or leave it out
    if log is None and stream is None:
        text = as_message(text) or text
    model = config_memory.model_at(log) if isinstance(log, str) and log.endswith(".json") else None
    if model and not text.strip():  # nothing failed: no entry, and no advice for a failure
        return Answer([], evidence=[], first_failure=None, ask=config_memory.needs(model), also=[])
    if model:
        log = None
    given = read_given(text, log, stream, progress=progress, seconds=seconds, good=good, run=run)
    evidence = given.evidence
    answer = look_up(
        evidence,
        bundle.load_cache(),
        ranking.load(),
        limit=limit,
        today=today or date.today(),
        installed=installed,
        sentence=given.sentence,
        has_own_words=given.has_own_words,
        model_memory=config_memory.memory_sentence(model, text, evidence) if model else "",
        checkpoint=_newest_checkpoint(log),
    )
    if log is None and stream is None:
        return _with_answer_to_question(answer, text, today or date.today())
    return answer


def _with_answer_to_question(answer: Answer, text: str, today: date) -> Answer:
    """The answer with what a question asks for. For a fast start both imports are here: a log asks
    nothing, and most reports don't."""
    from ..platforms.questions import may_ask

    if not may_ask(text):
        return answer
    from .questions import answer_question

    return answer_question(answer, text, today)


def entry_named(text: str, today: date | None) -> Answer | None:
    """The entry whose id the text is, as an answer; None for any other text."""
    typed = text.strip()
    if len(typed) > MOST_OF_AN_ID or not (ID.fullmatch(typed) or ID.fullmatch(typed.upper())):
        return None
    try:
        entry = bundle.load().get(typed)
    except bundle.CatalogueError:
        return None
    claim = Claim(entry, BY_ID, "high")
    doubts = stale_doubts([entry], today or date.today())
    return Answer(matches_of([claim], doubts), evidence=[], first_failure=None, ask="", also=[])


def _newest_checkpoint(log: str | Sequence[str] | None) -> str:
    """The newest whole checkpoint in a folder of logs here, "" where none is seen."""
    if not isinstance(log, str) or not os.path.isdir(log):
        return ""
    from . import whole_checkpoints  # here for a fast start: most logs are single files

    return whole_checkpoints.newest(log)


@dataclass(frozen=True)
class Given:
    """The evidence, and what somebody says beside it.

    `sentence` is the one sentence about the report, or "". `has_own_words`: the report came with
    somebody's own words.
    """

    evidence: Evidence
    sentence: str
    has_own_words: bool


def read_given(
    text: str,
    log: str | Sequence[str] | None,
    stream: BinaryIO | None,
    *,
    progress: Callable[[int], None] | None,
    seconds: float,
    good: str | None,
    run: int | None = None,
) -> Given:
    """Read what was given. The parameters are those of `answer_for`.

    Raises BadRequest, and `logs.files.Unreadable`.
    """
    good_shapes = _shapes_of_good(good, log) if good else frozenset()
    is_large = log is not None or stream is not None or len(text) > LONG
    options = ReadOptions(_needles() if is_large else (), progress, seconds, good_shapes, run)
    if log is not None:
        evidence = _of_path(log, options)
    elif stream is not None:
        evidence = reading.from_stream(stream, options=options)
    else:
        evidence = reading.from_text(text, options=options)
    is_beside_log = (log is not None or stream is not None) and bool(text.strip())
    if is_beside_log:
        evidence = reading.with_words(evidence, text)
    sentence = sentence_of(text, with_log=is_beside_log)
    return Given(evidence, sentence, bool(sentence) or is_beside_log)


def check_length(text: str) -> None:
    """Raises BadRequest for a pasted text that should come as a file."""
    if len(text) > MAX_TEXT:
        raise BadRequest(
            f"the text has {len(text)} characters, more than the limit of {MAX_TEXT}; "
            "save it as a file and pass the path"
        )


def sentence_of(text: str, with_log: bool = False) -> str:
    """The sentence about a report in the first line of a text, or ''.

    A blank line and the report follow it. `with_log`: nothing need follow; the report is a log.
    """
    head, _, rest = text.strip()[: LONGEST_SENTENCE * 4].partition("\n")
    stands_alone = rest.partition("\n")[0].strip() == "" if rest.strip() else with_log
    if not stands_alone:
        return ""
    chinese = sum(0.5 for char in head if "\u3000" < char < "\uffef")
    words = chinese + len([word for word in head.split() if word.isascii()])
    fits = WORDS[0] <= words <= WORDS[1] and len(head) <= LONGEST_SENTENCE
    # A line that was typed at a prompt is the start of a log.
    return head.strip() if fits and not is_command(head) else ""


@lru_cache(maxsize=1)
def _needles() -> tuple[bytes, ...]:
    """The texts by which a reader of large logs chooses lines."""
    return tuple(ranking.load().signatures.needles())


def _shapes_of_good(good: str, log: str | Sequence[str] | None) -> frozenset[bytes]:
    """The shapes of the lines in the log, or folder of logs, of a run that went well."""
    if ":" in good or (isinstance(log, str) and ":" in log):
        raise BadRequest("a good log is compared on this machine; copy both logs here")
    return shapes_of(good)


def _of_path(log: str | Sequence[str], options: ReadOptions) -> Evidence:
    """The evidence in a file or folder, here or on a box, or in several files of one run."""
    if not isinstance(log, str):
        return reading.from_paths(log, options)
    if ":" not in log:
        return reading.from_path(log, options)
    from ..logs import remote  # imports ssh and much else

    return remote.from_path(log, options)
