"""What to do next about a run, for somebody who isn't watching: restart, fix first, wait or stop.

The words and the table are `runner.failures`, so that the runner, `rgt status` and an answer say
the same of the same end. What is asked, in this order: who ended the run, whether it failed twice
in the same way, whether a card broke, whether somebody pressed Ctrl-C, what ranks that waited say,
which entry explains it, and what its last words are a sign of. Where none of that is known, nothing
is decided.
"""

from __future__ import annotations

import re

from ..catalogue.entry import Entry
from ..logs.ends import ELSEWHERE as ERROR_ELSEWHERE
from ..logs.ends import is_interrupted
from ..logs.evidence import Evidence, Failure
from ..logs.kernel.xids import xid_level
from ..logs.kinds import EXCEPTION, FAILED
from ..numbers.entries import HANGS, OUT_OF_MEMORY, XIDS
from ..runner.failures import (
    ELSEWHERE,
    FIX,
    RESTART,
    TWICE,
    WAIT,
    Decision,
    decide,
    judge_text,
    of_entry,
)
from .state import Claim, LookUp

SURE = ("high", "medium")  # confidences of an entry that decides
# Ends that say enough by themselves. Behind a failure the others are only its consequence.
REASONED = ("preempted", "time", "node", "requeued", "closed", "limit")
NEAR = 60  # lines before the last failure of a file whose words are of the same end
# Behind the id of an entry; its Retry says more.
_WHY = {
    RESTART: "may not come again",
    ELSEWHERE: "is a fault of the box",
    FIX: "repeats until something changes",
    WAIT: "may pass with time",
}
MAY_PASS = "may pass once, and comes again until its cause is mended"
# NVRM: Xid (PCI:0000:3b:00): 79, pid=1, …      Xid 79      XID: 79
_XID = re.compile(r"\bXid\b(?: \([^)]{1,60}\))?[ :=#]{1,3}(\d{1,4})\b", re.I)
# exitcode  : -9     exits with return code = -9     Killed     exit status 137
_SIGKILL = re.compile(r"\bSIGKILL\b|\bKilled\b|已杀死|(?:exitcode|code)\s{0,8}[:=] ?-9\b|\b137\b")
# What a line says that tells how a process ended. Any that names SIGKILL does.
_ENDED = ("killed", "exit", "exit code", "ended rank", "ended code", "ended signal")
KILLED = "signal 9 ended it, mostly because memory ran out; look for that before another start"
KILLED_RANK = "signal 9 ended a rank; restart once its kernel log shows no kill for memory"
# By the level of an Xid. What `rgt health` doesn't know either may be the card: another one tells.
_OF_XID = {
    "fatal": "Xid {}: the card or its link failed",
    "degraded": "Xid {}: the card or its link failed",
    "unknown": "Xid {} isn't known here; another card shows whether this one is at fault",
}


def decision_of(state: LookUp) -> Decision | None:
    """Return what to do next, None where no failed run is seen or nothing is known of it."""
    evidence = state.evidence
    if state.model_memory:
        return None
    if evidence.ended_as in REASONED:
        return decide(evidence.ended_as)
    if _is_done(state):
        return decide("done")
    if evidence.went_on:
        return _of_end(state)
    if evidence.failed_twice and not evidence.ended_as:
        return Decision(FIX, TWICE)
    for rule in (
        _of_card,
        _of_interrupt,
        _of_hang,
        _of_claim,
        _of_own_error,
        _of_end,
        _of_last_words,
    ):
        decision = rule(state)
        if decision and decision.do == RESTART and _is_killed(state):
            is_one_of_many = len(state.evidence.ranks) > 1
            return Decision(RESTART, KILLED_RANK) if is_one_of_many else Decision(FIX, KILLED)
        if decision:
            return None if _is_contradicted(decision, state) else decision
    return Decision(FIX, KILLED) if _is_killed(state) else None


def _is_killed(state: LookUp) -> bool:
    """Whether signal 9 ended the program or one of its ranks, and nobody says who sent it."""
    evidence = state.evidence
    if evidence.ended_as:
        return False
    failed = [line for line in evidence.lines if line.kind in FAILED]
    first = [evidence.first] if evidence.first else []
    return any(
        (line.says(*_ENDED) or "SIGKILL" in line.text) and _SIGKILL.search(line.text)
        for line in (*failed, *first)
    )


def _is_contradicted(decision: Decision, state: LookUp) -> bool:
    """Whether the answer claims, though not surely, a failure that each new start repeats.

    Nobody should start that again unasked.
    """
    claim = state.claims[0] if state.claims else None
    return decision.do == RESTART and claim is not None and claim.entry.retry == "pointless"


def _is_done(state: LookUp) -> bool:
    """Whether a log tells at its end that training is over, behind all that failed."""
    evidence = state.evidence
    failed = max((failure.line.number for failure in evidence.failures), default=0)
    is_well = evidence.seen in ("", "sound") and not state.claims
    return is_well and failed < evidence.came_to_end


def _of_card(state: LookUp) -> Decision | None:
    """By an Xid of a broken card, in a line that failed or in a report about Xids."""
    claim = _sure_claim(state)
    is_about = claim is not None and claim.entry.id == XIDS
    for line in state.evidence.lines:
        if not is_about and line.kind not in FAILED:
            continue
        for match in _XID.finditer(line.text):
            code = int(match[1])
            why = _OF_XID.get(xid_level(code, line.text))
            if why:
                return Decision(ELSEWHERE, why.format(code))
    return None


def _of_interrupt(state: LookUp) -> Decision | None:
    """By somebody's Ctrl-C, where nothing failed before it."""
    return decide("cancelled") if is_interrupted(state.evidence.failures) else None


def _of_hang(state: LookUp) -> Decision | None:
    """By what the ranks say whose collective didn't end.

    A rank that left while others waited leaves again: its code or its share of the data decides. A
    time that ran out may be of a slow disk or link.
    """
    evidence, first = state.evidence, state.evidence.first
    if evidence.calls_differ:
        return Decision(FIX, "the ranks run different collectives, and would again")
    claimed = state.claims[0].entry.id if state.claims else ""
    if claimed not in ("", *HANGS) or not evidence.failures:
        return None
    if not _only_lost(evidence):
        return None
    lost = [f.line for f in evidence.failures if f.secondary and not f.line.says("exit")]
    is_hang = any(not line.says("lost peer") for line in lost)
    if is_hang and (
        evidence.victims or judge_text("\n".join(line.text for line in lost))[0] == "hang"
    ):
        return decide("hang")
    if not is_hang and first and first.rank is not None and first.kind not in FAILED:
        return Decision(FIX, f"rank {first.rank} ended early while the others waited for it")
    return None


def _of_claim(state: LookUp) -> Decision | None:
    """By the entry that explains the failure, if the answer is fairly sure of it."""
    claim = _sure_claim(state)
    if claim and claim.entry.id == OUT_OF_MEMORY:
        return decide("oom")
    return of(claim.entry) if claim else None


def _sure_claim(state: LookUp) -> Claim | None:
    """The entry that explains the failure, if the answer is fairly sure of it."""
    claim = state.claims[0] if state.claims else None
    return claim if claim and claim.confidence in SURE else None


def of(entry: Entry) -> Decision:
    """Return what to do about a failure that an entry explains."""
    do = of_entry(entry.id, entry.domain, entry.retry)
    may_pass = do == FIX and entry.retry == "may help"
    return Decision(do, f"{entry.id} {MAY_PASS if may_pass else _WHY[do]}")


def _of_own_error(state: LookUp) -> Decision | None:
    """By an error of the user's own program."""
    own = state.evidence.own
    if not own or own.startswith(ERROR_ELSEWHERE):
        return None
    return Decision(FIX, "the program, its input or a package that it uses raised it")


def _of_end(state: LookUp) -> Decision | None:
    """By an end that somebody asked for, where nothing failed before it."""
    return decide(state.evidence.ended_as) if state.evidence.ended_as else None


def _of_last_words(state: LookUp) -> Decision | None:
    """By the texts that the runner knows classes of failure by, in the lines that tell of one."""
    evidence = state.evidence
    if not evidence.failed() or _only_lost(evidence):
        return None
    failed = [line for line in evidence.lines if line.kind in FAILED]
    if evidence.of_file:
        ends = {f.line.source: f.line.number for f in evidence.failures if _ends_it(f)}
        failed = [line for line in failed if line.number >= ends.get(line.source, 1e9) - NEAR]
        if not failed:
            return None
    elif evidence.first is not None:
        failed.append(evidence.first)
    name, entry = judge_text("\n".join(line.text for line in failed))
    if not name and any(line.kind == EXCEPTION for line in failed):
        name = "bug"
    if not name and evidence.read and any(line.says("killed") for line in failed):
        name = "killed"
    if name == "oom" and state.memory and not state.memory.shows_need:
        return None
    return decide(name, entry)


def _ends_it(failure: Failure) -> bool:
    """Whether a failure in a file ended the program: many are only logged."""
    return bool(failure.frames) or failure.line.says("end")


def _only_lost(evidence: Evidence) -> bool:
    """Whether each rank that tells of a failure only lost another one, or waited for it.

    What a launcher says of them counts for nothing.
    """
    lost = [f for f in evidence.failures if f.secondary]
    return bool(lost) and all(
        f.secondary or f.line.says("exit", "wrapper") for f in evidence.failures
    )
