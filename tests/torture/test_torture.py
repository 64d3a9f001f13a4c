"""Ten runs of the torture on each change; the whole campaign is recorded."""

import os
from collections import Counter

import pytest

from tests.bench import campaign, faults, shapes

from .draw import draw

SEEDS = range(1000, 1010)


def test_the_draw_has_every_fault_and_shapes_in_their_proportion():
    runs = [draw(seed) for seed in range(2000)]
    assert runs == [draw(seed) for seed in range(2000)]
    drawn = Counter(shape for shape, _, _ in runs)
    assert set(drawn) == {one.name for one in (*shapes.ALL, *shapes.FORMS)}
    assert drawn["hf"] == max(drawn.values())
    named = {name for _, names, _ in runs for name in names}
    assert named == set(faults.BY_NAME) - {"nan"}
    for _, names, _ in runs:
        assert [faults.BY_NAME[name].last for name in names] == [False] * (len(names) - 1) + [True]


@pytest.mark.alone  # it needs both cores
@pytest.mark.timeout(1800)
def test_of_ten_tortured_runs_each_keeps_its_promises(subtests):
    if why := campaign.missing():
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(why)
    runs = [draw(seed) for seed in SEEDS]
    for one in campaign.many(runs, 3 * (os.cpu_count() or 1), None, lambda one: None):
        with subtests.test(one["cell"], seed=one["seed"]):
            assert not one["wrong"] and not one["void"], campaign.line(one)
