"""What would help where nothing fits, or where the answer isn't sure."""

from __future__ import annotations

from ..logs.evidence import Evidence

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
NUMBERS = "numbers (loss, step time, memory, exit code), and the change after which it began"


def missing_information(
    evidence: Evidence, lead: str, *, most: int = 9, with_sentence: bool = True
) -> str:
    """`lead`, and at most `most` things that would help and aren't there yet.

    `with_sentence`: whether a sentence about the report may be among them.
    """
    is_sound = evidence.seen == "sound"
    help_ = "If something is wrong anyway, this would help" if is_sound else "What would help"
    missing = [
        *([SENTENCE] if with_sentence and _is_long(evidence) else []),
        *_more_of_the_log(evidence, is_sound),
        *([RANK_LOGS] if _tells_of_ranks(evidence) else []),
        NUMBERS,
    ]
    return f"{lead} {help_}: {'; '.join(missing[:most])}."


def _is_long(evidence: Evidence) -> bool:
    return sum(len(line.text) for line in evidence.lines) > LONG_REPORT


def _more_of_the_log(evidence: Evidence, is_sound: bool) -> list[str]:
    """The part of a log to send: none of a sound run, or where a failure is in it."""
    if not evidence.is_log and not any(line.kind == "routine" for line in evidence.lines):
        return [END_OF_LOG]
    return [] if is_sound or evidence.failed() else [FIRST_ERROR]


def _tells_of_ranks(evidence: Evidence) -> bool:
    """Whether the job has several ranks, by their lines or by the first words of the report."""
    return len(evidence.ranks) > 1 or any(
        "gpus" in line.text.lower() or "rank" in line.text.lower() for line in evidence.lines[:50]
    )
