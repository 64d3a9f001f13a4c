"""The look-up beside a log of a run that went well, as `rgt lookup --log FILE --good FILE` has it.

Each of 40 error texts of (a) to (c) is put into what a healthy run of its project printed: at the
end of its first part, or, by turns, in the middle of it, as where the output that a program held
back follows its traceback. The good log is another run of that project. sets/good.jsonl says which
lines of a report a program printed, and of which project it is; sets/good_runs/ holds the runs, and
its made_by.tsv says what made them.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

from . import report, systems, unseen
from .cases import Case
from .grade import Grade, grade

DATA, RUNS = unseen.SETS / "good.jsonl", unseen.SETS / "good_runs"
ROWS = ("the error texts alone", "within a healthy run's log", "the same with --good")
ENDS, MIDDLE = 0.6, 0.5  # share of the run's lines before the error


@dataclass(frozen=True)
class Buried:
    """A failing log, `case.text`, the error text in it, and the path of the good log."""

    case: Case
    error: str
    good: Path


def read() -> list[Buried]:
    """The 40 failing logs, in the order of their ids."""
    known = {case.id: case for case in unseen.together(unseen.sets())}
    found = []
    for at, line in enumerate(DATA.read_text(encoding="utf-8").splitlines()):
        raw = json.loads(line)
        case = known[raw["id"]]
        first, last = raw["lines"]
        error = "\n".join(case.text.splitlines()[first - 1 : last])
        run = (RUNS / f"{raw['run']}.1.log").read_bytes().decode().split("\n")
        cut = int(len(run) * (MIDDLE if at % 2 else ENDS))
        text = "\n".join([*run[:cut], error, *(run[cut:] if at % 2 else "")])
        found.append(Buried(replace(case, text=text), error, RUNS / f"{raw['run']}.2.log"))
    return found


def graded(asked: list[Buried]) -> dict[str, list[Grade]]:
    """{one of ROWS: grades}."""
    cases = [one.case for one in asked]
    found: dict[str, systems.Answers] = {name: {} for name in ROWS}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.log"
        for one in asked:
            path.write_text(one.case.text, encoding="utf-8")
            answers = (
                answer_for(text=one.error),
                answer_for(log=str(path)),
                answer_for(log=str(path), good=str(one.good)),
            )
            for name, answer in zip(ROWS, answers, strict=True):
                found[name][one.case.id] = systems.ids_of(answer)
    return {name: grade(cases, answers) for name, answers in found.items()}


def changed(found: dict[str, list[Grade]]) -> tuple[list[str], list[str]]:
    """(ids that the good log brings among three, ids that it takes from there)."""
    pairs = list(zip(found[ROWS[1]], found[ROWS[2]], strict=True))
    within = [(without.case.id, _is_seen(without), _is_seen(beside)) for without, beside in pairs]
    return (
        [name for name, before, after in within if after and not before],
        [name for name, before, after in within if before and not after],
    )


def run() -> tuple[str, list[str]]:
    """(a table and a sentence, the ids that fell)."""
    found = graded(read())
    won, fell = changed(found)
    missed = sum(not _is_seen(one) for one in found[ROWS[1]])
    table = report.beside("error texts in healthy logs, and a good log beside them", found)
    told = f"of {missed} missed among three, the good log brings {len(won)} there; {len(fell)} fall"
    return f"{table}\n\n{told}", fell


def _is_seen(one: Grade) -> bool:
    return one.place is not None and one.place < 3
