"""With the estimate and a margin as the limit: how many runs die, how much is left unused."""

import json

from remote_gpu_trainer.fit import solve
from remote_gpu_trainer.fit.training_memory import GIB
from remote_gpu_trainer.numbers.memory import CONTEXT

from evals.fit import grading
from evals.fit.grading import Margin, Row, grade, halves, margin_for
from tests.conftest import ROOT


def recorded(name: str) -> dict:
    return json.loads((ROOT / f"tests/records/{name}.json").read_text(encoding="utf-8"))


LIMITS, PUBLIC = recorded("fit_limits"), recorded("fit_rows")


def test_no_estimate_is_more_than_5_percent_below_what_an_h100_counted():
    found = grading.limited(LIMITS)
    assert len(found) >= 70
    off = {
        row.name: (row.estimated or 0) / (told["peak"] / GIB) - 1
        for (row, _), told in zip(found, LIMITS["runs"], strict=True)
    }
    assert min(off.values()) > -0.05
    assert sum(abs(one) <= 0.05 for one in off.values()) >= 0.9 * len(off)


def test_with_what_fit_says_as_the_limit_2_percent_die_and_15_are_unused():
    found = grading.limited(LIMITS)
    for checkpointing in (False, True):
        rows = [row for row, run in found if run.checkpointing is checkpointing]
        room = next(
            solve.uncertainty(run) for _, run in found if run.checkpointing == checkpointing
        )
        told = grade(rows, Margin(CONTEXT * (1 + room), room))
        assert told.die <= grading.MAY_DIE * told.rows
        if not checkpointing:  # with it, more has to stay unused
            assert told.unused <= 0.15


def test_rows_of_attention_meet_the_mark_on_the_half_that_set_no_margin():
    rows = [*grading.timm(PUBLIC, False), *grading.encoders(PUBLIC)]
    tuning, graded = halves(rows)
    assert len(tuning) + len(graded) >= 0.8 * len(rows)
    told = grade(graded, margin_for(tuning))
    assert told.unused <= 0.15
    assert told.die <= grading.MAY_DIE * told.rows


def test_a_row_is_in_one_half_whatever_else_is_there():
    rows = [Row(f"row {n}", 1.0, 1.0) for n in range(200)]
    tuning, graded = halves(rows)
    assert len(tuning) + len(graded) == 200 and 70 < len(tuning) < 130
    assert halves(rows[50:])[0] == [row for row in tuning if row in rows[50:]]
    assert halves([Row("row 1", 1.0, None)]) == ([], [])


def test_a_margin_is_the_least_that_lets_so_few_die():
    rows = [Row(str(n), 10.0 + n / 100, 10.0) for n in range(100)]
    margin = margin_for(rows, fixed=0.0)
    assert grade(rows, margin).die <= 2
    assert grade(rows, Margin(0.0, margin.share - 0.01)).die > 2


def test_a_run_that_shows_no_more_than_a_smaller_batch_is_left_out():
    models = {"a": [1, [10, 20, 40, 80, 160], [1000, 2000, 1500, 2100, 39000]]}
    record = {"timm": {"batches": [8, 16, 32, 64, 128], "models": models}}
    assert [row.name for row in grading.timm(record, False)] == ["a 8", "a 16", "a 64"]
    assert grading.timm(record, True) == []
