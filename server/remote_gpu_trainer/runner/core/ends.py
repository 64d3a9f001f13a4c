"""What a run came to, and the exit code that says so."""

from __future__ import annotations

from .model import ASKED, DEADLINE, Verdict
from .phases import CODES


def outcome_of(verdict: Verdict) -> str:
    """Return what a run came to before its last copy: done, preempted or failed."""
    if not verdict.failure:
        return "done"
    return "preempted" if verdict.failure in ("preempted", DEADLINE) else "failed"


def after_last_copy(
    outcome: str, verdict: Verdict, is_verified: bool, unverified: str
) -> tuple[str, Verdict]:
    """Return the end of a run and what it came to. `unverified`: what is told of a last copy that
    isn't verified."""
    if is_verified:
        return outcome, verdict
    if outcome == "done":
        reason = "; ".join(filter(None, (unverified, verdict.reason)))
        return "unsaved", Verdict("unsaved", verdict.entry, reason)
    return outcome, verdict._replace(reason=f"{verdict.reason}; {unverified}")


def end_unheard(
    outcome: str, verdict: Verdict, code: int | None, unverified: str
) -> tuple[str, Verdict, int | None]:
    """Return the end of a run whose runner didn't come to one by the deadline, what it came to, and
    its exit code. `outcome`: what the runner had found before; `unverified`: as above."""
    if outcome == "done":
        return "unsaved", Verdict("unsaved", "", f"{unverified}; ended by the deadline"), code
    if outcome == "failed":
        return outcome, verdict, code
    return "preempted", Verdict(DEADLINE, verdict.entry, DEADLINE), 137


def exit_code(failure: str, asked: str, code: int | None, is_refused: bool = False) -> int:
    """Return the code that tells how the run ended; else the program's own, `code`.

    A program's own code that the table uses for something else becomes 1.
    """
    end = "refused" if is_refused else failure or "done"
    if end == "preempted" and asked == ASKED:
        end = "stopped"
    if end in CODES:
        return CODES[end]
    own = code or 0
    return 1 if own == 0 or (own >= 74 and own in CODES.values()) else own
