"""A root text stands for one cause: healthy logs hold none, nor do reports of the entries beside its own.

known_matches.tsv has the exceptions, each with a reason: `where` is a healthy log, or the id of a report.
"""

import csv
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from remote_gpu_trainer.catalogue import bundle
from remote_gpu_trainer.catalogue.signatures import SignatureIndex
from remote_gpu_trainer.logs import reading

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from grading.cases import read_cases
from grading.unseen import together

SETS = ROOT / "evals/sets"
HEALTHY = sorted([*SETS.glob("healthy_logs/*.log"), *SETS.glob("good_runs/*.log")])
LABELLED = (
    ROOT / "evals/cases.jsonl",
    *(SETS / f"{n}.jsonl" for n in ("fresh", "waiting", "by_time")),
)
KNOWN = list(csv.DictReader(
    Path(__file__).with_name("known_matches.tsv").read_text(encoding="utf-8").splitlines(), delimiter="\t"
))  # fmt: skip


@cache
def root_texts() -> SignatureIndex:
    return SignatureIndex(
        [
            (entry.id, [text for text in entry.signatures if text.role == "root"])
            for entry in bundle.load().entries
        ]
    )


def found_in(evidence) -> set[str]:
    """The entries of which a root text is in these lines."""
    return {hit.entry_id for hit in root_texts().find(evidence)}


@cache
def beside() -> dict[str, set[str]]:
    """{id: the entries that it is told apart from, or that are told apart from it}."""
    known, found = bundle.load(), defaultdict(set)
    for entry in known.entries:
        for other, _ in entry.tell_apart:
            found[entry.id].add(known.current(other))
            found[known.current(other)].add(entry.id)
    return found


@cache
def matches_of_neighbours() -> dict[str, set[str]]:
    """{report: the neighbours of its entries that have a root text in it}."""
    current, found = bundle.load().current, {}
    for case in together({str(path): read_cases(path) for path in LABELLED}):
        right = set(map(current, case.expect))
        near = set().union(*(beside()[name] for name in right)) - right
        wrong = found_in(reading.from_text(case.text)) & near if near else set()
        if wrong:
            found[case.id] = wrong
    return found


def test_there_are_sixty_four_healthy_logs():
    assert len(HEALTHY) >= 64


@pytest.mark.parametrize("part", range(4))
def test_no_root_text_is_in_a_healthy_log(part):
    for path in HEALTHY[part::4]:
        known = {row["entry"] for row in KNOWN if row["where"] == path.name}
        assert found_in(reading.from_path(str(path))) == known, path.name


def test_no_root_text_is_in_a_report_of_a_neighbour_alone():
    known = defaultdict(set)
    for row in KNOWN:
        if not row["where"].endswith(".log"):
            known[row["where"]].add(row["entry"])
    assert matches_of_neighbours() == known


def test_the_search_would_see_a_root_text_in_either(tmp_path):
    """Each log and report is searched as a look-up searches it, so a text put into one is found."""
    path = tmp_path / "healthy.log"
    path.write_text(
        HEALTHY[0].read_text(encoding="utf-8")
        + "\nMemoryError: Unable to allocate 12.0 GiB for an array\n",
        encoding="utf-8",
    )
    assert "U54" in found_in(reading.from_path(str(path)))


def test_every_exception_has_a_reason_and_is_still_one():
    healthy = {path.name for path in HEALTHY}
    for row in KNOWN:
        assert len(row["reason"].split()) >= 4, row
        assert row["where"] in healthy or row["where"] in matches_of_neighbours(), row
