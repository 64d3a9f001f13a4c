"""The front door of a look-up: what was given, as evidence, to an answer.

The command line and the MCP server call `answer_for`, which opens the log and reads the clock.
`look_up` turns the evidence into the answer. What comes from a log is cut and masked.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache
from typing import BinaryIO

from ..catalogue import bundle
from ..catalogue.entry import ID
from ..logs.exit_status import as_message
from ..logs.wrapping import unfolded
from ..retrieval import search
from . import check_limit, config_memory
from .claims import Claim
from .given import check_length, read_given
from .matches import matches_of
from .steps import Answer, look_up, stale_doubts

MOST_OF_AN_ID = 20  # characters


@lru_cache(maxsize=1)
def prepare() -> None:
    """Read all that stays in memory, once, where the garbage collector skips it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        bundle.load_cache()
        search.load()
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
    if model:
        log, text = None, text if text.strip() else config_memory.QUESTION
    given = read_given(text, log, stream, progress=progress, seconds=seconds, good=good, run=run)
    evidence = given.evidence
    answer = look_up(
        evidence,
        bundle.load_cache(),
        search.load(),
        limit=limit,
        today=today or date.today(),
        installed=installed,
        sentence=given.sentence,
        has_own_words=given.has_own_words,
        model_memory=config_memory.memory_sentence(model, text, evidence) if model else "",
        checkpoint=_newest_checkpoint(log),
    )
    if log is None and stream is None:
        from .platform_facts import with_facts  # here for a fast start: a log asks for no facts

        answer = with_facts(answer, text, today or date.today())
    return answer


def entry_named(text: str, today: date | None) -> Answer | None:
    """The entry whose id the text is, as an answer; None for any other text."""
    typed = text.strip()
    if len(typed) > MOST_OF_AN_ID or not (ID.fullmatch(typed) or ID.fullmatch(typed.upper())):
        return None
    try:
        entry = bundle.load().get(typed)
    except bundle.CatalogueError:
        return None
    claim = Claim(entry, "named by its id", "high")
    doubts = stale_doubts([entry], today or date.today())
    return Answer(matches_of([claim], doubts), evidence=[], first_failure=None, ask="", also=[])


def _newest_checkpoint(log: str | Sequence[str] | None) -> str:
    """The newest whole checkpoint in a folder of logs here, "" where none is seen."""
    if not isinstance(log, str) or not os.path.isdir(log):
        return ""
    from . import whole_checkpoints  # here for a fast start: most logs are single files

    return whole_checkpoints.newest(log)
