"""What to do next about a run that nobody watches: is the decision of an answer right?

evals/sets/decisions.jsonl names 200 reports (`id`, their texts are in the other sets) and 32 runs
of several ranks (`cell`, of the matrix in tests/records/matrix.json). Two readers who saw neither
the look-up nor each other labelled each: `labels`, and in `also` what either called defensible too.
The half `first` was looked at while the rules were written, `second` was asked once at the end.

Nearly all of these want something mended first. So the same decisions are graded on runs whose
label follows from how they were made: the whole matrix, logs that end by their user's own mistake,
logs that end without an error, and whole logs of healthy runs.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remote_gpu_trainer.lookup.answer import answer_for
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.runner.failures import DECISIONS, FIX, RESTART, STOP

from . import own_errors
from .report import row, table

HERE = Path(__file__).resolve().parents[1]
SETS, MATRIX = HERE / "sets", HERE.parent / "tests" / "records" / "matrix.json"
TEXTS = ("../cases.jsonl", "by_time.jsonl", "fresh.jsonl", "waiting.jsonl")
NONE = "none"
# What was measured, less a case: a lower share of right claims fails, and so do more wrong stops.
LEAST, MOST_STOPPED = {"first": 0.92, "second": 0.88}, 0.01
AIM = 0.95  # of the claims
RECORD, PAGE = HERE.parent / "tests" / "records" / "decisions.json", HERE / "DECISIONS.md"
# What the makers of the matrix did to a rank, where only one decision follows from it.
MADE = {
    "exception": FIX, "out of memory": FIX, "full disk": FIX, "bad sample": FIX,
    "mismatch of collectives": FIX, "skipped collective": FIX, "SIGKILL": RESTART,
}  # fmt: skip


class Graded(NamedTuple):
    """One case: what it is, the labels, what else is defensible, and what the answer decides."""

    name: str
    labels: tuple[str, ...]
    also: tuple[str, ...]
    decided: str

    @property
    def is_claimed(self) -> bool:
        """Whether the answer decides anything."""
        return self.decided != NONE


def decided(answer: Answer) -> str:
    """Return what an answer decides, `none` where it decides nothing."""
    return answer.decision["do"] if answer.decision else NONE


def read(half: str) -> list[dict]:
    """Return the rows of the readers' set, those of one half."""
    lines = (SETS / "decisions.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["half"] == half]


def of_readers(half: str) -> list[Graded]:
    """Grade one half of what the readers labelled."""
    texts, runs = _texts(), json.loads(MATRIX.read_text(encoding="utf-8"))["results"]
    graded = []
    for case in read(half):
        if "id" in case:
            answer = answer_for(text=texts[case["id"]])
        else:
            answer = _of_folder(runs[case["cell"]])
        name = case.get("id") or case["cell"]
        graded.append(Graded(name, tuple(case["labels"]), tuple(case["also"]), decided(answer)))
    return graded


def of_made() -> dict[str, list[Graded]]:
    """Grade the runs whose label follows from how they were made, by what they are."""
    return {
        "runs of several ranks": list(_of_matrix()),
        "logs that end by their user's mistake": list(_of_own_errors()),
        "logs that end without an error": list(_of_curves()),
        "whole logs of healthy runs": list(_of_healthy()),
    }


def _texts() -> dict[str, str]:
    texts = {}
    for name in TEXTS:
        for line in (SETS / name).read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            texts[case["id"]] = case.get("text", "")
    return texts


def _of_folder(files: dict[str, str]) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return answer_for(log=folder)


def _of_matrix() -> Iterator[Graded]:
    for name, files in json.loads(MATRIX.read_text(encoding="utf-8"))["results"].items():
        label = MADE.get(name.split(" (")[0])
        if label:
            yield Graded(name, (label,), (), decided(_of_folder(files)))


def _of_own_errors() -> Iterator[Graded]:
    for case, answer in own_errors.answers(SETS / "own_errors.jsonl.gz"):
        labels = (FIX,) if case["at"] else (NONE, STOP)
        yield Graded(case["id"], labels, (), decided(answer))


def _of_curves() -> Iterator[Graded]:
    for line in (SETS / "curves.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        labels = (FIX,) if case["expect"] else (NONE, STOP)
        yield Graded(case["file"], labels, (), decided(answer_for(log=str(SETS / case["file"]))))


def _of_healthy() -> Iterator[Graded]:
    for path in sorted((SETS / "healthy_logs").glob("*.log")):
        yield Graded(path.name, (NONE, STOP), (), decided(answer_for(log=str(path))))


def figures(graded: list[Graded]) -> dict[str, float]:
    """Return shares: claimed; of these right, and right or defensible; wrong stops of all; and
    what always saying `fix_first` would get of all."""
    claimed = [case for case in graded if case.is_claimed]
    most = max(1, len(claimed))
    return {
        "cases": len(graded),
        "claimed": len(claimed) / len(graded),
        "right": sum(case.decided in case.labels for case in claimed) / most,
        "defensible": sum(case.decided in (*case.labels, *case.also) for case in claimed) / most,
        "wrong stops": sum(c.decided == STOP and STOP not in c.labels for c in graded)
        / len(graded),
        "always fix_first": sum(FIX in case.labels for case in graded) / len(graded),
    }


def shares(named: dict[str, list[Graded]]) -> str:
    """Return the table of the figures, a row for each set."""
    names = list(figures(next(iter(named.values()))))
    rows = [
        row(name, *(str(told[n]) if n == "cases" else f"{told[n]:.3f}" for n in names))
        for name, told in ((name, figures(graded)) for name, graded in named.items())
    ]
    return table("decisions", ("set", *names), rows)


def confusion(title: str, graded: list[Graded]) -> str:
    """Return the table of what was decided, by the first label."""
    counts = Counter((case.labels[0], case.decided) for case in graded)
    columns = [*DECISIONS, NONE]
    rows = [
        row(label, *(str(counts[label, column] or "") for column in columns))
        for label in columns
        if any(counts[label, column] for column in columns)
    ]
    return table(title, ("labelled", *columns), rows)


def everything() -> dict[str, list[Graded]]:
    """Grade all sets, by their names."""
    halves = {f"two readers, {half} half": of_readers(half) for half in LEAST}
    return {**halves, **of_made()}


def run(write: bool) -> tuple[str, list[str]]:
    """Return (the tables, a line for each figure that is worse than it was).

    `write` brings the record and the page up to date.
    """
    named = everything()
    below = []
    for half, least in LEAST.items():
        told = figures(named[f"two readers, {half} half"])
        if told["right"] < least:
            below.append(f"{half} half: {told['right']:.3f} of the claims right, not {least}")
        if told["wrong stops"] > MOST_STOPPED:
            below.append(f"{half} half: {told['wrong stops']:.3f} wrong stops")
    if write:
        record = json.loads(RECORD.read_text(encoding="utf-8"))
        record["now"] = {name: [list(case) for case in told] for name, told in named.items()}
        RECORD.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
        PAGE.write_text(page(record), encoding="utf-8")
    return tables(named), below


def tables(named: dict[str, list[Graded]]) -> str:
    """Return the figures of all sets, and what was decided in each by its label."""
    return "\n\n".join([shares(named), *(confusion(*each) for each in named.items())])


def page(record: dict) -> str:
    """Return the page of results."""
    first = record["first_run"]
    asked = [
        Graded(name, tuple(case["labels"]), tuple(case["also"]), first["results"][name])
        for case in read("second")
        for name in [case.get("id") or case["cell"]]
    ]
    now = {
        name: [Graded(n, tuple(labels), tuple(also), told) for n, labels, also, told in cases]
        for name, cases in record["now"].items()
    }
    date, commit = first["date"], first["commit"][:8]
    parts = [
        TEXT,
        f"## The first run of the second half\n\nAsked once, on {date}, at {commit}. Aimed at:"
        f" {AIM} of the claims right, and at most one wrong `stop` in a hundred.",
        tables({"two readers, second half": asked}),
        "## Now\n\n`--suite decision` prints what was decided in each set, by its label.",
        shares(now),
    ]
    return "\n\n".join(parts) + "\n"


TEXT = """# Decisions

Made by `python evals/run_evals.py --suite decision --write`; a test compares this page with its
record.

An answer decides for somebody who isn't watching: `restart`, `restart_elsewhere`, `fix_first`,
`wait` or `stop`, or nothing. `sets/decisions.jsonl` holds the decisions of two readers for 200
reports and 32 runs of several ranks. They saw neither the look-up nor each other's labels. The
rules were written with the first half in view.

"Claimed" is the share with a decision, "right" the share of these that a reader decided too;
"defensible" counts what either reader called defensible as well. Nearly all of the readers' cases
want something mended first, so the last column says what that answer alone would get, of all
cases. The other sets have labels that follow from how the runs were made; of a run that is well,
`stop` and no decision are both right.

The files of the sets b to e of `sets/disk_files.jsonl` ([INPUT.md](INPUT.md)) were asked once, on
the same day. Of 37 that end by their user's own mistake 36 got `fix_first`. Of 18 that somebody or
a scheduler ended, 8 got `stop`, 8 `restart`, and 2 nothing. Of 43 healthy ones 8 got `stop`, 29
nothing and 6 `fix_first`. Two of 60 that failed got a wrong `stop`: srun had cancelled the step of
a task that failed. They were mended afterwards. Seven of the 60 got `restart`; their reader named
memory as the cause of three of these, whose logs say `Killed` and no more."""


def misses() -> str:
    """Return a line for each wrong decision, but of the half that is asked once."""
    named = {"two readers, first half": of_readers("first"), **of_made()}
    return "\n".join(
        f"{case.name}: {case.decided}, labelled {', '.join(case.labels)}"
        for graded in named.values()
        for case in graded
        if case.is_claimed and case.decided not in case.labels
    )
