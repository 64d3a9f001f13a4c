"""Cells of the table, others on each day, for some five minutes; the whole table: python -m tests.bench --record FILE."""

import os
import random
import time
from datetime import date

import pytest

from . import campaign, faults, shapes

SECONDS = 3 * 60  # no cell begins later; the last has ended two minutes after
SIDE_BY_SIDE = 4 * (os.cpu_count() or 1)  # they wait most of the time


@pytest.mark.alone  # it takes both cores
@pytest.mark.timeout(1200)
def test_of_the_cells_of_the_day_each_keeps_its_promises(subtests):
    if why := campaign.missing():
        (pytest.fail if os.environ.get("REQUIRE_ENGINES") else pytest.skip)(why)
    seed = int(os.environ.get("BENCH_SEED") or date.today().toordinal())
    here = [shape for shape in shapes.REAL if shapes.can_run(shape)]
    assert here == list(shapes.REAL) or not os.environ.get("REQUIRE_ENGINES")
    real = [(shape.name, ["kill"], seed) for shape in here]
    table = [(shape.name, [fault], seed) for shape in shapes.ALL for fault in faults.TABLE]
    cells = [*real, *random.Random(seed).sample(table, len(table))]
    until = time.monotonic() + SECONDS
    found = campaign.many(cells, SIDE_BY_SIDE, None, lambda one: None, until)
    for one in found:
        with subtests.test(one["cell"], seed=seed):
            assert not one["wrong"] and not one["void"], campaign.line(one)
    assert len(found) > SIDE_BY_SIDE
