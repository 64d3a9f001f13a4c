"""Reports within a whole log, as agents send them: what a healthy run printed, and the report behind or before it.

evals/healthy_logs/ holds what runs that are well print (made_by.tsv says which program made each); whoever made them had not seen how the look-up reads. Every second one,
by name, belongs to the reporting half. Such a log by itself should get no answer; those in CALLS hold a warning that an entry is about.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from remote_gpu_trainer.answering import answer_for

from . import systems
from .cases import Case
from .grade import grade
from .report import apart

LOGS = Path(__file__).resolve().parent.parent / "healthy_logs"
SIZE, MOST = 10_000, 7_000  # characters of log and report together, and of the report
CALLS = {"student_regression.log": "O8", "torchrun_ddp_logging.log": "O8"}  # lr_scheduler.step() before optimizer.step(), printed by PyTorch itself


def logs(half: str) -> list[Path]:
    """The healthy logs of a half."""
    return sorted(LOGS.glob("*.log"))[int(half == "reporting") :: 2]


def within(cases: list[Case], half: str, before: bool = False) -> list[Case]:
    """Each report behind (or before) the beginning of a healthy log."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in logs(half)]
    found = []
    for at, case in enumerate(sorted(cases, key=lambda case: case.id)):
        report = case.text[-MOST:]
        log = texts[at % len(texts)][: SIZE - len(report)].rpartition("\n")[0]
        found.append(replace(case, text=f"{report}\n\n{log}" if before else f"{log}\n{report}"))
    return found


def healthy(half: str) -> dict[str, list[str]]:
    """{log: what is claimed of it} of the healthy logs that get an answer."""
    claimed = {path.name: [match["id"] for match in answer_for(log=str(path)).matches] for path in logs(half)}
    return {name: ids for name, ids in claimed.items() if ids}


def run(cases: list[Case], half: str) -> str:
    """A table for the reports behind a log, one for those before it, and what the logs alone get."""
    chosen = [case for case in cases if case.half == half]
    said = []
    for where, before in (("behind", False), ("before", True)):
        asked = within(chosen, half, before)
        said.append(apart(f"the {half} half, each report {where} 3 to 10 KB of a healthy run's log", grade(asked, systems.lookup(asked))))
    claimed = healthy(half)
    warned = sum(CALLS.get(name) == ids[0] for name, ids in claimed.items())
    said.append(f"healthy logs alone: {len(claimed)} of {len(logs(half))} get an answer, {warned} of them for a warning in it that an entry is about")
    return "\n\n".join(said)
