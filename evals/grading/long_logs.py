"""Reports buried in 5 MB logs of three ranks, as an agent sends them: a file or a folder.

It takes 40 reports of (a) to (c) with the line of an exception from the ten families that the
look-up began with, and 40 of the others, in the order of their ids. The report is what rank 2 says
last; around it lies what healthy runs print (reading/long.py), behind it what the others say when
rank 2 is gone (ranks.py). Everything follows from the ids.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from reading.long import noise
from remote_gpu_trainer.logs import reading
from remote_gpu_trainer.lookup.answer import answer_for

from . import ranks, report, systems, unseen
from .cases import Case
from .grade import Grade, grade

SIZE, POOLS = 5_000_000, 4  # bytes of a log, and different logs of healthy runs
EACH = 40
PLACES = (0.5, 0.85, 1.0)  # where rank 2 fails; the others go on
RANKS = (*ranks.OTHERS, ranks.FAILED)
FORMS = ("its lines named", "torchrun --tee 3", "a file a rank")
# A line that Python prints for an exception, whatever is in front of it.
RAISED = re.compile(r"^(?:.*[\s:\]])?(?:\w+\.)*[A-Z]\w*(?:Error|Exception)(?::|\s*$)", re.M)
PARTS = ("ten families", "the others")


def chosen() -> dict[str, list[Case]]:
    """{part: its reports}."""
    found: dict[str, list[Case]] = {name: [] for name in PARTS}
    for case in sorted(unseen.together(unseen.sets()), key=lambda case: case.id):
        part = found[PARTS[case.family not in report.TEN]]
        if case.expect and RAISED.search(case.text) and len(part) < EACH:
            part.append(case)
    return found


def logs(case: Case, at: int) -> dict[str, str]:
    """{file name: text} of the log in which the `at`-th report lies."""
    form, place = FORMS[at % len(FORMS)], PLACES[at // len(FORMS) % len(PLACES)]
    own = case.text if reading.from_text(case.text).ranks else _named(case.text)
    before, after = _healthy(at % POOLS, place)
    words = ranks.others(ranks.WORDS[at % len(ranks.WORDS)])
    summary = ranks.torchrun() if at // len(ranks.WORDS) % 2 else ""
    if form == FORMS[0]:
        return {"train.log": "\n".join([*before, own, *after, words]) + summary}
    if form == FORMS[1]:
        told = [f"[default{RANKS[n % 3]}]:{line}" for n, line in enumerate(before)]
        told += [f"[default{ranks.FAILED}]:{line}" for line in own.splitlines()]
        told += [f"[default{RANKS[n % 2]}]:{line}" for n, line in enumerate(after)]
        return {"train.log": "\n".join([*told, words]) + summary}
    files = {f"rank{name}.log": "\n".join(before[name::3]) + "\n" for name in RANKS}
    files[f"rank{ranks.FAILED}.log"] += case.text + "\n"
    for name in ranks.OTHERS:
        said = [line for line in words.splitlines() if f"{name}" in line[:12]] or [words]
        files[f"rank{name}.log"] += "\n".join([*after[name::2], *said]) + "\n"
    return files


def _named(text: str) -> str:
    return "\n".join(f"[rank{ranks.FAILED}]: {line}" for line in text.splitlines())


@cache
def _healthy(pool: int, place: float) -> tuple[list[str], list[str]]:
    """Lines of a healthy run before and after a place in its log."""
    lines = noise(pool, SIZE).decode().split("\n")
    cut = int(len(lines) * place)
    return lines[:cut], lines[cut:]


def answers(cases: list[Case]) -> Iterator[tuple[str, tuple[list[str], list[str]]]]:
    """(id, ids of the answer) of each report in its log."""
    with tempfile.TemporaryDirectory() as folder:
        for at, case in enumerate(cases):
            place = Path(folder) / str(at)
            place.mkdir()
            files = logs(case, at)
            for name, text in files.items():
                (place / name).write_text(text, encoding="utf-8")
            log = place if len(files) > 1 else place / next(iter(files))
            yield case.id, systems.ids_of(answer_for(log=str(log)))
            for name in files:
                (place / name).unlink()


def run(parts: dict[str, list[Case]] | None = None) -> tuple[str, dict[str, list[Grade]]]:
    """(a table of both parts, {part: grades})."""
    graded = {
        name: grade(cases, dict(answers(cases))) for name, cases in (parts or chosen()).items()
    }
    title = "reports of (a) to (c) within 5 MB logs of several ranks"
    return report.beside(title, graded), graded
