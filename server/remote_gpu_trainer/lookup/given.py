"""What somebody gave a look-up, as evidence: a text, a log, a folder of logs, or a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

from ..logs import reading
from ..logs.evidence import Evidence
from ..logs.files import ReadOptions, shapes_of
from ..logs.prose import is_command
from ..retrieval import search
from ..text import BadRequest

MAX_TEXT = 20_000_000  # characters of a pasted report
WORDS = (4, 20)  # of a sentence before a report; two Chinese characters count as a word
LONGEST_SENTENCE = 240  # characters of it
LONG = 100_000  # characters from which a report may be read in windows


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
    return tuple(search.load().signatures.needles())


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
