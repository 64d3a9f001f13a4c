"""A reader who chooses: reports with the look-up's answers, or with the titles of all entries.

`export` writes what a reader is given, one JSON object a line. The first says what to do, and holds
the index for the arm `index`; each other one is {"id", "report"}, with "answer" in the arm
`lookup`. The reader answers {"id", "ids"}: the entries that explain the report, best first, none
where no entry does. Which reports are asked follows from seed and numbers alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.answer import answer_for

from . import report, systems, unseen
from .cases import Case, read_cases
from .grade import Grade, Rates, grade, rates

ARMS = ("lookup", "index")
IN_SCOPE, STRANGE = 90, 50
SEALED_IN_SCOPE, SEALED_STRANGE = 42, 18
# It says what SKILL.md tells an agent: the catalogue's field, how to read an entry, confidences.
TASK = (
    "Each line below holds a report of a failed training run. Name the entries that explain it by "
    "id, best first: one if you are sure, up to three if you would check more than one. An entry "
    "explains a report that tells what its title says, even if the report doesn't prove the cause. "
    "Name none if no entry does, which is so for many reports. The catalogue is about training "
    "with PyTorch. Of a program in TensorFlow, JAX or Paddle, or of an inference server, it "
    "explains only what they share with it: driver, packages, Hub, tokenizer, disk. "
    "Where you hesitate, read the entries whole first: `rgt lookup --id ID`. "
    'Write one line for each report: {"id": "…", "ids": ["…"]}.'
)
ABOUT_ANSWERS = " A match in an answer of confidence high is nearly always right."


def chosen(in_scope: int, strange: int, seed: int) -> list[Case]:
    """Reports of (a) to (c), as many of each as there are, in an order without meaning.

    Strange ones come from fresh.jsonl where those sets hold too few.
    """
    parts = {
        name: [case for case in _mixed(cases, seed) if case.expect]
        for name, cases in unseen.sets().items()
    }
    inside: dict[str, Case] = {}
    for at in range(max(map(len, parts.values()))):
        for cases in parts.values():
            if at < len(cases) and len(inside) < in_scope:
                inside[cases[at].id] = cases[at]
    unexplained = [case for case in unseen.together(unseen.sets()) if not case.expect]
    outside = [*_mixed(unexplained, seed), *_mixed(unseen.strange(), seed)]
    return _mixed([*inside.values(), *outside[:strange]], seed)


def sealed(in_scope: int, strange: int, seed: int, path: Path = unseen.SEALED) -> list[Case]:
    """As many reports of the sealed set."""
    cases = _mixed(read_cases(path), seed)
    inside, outside = ([c for c in cases if bool(c.expect) is some] for some in (True, False))
    return _mixed([*inside[:in_scope], *outside[:strange]], seed)


def _mixed(cases: Iterable[Case], seed: int) -> list[Case]:
    return sorted(cases, key=lambda case: sha256(f"{seed} {case.id}".encode()).hexdigest())


def export(path: Path, cases: list[Case], arm: str) -> None:
    """Write the reports for a reader of this arm."""
    head: dict = {"task": TASK}
    if arm == "lookup":
        head["task"] += ABOUT_ANSWERS
    else:
        head["index"] = [{"id": entry.id, "title": entry.title} for entry in bundle.load().entries]
    lines = [head]
    for case in cases:
        line: dict = {"id": case.id, "report": case.text}
        if arm == "lookup":
            line["answer"] = answer_for(text=case.text).as_dict()
        lines.append(line)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def score(path: Path, cases: list[Case]) -> tuple[str, list[Grade]]:
    """(a table, grades) of a reader's answers. Raises BadCase for a line that is none."""
    answers = systems.from_file(path, cases)
    given = {json.loads(line)["id"] for line in path.read_text("utf-8").splitlines() if line}
    grades = grade(cases, answers)
    found: Rates = rates(grades)
    cells = (found.hit1, found.hit3, found.false)
    table = report.table(
        f"{path.name}: {len(given)} of {len(cases)} reports answered",
        ("n", "first", "among three", "claims on strange"),
        [report.row(f"{found.inside}+{found.outside}", *map(report.shown, cells))],
    )
    return table, grades
