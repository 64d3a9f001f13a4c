"""R6: how much a few seeds say."""

import contextlib
import io

import numpy
import pytest
import torch
from check_code import block, shown, span

GENERATOR = torch.Generator().manual_seed(0)


def returns(runs, seeds):
    """Seeds of one algorithm: most learn and end near 3000, three in ten get stuck near 1000."""
    stuck = torch.rand(runs, seeds, generator=GENERATOR) < 0.3
    return torch.where(stuck, 1000.0, 3000.0) + 300 * torch.randn(runs, seeds, generator=GENERATOR)


def share_that_looks_ten_percent_better(seeds, runs=5000):
    a, b = returns(runs, seeds).mean(1), returns(runs, seeds).mean(1)
    return (b > 1.1 * a).double().mean().item()


def test_with_one_seed_each_the_same_algorithm_beats_itself_by_ten_percent_in_a_third_of_the_cases():
    assert 0.27 < share_that_looks_ten_percent_better(1) < 0.45


def test_five_seeds_still_mislead_and_thirty_hardly_do():
    assert share_that_looks_ten_percent_better(5) > 0.25
    assert share_that_looks_ten_percent_better(30) < 0.22
    assert share_that_looks_ten_percent_better(100) < 0.06


def test_the_best_of_five_seeds_hides_the_runs_that_got_stuck():
    runs = returns(2000, 5)
    assert runs.max(1).values.mean() > 1.25 * runs.mean()


def interquartile_mean(values):
    ordered = values.sort(-1).values
    quarter = values.shape[-1] // 4
    return ordered[..., quarter : values.shape[-1] - quarter].mean(-1)


def test_the_interquartile_mean_is_moved_less_by_one_wild_run_than_the_mean():
    clean = 3000 + 100 * torch.randn(10, generator=GENERATOR)
    wild = clean.clone()
    wild[0] = 30_000
    assert (wild.mean() - clean.mean()).abs() > 2000
    assert (interquartile_mean(wild) - interquartile_mean(clean)).abs() < 200


def test_a_bootstrap_interval_of_five_seeds_is_as_wide_as_the_effect_people_claim():
    runs = returns(200, 5)
    draws = torch.randint(0, 5, (1000, 5), generator=GENERATOR)
    means = runs[:, draws].mean(-1)
    width = means.quantile(0.975, 1) - means.quantile(0.025, 1)
    assert (width / runs.mean(1)).median() > 0.2


def test_paired_seeds_of_the_environment_do_not_pair_the_results():
    a, b = returns(5000, 1)[:, 0], returns(5000, 1)[:, 0]
    assert abs(torch.corrcoef(torch.stack([a, b]))[0, 1]) < 0.05


@pytest.mark.parametrize(("gain", "decided"), [(0.0, False), (3000.0, True)])
def test_the_code_of_the_entry_leaves_out_0_only_for_a_large_effect(gain, decided):
    code = block("R6", "fix")
    a, b = returns(2, 10).numpy()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        numpy.random.seed(0)
        exec(code, {"numpy": numpy, "final_a": a, "final_b": b + gain})
    low, high = map(float, out.getvalue().strip("[] \n").split())
    assert (low > 0) == decided and high > 0


@pytest.mark.parametrize("gain", [0.0, 300.0, 4000.0])
def test_the_check_compares_the_baselines_own_range_with_the_gain(gain):
    a, b = returns(2, 5).numpy()
    told = shown(span("R6", "numpy.ptp"), numpy=numpy, final_a=a, final_b=b + gain)
    own, gained = map(float, told.split())
    assert (gained > own) == (gain == 4000)
