"""Say in words who ended a run from outside: its user, or a scheduler. Python 3.8.

Such a run has no failure of its own to be found. Where memory or a time limit was the reason, that
is said too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from .kinds import APART, EXCEPTION, PLAIN, WARNING
from .lines import Line

BEHIND = 25  # lines of other processes that may stand behind a notice of the end


class Ending(NamedTuple):
    """An end from outside: the line that tells of it, and a sentence about it."""

    line: Line
    sentence: str


_SLURM = re.compile(
    r"slurmstepd: error: \*\*\* (JOB|STEP) ([\d.+]{1,30}) ON \S{1,80} CANCELLED AT \S{1,40}"
    r"(?: DUE [Tt][Oo] ([A-Z][A-Za-z ]{2,40}?))?(?: \*\*\*|$)"
)
_PBS = re.compile(
    r"=>> PBS: job killed: (?:(walltime|cput|mem|vmem|pmem|pvmem|ncpus) \S{1,20} exceeded limit)?"
)
_LSF = re.compile(r"(TERM_[A-Z_]{3,40}): ")
_TERMINATED = re.compile(
    r"(?:\S{1,200}: (?:line|行) ?\d+: +\d+ +)?(?:Terminated|已终止)(?: {2,}\S.*)?$"
    r"|.{0,60}(?:Main process received|\bReceived|\*\*\*) SIG(TERM|INT)\b"
)
_SIGNAL = re.compile(r"(?:\w+\.)*SignalException: Process \d+ got signal: (\d{1,2})")
_LSF_REASONS = {
    "TERM_RUNLIMIT": "at its run limit",
    "TERM_MEMLIMIT": "at its memory limit",
    "TERM_SWAP": "at its swap limit",
    "TERM_CPULIMIT": "at its CPU limit",
    "TERM_PROCESSLIMIT": "at its limit of processes",
    "TERM_THREADLIMIT": "at its limit of threads",
    "TERM_OWNER": "because its owner killed it",
    "TERM_FORCE_OWNER": "because its owner killed it by force",
    "TERM_ADMIN": "because an administrator killed it",
    "TERM_FORCE_ADMIN": "because an administrator killed it by force",
    "TERM_PREEMPT": "because another job came first",
    "TERM_BUCKET_KILL": "by bkill -b",
    "TERM_REQUEUE_OWNER": "because its owner requeued it",
    "TERM_REQUEUE_ADMIN": "because an administrator requeued it",
    "TERM_WINDOW": "because the queue's time window closed",
    "TERM_LOAD": "because the host's load was too high",
    "TERM_DEADLINE": "at its deadline",
}
_SLURM_REASONS = {
    "TIME LIMIT": "at its time limit",
    "PREEMPTION": "because another job came first (preemption)",
    "NODE FAILURE": "because the node failed",
}
_SIGNALS = {
    1: "the session that started it was closed (SIGHUP)",
    2: "somebody pressed Ctrl-C (SIGINT)",
    15: "somebody or the machine asked it to end (SIGTERM)",
}


def ending_of(lines: list[Line]) -> Ending | None:
    """Return how the run of these lines was ended from outside, None where nothing says so.

    A run that goes on behind a notice wasn't ended by it. Several notices of one end are one: the
    first that gives a reason counts.
    """
    last = _last_words(lines)
    found: Ending | None = None
    for line in lines[last:]:
        for form in _FORMS:
            ending = form(line)
            if ending and (found is None or _says_more(ending, found)):
                found = ending
    return found


def _says_more(ending: Ending, before: Ending) -> bool:
    """Whether this is another notice of Slurm's, and gives a reason that the one before doesn't."""
    hits = [_SLURM.search(each.line.text) for each in (ending, before)]
    return all(hits) and bool(hits[0] and hits[0][3]) and not (hits[1] and hits[1][3])


def _last_words(lines: list[Line]) -> int:
    """The place from which on a notice of the end may stand: the last lines that aren't blank."""
    plain = [at for at, line in enumerate(lines) if line.kind in (PLAIN, WARNING, *APART)]
    return plain[-BEHIND] if len(plain) >= BEHIND else 0


def _of_slurm(line: Line) -> Ending | None:
    hit = _SLURM.search(line.text) if "CANCELLED" in line.text else None
    if not hit:
        return None
    what, number, reason = hit.groups()
    known = _SLURM_REASONS.get((reason or "").upper())
    if reason is None:
        how = "was cancelled from outside: by scancel, an administrator or a dependency"
    else:
        how = f"was ended {known}" if known else "was ended by Slurm, with a reason beside it"
    return Ending(line, f"Slurm's {what.lower()} {number} {how} (line {line.number}).")


def _of_pbs(line: Line) -> Ending | None:
    hit = _PBS.match(line.text.strip()) if line.text.lstrip()[:3] == "=>>" else None
    if not hit:
        return None
    how = f" at its limit of {hit[1]}" if hit[1] else ""
    return Ending(line, f"PBS killed the job{how} (line {line.number}).")


def _of_lsf(line: Line) -> Ending | None:
    hit = _LSF.match(line.text.strip()) if "TERM_" in line.text else None
    reason = _LSF_REASONS.get(hit[1]) if hit else None
    if hit is None or reason is None:
        return None
    return Ending(line, f"LSF ended the job {reason} ({hit[1]}, line {line.number}).")


def _of_signal(line: Line) -> Ending | None:
    hit = _SIGNAL.search(line.text) if "SignalException" in line.text else None
    reason = _SIGNALS.get(int(hit[1])) if hit else None
    return Ending(line, f"The run was stopped: {reason} (line {line.number}).") if reason else None


def _of_shell(line: Line) -> Ending | None:
    hit = _TERMINATED.match(line.text.strip())
    number = (2 if hit[1] == "INT" else 15) if hit else 0
    return (
        Ending(line, f"The run was stopped: {_SIGNALS[number]} (line {line.number}).")
        if hit
        else None
    )


def _of_user(line: Line) -> Ending | None:
    is_interrupt = line.kind == EXCEPTION and line.text.strip().startswith("KeyboardInterrupt")
    if not is_interrupt and line.text.strip() != "^C":
        return None
    return Ending(line, f"The run was stopped: somebody pressed Ctrl-C (line {line.number}).")


_FORMS: tuple[Callable[[Line], Ending | None], ...] = (
    _of_slurm,
    _of_pbs,
    _of_lsf,
    _of_signal,
    _of_shell,
    _of_user,
)
