"""Kinds of fault in runs of 2 to 16 ranks: the rank that failed is named, and its fault explained.

A campaign: with --record all runs are made anew; otherwise their logs are replayed, and a tenth is run
for real. --update writes the page of results again after the ranking changed.
"""

import sys

import pytest

from tests.conftest import ROOT, module

sys.path.insert(0, str(ROOT / "evals"))

from reading import matrix

PAGE = ROOT / "evals" / "reading" / "MATRIX.md"
RANK, NOBODY, ENTRY = 0.97, 1.0, 0.9
RANK_ALONE, ENTRY_ALONE = 0.97, 0.9  # without the launcher's own log


def failures(graded):
    return "\n".join(
        f"{one.cell.name}: rank {one.rank}, {one.ids}" for one in graded if not one.right_rank
    )


@pytest.mark.timeout(7200)
def test_a_tenth_of_the_matrix_run_for_real_names_the_rank(tmp_path, campaign):
    module("torch", "pip install '.[proofs]'")
    told = campaign("matrix")
    cells = matrix.all_cells() if told.recording else matrix.some_cells()
    live = matrix.record_all(cells, tmp_path / "live")
    graded = matrix.grade(live, tmp_path / "logs")
    assert len(graded) == len(cells)
    rank, nobody, _ = matrix.shares(graded)
    assert min(rank, nobody) >= 1 - 1.5 / len(graded), failures(graded)
    told.recorded(live)


def test_in_the_recorded_matrix_ranks_and_entries_are_right(tmp_path, campaign, request):
    logs = campaign("matrix").recorded()
    graded = matrix.grade(logs, tmp_path / "whole")
    alone = matrix.grade(logs, tmp_path / "alone", launcher=False)
    assert len(graded) == len(alone) == len(matrix.all_cells())
    page = matrix.table(graded, alone)
    if request.config.getoption("--record") or request.config.getoption("--update"):
        PAGE.write_text(page, encoding="utf-8")
    rank, nobody, entry = matrix.shares(graded)
    assert (rank >= RANK, nobody >= NOBODY, entry >= ENTRY) == (True,) * 3, failures(graded)
    rank, nobody, entry = matrix.shares(alone)
    assert (rank >= RANK_ALONE, nobody >= NOBODY, entry >= ENTRY_ALONE) == (True,) * 3, failures(
        alone
    )
    assert PAGE.read_text(encoding="utf-8") == page, "run it with --update and read the difference"


def test_the_matrix_has_each_kind_on_each_place_and_half_of_the_kinds_is_kept_out():
    cells = matrix.all_cells()
    assert len(cells) == len({cell.name for cell in cells}) >= 80
    assert {(cell.kind, cell.ranks) for cell in cells} == {
        (kind, ranks) for kind in matrix.KINDS for ranks in (2, 4, 8, 16)
    }
    assert {cell.who for cell in cells if cell.ranks == 8} == {0, 1, 4, 7, None}
    assert [matrix.KINDS[kind][0] for kind in matrix.tuned_kinds()] == [
        "out of memory",
        "SIGKILL",
        "slow rank",
        "exception",
        "full disk",
    ]
    some = matrix.some_cells()
    assert len(some) >= len(cells) // 10 and {cell.kind for cell in some} == set(matrix.KINDS) - {
        "stopped"
    }


@pytest.mark.parametrize(
    ("files", "tells"),
    [
        ({"logs/0/stderr.log": "a 1", "logs/1/stderr.log": "a 1"}, False),
        ({"logs/0/stderr.log": "a [rank0]", "logs/1/stderr.log": "a [rank1]"}, False),
        ({"logs/0/stderr.log": "step 3", "logs/1/stderr.log": "step 4"}, True),
        (
            {
                "logs/0/stderr.log": "",
                "logs/1/stderr.log": "",
                "run.log": "rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 7)",
            },
            True,
        ),
    ],
)
def test_logs_tell_a_rank_only_where_something_sets_it_apart(files, tells):
    assert matrix.tells(matrix.Cell("killed", 0, 2, 0), files) is tells
