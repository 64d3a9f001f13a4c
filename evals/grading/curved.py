"""The cases of logs without an error: what their numbers say.

A healthy run gets no answer. A case is a line of evals/sets/curves.jsonl: `file` (below evals/),
`expect` (every right entry, best first; none for a healthy run, or one whose fault no entry is
about), `what` truly happened, the `form` in which it was printed, and its `set`.

Each set was made by somebody who had seen neither the reading nor the other sets, and was graded
before anything was changed because of it (EXPERIMENTS.md). What was learned from it since makes it
worth less.
"""

from __future__ import annotations

import json
from pathlib import Path

from remote_gpu_trainer.lookup.answer import answer_for

from .cases import Case, id_of
from .grade import grade, rates
from .report import apart
from .systems import ids_of

SETS = {
    1: "logs without an error, first set",
    2: "logs without an error, second set, half of it home-made prints",
    3: "logs without an error, third set",
}
# Shown first, among three, claims on healthy runs: what a set has to reach.
LEAST = {1: (0.97, 0.97, 0.0), 2: (0.9, 0.93, 0.0), 3: (0.7, 0.73, 0.034)}


def read(path: Path) -> dict[int, list[tuple[Case, Path]]]:
    """{set: [(case, its log)]}."""
    found: dict[int, list[tuple[Case, Path]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        raw = json.loads(line)
        log = path.parent / raw["file"]
        found.setdefault(raw["set"], []).append(
            (
                Case(
                    id_of(raw["file"]), "error", "", tuple(raw["expect"]), raw["form"], raw["what"]
                ),
                log,
            )
        )
    return found


def run(path: Path) -> tuple[str, list[str]]:
    """(a table for each set, one line for each figure that is worse than LEAST)."""
    said, below = [], []
    for number, pairs in sorted(read(path).items()):
        answers = {}
        for case, log in pairs:
            answers[case.id] = ids_of(answer_for(log=str(log)))
        grades = grade([case for case, _ in pairs], answers)
        found = rates(grades)
        said.append(apart(SETS[number], grades))
        least = LEAST[number]
        for name, value, right in (
            ("first", found.first[0], least[0]),
            ("three", found.three[0], least[1]),
        ):
            if value < right:
                below.append(
                    f"curves, set {number}: found {name} {value:.3f}, expected at least {right}"
                )
        if found.false[0] > least[2]:
            below.append(
                f"curves, set {number}: {found.false[0]:.3f} false answers; "
                f"at most {least[2]} are allowed"
            )
    return "\n\n".join(said), below


def misses(path: Path) -> str:
    """One line for each case without a right first answer, or with a false one."""
    lines = []
    for number, pairs in sorted(read(path).items()):
        for case, log in pairs:
            matches, titles = ids_of(answer_for(log=str(log)))
            found = [*matches, *titles]
            if (found[:1] or [""])[0] not in case.expect if case.expect else matches:
                lines.append(
                    f"set {number} {log.name}: found {' '.join(found[:3]) or 'nothing'}, "
                    f"expected {' '.join(case.expect) or 'nothing'}: {case.note}"
                )
    return "\n".join(lines)
