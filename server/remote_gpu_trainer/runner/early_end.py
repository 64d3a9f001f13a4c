"""A program that ends with 0: was it the end?"""

from __future__ import annotations

import re

from . import log, why
from .context import Run
from .why import Attempt, Verdict

TRACEBACK = 16_384  # bytes of the log's end in which a traceback may begin
_RANK = re.compile(r"(?:\[rank\d+\]: ?)*")
# "ValueError: x", or a name alone: Python's last line of a traceback.
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?::|\(|\s*\Z)")
# What libraries say after the error that ended a program.
_AFTER = re.compile(
    r"wandb: |\[W\d|CUDA kernel errors|For debugging consider|Compile with `|Search for `"
)


def judge(
    run: Run,
    attempt: Attempt,
    missing: list[str],
    stale: list[str],
    gained: bool,
    again: bool = False,
) -> Verdict:
    """Return what an end with 0 came to; class '' where all that is expected is there.

    Without its results, before its final step, or saying that a signal ended it, the program was
    cut short: many trainers end with 0 after a save. `gained`: there is a newer checkpoint. A
    program that saved, and whose output tells no step at all, can't be held to a final one.
    `again`: an attempt was cut short at this very step before; then what the log says of signals
    is no sign of one.
    """
    short = ""
    final = run.spec.final_step
    if missing:
        short = f"without {missing[0]}"
    elif final and (attempt.step or 0) < final and not (attempt.step is None and gained):
        short = f"at step {'none' if attempt.step is None else attempt.step} of {final}"
    elif not final and not run.spec.results and _was_signalled(run, attempt):
        short, gained = "after a signal from outside", True
    if not short:
        return Verdict("", "", "")
    if gained and not again:
        reason = f"cut short: it ended with 0 {short}"
        return Verdict("killed", why.entry_of(run, "killed"), reason)
    if missing:
        return _blame(missing, stale)
    if final:
        return Verdict("bug", "", f"it ended with 0 {short}")
    return Verdict("", "", "")


def _was_signalled(run: Run, attempt: Attempt) -> bool:
    return why.has_sign("signal", log.tail(run, attempt.log_first, why.LAST_WORDS))


def _blame(missing: list[str], stale: list[str]) -> Verdict:
    reason = f"the program ended, but {len(missing)} expected files are missing, first {missing[0]}"
    if stale:
        reason += (
            f"; {stale[0]} is from before this run and was not written again "
            "(touch it if it is the result)"
        )
    return Verdict("bug", "", reason)


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
    told = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    # A log that goes on tells of an error that the program got over.
    if not told or not _ERROR.match(told[0]) or not all(map(_AFTER.match, told[1:])):
        return ""
    return f"it ended with 0, but its log ends with a traceback: {told[0].rstrip()[:200]}"
