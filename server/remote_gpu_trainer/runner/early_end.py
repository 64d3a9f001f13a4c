"""A program that ends with 0: what is odd about it."""

from __future__ import annotations

import re

from . import log
from .context import Run
from .why import Attempt

TRACEBACK = 16_384  # bytes of the log's end in which a traceback may begin
_RANK = re.compile(r"(?:\[rank\d+\]: ?)*")
# "ValueError: x", or a name alone: Python's last line of a traceback.
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?::|\(|\s*\Z)")
# What libraries say after the error that ended a program.
_AFTER = re.compile(
    r"wandb: |\[W\d|CUDA kernel errors|For debugging consider|Compile with `|Search for `"
)


def tell_short(run: Run, attempt: Attempt, total: int | None) -> str:
    """Say that a program ended with 0 before the last step that its log announces; '' where it
    didn't, or where the job says what shows its end.

    Early stopping looks like an error that the program swallowed, so it is told and not judged. A
    log that has every tenth step ends up to ten before the last. `total`: as the log tells it.
    """
    step = attempt.step
    if run.spec.results or run.spec.final_step or not total or step is None:
        return ""
    steps = log.find_steps(run, log.tail(run, attempt.log_first, TRACEBACK))
    between = step - max((other for other in steps if other < step), default=step - 1)
    if step + between >= total:
        return ""
    return (
        f"it ended with 0 at step {step} of {total}: by early stopping, or by an error that it"
        " swallowed; results or final_step in the job would tell which"
    )


def last_words(run: Run, attempt: Attempt) -> str:
    """Return the last line of a traceback with which the log ends, '' where it ends otherwise.

    `python3 train.py; true` and `… | cat` end with 0 whatever the program did.
    """
    text = log.tail(run, attempt.log_first, TRACEBACK)
    _, found, rest = text.rpartition(b"Traceback (most recent call last)")
    if not found:
        return ""
    lines = rest.decode("utf-8", "replace").replace("\r", "\n").split("\n")[1:]
    lines = [_RANK.sub("", line, count=1) for line in lines]
    # Frames are indented.
    unindented = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    # A log that goes on tells of an error that the program got over.
    if (
        not unindented
        or not _ERROR.match(unindented[0])
        or not all(map(_AFTER.match, unindented[1:]))
    ):
        return ""
    return f"it ended with 0, but its log ends with a traceback: {unindented[0].rstrip()[:200]}"
