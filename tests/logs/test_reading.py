"""Logs of real failures of several ranks, and failures within long logs: the right rank and line are named.

Forty runs and twenty logs of a gigabyte take minutes, so they are campaigns: run whole with --record,
replayed otherwise, with every tenth of them run for real.
"""

import os
import sys

import pytest

from tests.conftest import ROOT

sys.path.insert(0, str(ROOT / "evals"))

from reading import long, runs

RIGHT_RANK, RIGHT_LINE = 0.95, 0.90


def wrong_and_unexplained(graded):
    wrong = [f"{run.name}: found rank {named}" for run, named, _ in graded if named != run.who]
    unexplained = [
        f"{run.name}: found {ids}"
        for run, _, ids in graded
        if run.how in runs.ENTRIES and ids[:1] != [runs.ENTRIES[run.how]]
    ]
    return wrong, unexplained


@pytest.mark.timeout(1800)
def test_of_forty_runs_under_torchrun_the_rank_that_failed_first_is_named_and_its_failure_explained(
    tmp_path, campaign
):
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        missing = "torch is not installed: pip install '.[proofs]'"
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(missing)
    told = campaign("forty_runs")
    live = runs.record_all(told.live(runs.all_runs()), tmp_path / "live")
    wrong, unexplained = wrong_and_unexplained(runs.grade(live, tmp_path / "logs"))
    assert live and len(wrong) <= len(live) * (1 - RIGHT_RANK), "\n".join(wrong)
    assert not unexplained, "\n".join(unexplained)
    told.recorded(live)


def test_the_rank_that_failed_first_is_named_in_forty_recorded_runs(tmp_path, campaign):
    graded = runs.grade(campaign("forty_runs").recorded(), tmp_path)
    wrong, unexplained = wrong_and_unexplained(graded)
    assert len(graded) == 40
    assert len(wrong) <= len(graded) * (1 - RIGHT_RANK), "\n".join(wrong)
    assert not unexplained, "\n".join(unexplained)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("megabytes", long.SIZES_MB)
def test_the_decisive_line_of_twenty_long_logs_is_among_those_shown(megabytes, campaign):
    told = campaign(f"long_logs_{megabytes}_mb")
    numbers = list(range(len(long.failures())))
    graded = long.grade(megabytes, numbers if megabytes == 1 else told.live(numbers))
    missed = [f"{failure.name} at {place}" for failure, place, found in graded if found is None]
    assert graded and len(missed) <= len(graded) * (1 - RIGHT_LINE), "\n".join(missed)
    results = told.recorded([[failure.name, place, found] for failure, place, found in graded])
    assert len(results) == 20
    assert sum(found is None for _, _, found in results) <= len(results) * (1 - RIGHT_LINE)


def test_the_runs_cover_every_way_to_fail_with_two_to_four_ranks():
    found = runs.all_runs()
    assert len({run.name for run in found}) == 40
    assert {(run.how, run.ranks) for run in found} == {
        (how, ranks) for how in runs.HOWS for ranks in (2, 3, 4)
    }
    assert {run.form for run in found} == {"merged", "folder", "tee"}
    assert {run.says for run in found} == {"ranks", "plain"}
