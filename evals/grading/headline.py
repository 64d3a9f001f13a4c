"""What RESULTS.md leads with: the look-up beside BM25 on reports that no model learned from.

Also what its confidences are worth, and how it does where report and entry share few words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.lookup.state import Answer
from remote_gpu_trainer.retrieval.index import words

from . import report, systems, unseen
from .cases import Case
from .grade import Grade, grade, rates, share

LOOKUP, BM25 = "lookup", "BM25"
CONFIDENCES = ("high", "medium", "low")
STRANGE = "strange reports of fresh.jsonl"
TITLES = {
    unseen.A: "reports of 60 entries of which no report was learned",
    unseen.B: "reports of five trackers from which no model learned",
    unseen.C: "threads first posted from January to September 2026",
    STRANGE: "no entry explains them, and no model learned from them",
}
QUARTERS = 4
COMMON = 0.25  # a word that so many of the entries hold says nothing


@dataclass(frozen=True)
class Headline:
    """The graded sets, {set: {system: grades}}, and all answers of the look-up by case."""

    sets: dict[str, list[Case]]
    graded: dict[str, dict[str, list[Grade]]]
    answers: dict[str, Answer]

    def text(self) -> str:
        """Every table, the sets first."""
        cases = unseen.together({name: self.sets[name] for name in (unseen.A, unseen.B, unseen.C)})
        found = [report.beside(f"{name}: {TITLES[name]}", self.graded[name]) for name in self.sets]
        return "\n\n".join(
            [*found, confidences("(a) to (c)", cases, self.answers), self._overlap(cases)]
        )

    def _overlap(self, cases: list[Case]) -> str:
        marks = {
            system: {g.case.id: g for grades in self.graded.values() for g in grades[system]}
            for system in (LOOKUP, BM25)
        }
        rows = []
        for name, quarter in quarters([case for case in cases if case.expect]):
            for system, found in marks.items():
                marked = rates([found[case.id] for case in quarter])
                cells = (marked.first, marked.three, marked.eighteen)
                rows.append(report.row(name, system, str(len(quarter)), *map(report.shown, cells)))
        return report.table(
            "(a) to (c) by the share of a report's words that the right entry holds",
            ("share of words", "system", "n", "first", "three", "eighteen"),
            rows,
        )


def run(sets: dict[str, list[Case]] | None = None) -> Headline:
    """Ask the look-up and BM25 about (a) to (c) and the strange reports, each report once."""
    sets = sets or {**unseen.sets(), STRANGE: unseen.strange()}
    everything = unseen.together(sets)
    answers = systems.asked(everything)
    named: dict[str, systems.Answers] = {
        LOOKUP: {name: systems.ids_of(answer) for name, answer in answers.items()},
        BM25: systems.bm25(everything),
    }
    graded = {
        name: {system: grade(cases, found) for system, found in named.items()}
        for name, cases in sets.items()
    }
    return Headline(sets, graded, answers)


def confidences(name: str, cases: list[Case], answers: dict[str, Answer]) -> str:
    """How often the first match is right, by the confidence that the answer states."""
    current: Callable[[str], str] = bundle.load().current
    found: dict[str, list[bool]] = {name: [] for name in CONFIDENCES}
    for case in cases:
        for match in answers[case.id].matches[:1]:
            found[match["confidence"]].append(match["id"] in map(current, case.expect))
    rows = [
        report.row(name, str(len(right)), report.shown(share(right)))
        for name, right in found.items()
    ]
    return report.table(
        f"{name}: how often the first match is right, by its confidence",
        ("confidence", "n", "right"),
        rows,
    )


def quarters(cases: list[Case]) -> list[tuple[str, list[Case]]]:
    """[(range of shares, cases)]: quarters by the share of a report's words in its best entry."""
    catalogue = bundle.load()
    held = {entry.id: frozenset(words(entry.markdown)) for entry in catalogue.entries}
    count: dict[str, int] = {}
    for one in held.values():
        for word in one:
            count[word] = count.get(word, 0) + 1
    common = {word for word, times in count.items() if times > COMMON * len(held)}
    shares = []
    for case in cases:
        said = set(words(case.text)) - common
        entry = held.get(catalogue.current(case.expect[0]), frozenset())
        shares.append((len(said & entry) / max(1, len(said)), case.id, case))
    shares.sort(key=lambda one: one[:2])
    found = []
    for at in range(QUARTERS):
        part = shares[len(shares) * at // QUARTERS : len(shares) * (at + 1) // QUARTERS]
        if part:
            found.append((f"{part[0][0]:.2f} to {part[-1][0]:.2f}", [one[2] for one in part]))
    return found
