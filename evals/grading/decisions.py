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
from remote_gpu_trainer.lookup.steps import Answer
from remote_gpu_trainer.runner.failures import DECISIONS, FIX, RESTART, STOP

from . import own_errors
from .report import row, table

HERE = Path(__file__).resolve().parents[1]
SETS, MATRIX = HERE / "sets", HERE.parent / "tests" / "records" / "matrix.json"
TEXTS = ("../cases.jsonl", "by_time.jsonl", "fresh.jsonl", "waiting.jsonl")
NONE = "none"
# What the second half has to reach: the share of its claims that are right, and at most that share
# of all that a wrong `stop` may have.
LEAST, MOST_STOPPED = 0.95, 0.01
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


def run(halves: tuple[str, ...] = ("first", "second")) -> tuple[str, list[str]]:
    """Return (the tables, a line for each figure of the second half that is worse than wanted)."""
    named = {f"two readers, {half} half": of_readers(half) for half in halves}
    made = of_made()
    parts = [shares({**named, **made})]
    parts += [confusion(name, graded) for name, graded in {**named, **made}.items()]
    below = []
    for name, graded in named.items():
        told = figures(graded)
        if told["right"] < LEAST:
            below.append(f"{name}: {told['right']:.3f} of the claims right, wanted {LEAST}")
        if told["wrong stops"] > MOST_STOPPED:
            below.append(f"{name}: {told['wrong stops']:.3f} wrong stops, at most {MOST_STOPPED}")
    return "\n\n".join(parts), below


def misses(halves: tuple[str, ...] = ("first",)) -> str:
    """Return a line for each wrong decision."""
    every = [*(case for half in halves for case in of_readers(half))]
    every += [case for graded in of_made().values() for case in graded]
    return "\n".join(
        f"{case.name}: {case.decided}, labelled {', '.join(case.labels)}"
        for case in every
        if case.is_claimed and case.decided not in case.labels
    )
