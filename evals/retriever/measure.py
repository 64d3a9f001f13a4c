"""The retriever beside the shipped look-up and plain BM25, on reports that it never learned from.

usage: python evals/retriever/measure.py [--most N]
(needs numpy and the files that train.py makes)

Prints, for each set, how often a right entry is first, among three and among eighteen of what each
shows, best first; then how many reports get a claim, and how many strange ones. The look-up has
learned from many reports of (a) and (b), so its figures there are too good.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EVALS = HERE.parent
sys.path[:0] = [str(EVALS), str(EVALS.parent / "server")]

from grading import systems
from grading.cases import Case, read_cases
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.numbers import log_reading
from remote_gpu_trainer.retrieval import search

from retriever import corpus

SHOWN = 18


def sets(most: int | None = None) -> dict[str, list[Case]]:
    """The reports of (a) leave-entry-out, (b) leave-tracker-out and (c) by time."""
    entries, trackers = corpus.held_out()
    known = bundle.load().by_id
    everything = [
        case
        for name in ("cases.jsonl", "sets/fresh.jsonl", "sets/waiting.jsonl")
        for case in read_cases(EVALS / name)
        if not case.expect or case.expect[0] in known
    ]
    found = {
        "(a) leave-entry-out": [c for c in everything if c.expect and c.expect[0] in entries],
        "(b) leave-tracker-out": [c for c in everything if corpus.tracker(c.source) in trackers],
        "(c) by time": read_cases(EVALS / "sets/by_time.jsonl"),
    }
    return {name: cases[:most] for name, cases in found.items()}


def retriever(cases: list[Case]) -> systems.Answers:
    """What the retriever finds: its claims, and the titles behind them."""
    known, found = search.load(), {}
    for case in cases:
        seen = known.rank(log_reading.from_text(case.text), SHOWN)
        names = [candidate.id for candidate in seen.candidates]
        claims = 3 if seen.confidence else 0
        found[case.id] = (names[:claims], names[claims:] if claims or seen.worth_a_look else [])
    return found


def row(cases: list[Case], answers: systems.Answers) -> str:
    """Shares of the reports in scope, then claims in scope and on strange ones."""
    inside = [case for case in cases if case.expect]
    shown = {name: [*claimed, *titles] for name, (claimed, titles) in answers.items()}
    cells = [
        f"{sum(bool(set(shown[c.id][:most]) & set(c.expect)) for c in inside) / len(inside):.3f}"
        for most in (1, 3, SHOWN)
    ]
    for part in (inside, [case for case in cases if not case.expect]):
        claims = sum(bool(answers[case.id][0]) for case in part)
        cells.append(f"{claims / len(part):.3f}" if part else "–")
    return " | ".join(cells)


def main() -> int:
    """Print the table, return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, help="reports of each set (default: all)")
    asked = parser.parse_args()
    print("| reports | system | n | first | three | eighteen | claims | claims on strange |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, cases in sets(asked.most).items():
        for system in (retriever, systems.lookup, systems.bm25):
            print(f"| {name} | {system.__name__} | {len(cases)} | {row(cases, system(cases))} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
