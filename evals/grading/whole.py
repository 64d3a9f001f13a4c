"""Reports within a whole log, as agents send them: behind or before what a healthy run printed.

evals/sets/healthy_logs/ holds the logs of healthy runs (made_by.tsv says which program made each);
whoever made them had not seen how the look-up reads. Every second one, by name, belongs to the
reporting half. Such a log by itself should get no answer; those in CALLS hold a warning that an
entry is about.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

from . import systems
from .cases import Case
from .grade import grade
from .report import apart

LOGS = Path(__file__).resolve().parent.parent / "sets" / "healthy_logs"
SIZE, MOST = 10_000, 7_000  # characters of log and report together, and of the report
CALLS = {
    "student_regression.log": "O8",
    "torchrun_ddp_logging.log": "O8",
}  # lr_scheduler.step() before optimizer.step(), printed by PyTorch itself


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


def beside_a_file(asked: list[tuple[Case, str]]) -> systems.Answers:
    """Each log as a file, with its sentence if there is one: the tool's `log` and `text`."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for case, said in asked:
            path.write_text(case.text, encoding="utf-8")
            found[case.id] = systems.ids_of(answer_for(log=str(path), text=said or None))
    return found


def healthy(half: str) -> dict[str, list[str]]:
    """{log: what is claimed of it} of the healthy logs that get an answer."""
    claimed = {
        path.name: [match["id"] for match in answer_for(log=str(path)).matches]
        for path in logs(half)
    }
    return {name: ids for name, ids in claimed.items() if ids}


def run(cases: list[Case], half: str, sentences: dict[str, str]) -> str:
    """A table for reports behind a log, one for those before it, two for those in a file.

    And what the logs alone get. It takes every third report of the half. `sentences`: {id: what a
    reader said of a report}.
    """
    chosen = sorted((case for case in cases if case.half == half), key=lambda case: case.id)[::3]
    tables = []
    for where, before in (("behind", False), ("before", True)):
        asked = within(chosen, half, before)
        tables.append(
            apart(
                f"a third of the {half} half, each {where} 3 to 10 KB of a healthy run's log",
                grade(asked, systems.lookup(asked)),
            )
        )
    behind = [case for case in within(chosen, half) if case.id in sentences]
    for what, said in (("alone", {}), ("and one sentence by a reader", sentences)):
        answers = beside_a_file([(case, said.get(case.id, "")) for case in behind])
        tables.append(
            apart(
                f"the same logs with their reports behind them as files, {what}",
                grade(behind, answers),
            )
        )
    claimed = healthy(half)
    warned = sum(CALLS.get(name) == ids[0] for name, ids in claimed.items())
    tables.append(
        f"healthy logs alone: {len(claimed)} of {len(logs(half))} get an answer, "
        f"{warned} of them for a warning in it that an entry is about"
    )
    return "\n\n".join(tables)
