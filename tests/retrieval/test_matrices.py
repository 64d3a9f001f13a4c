"""Sums by long integers are the sums that loops would give, up to the largest weights and the most rows."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_gpu_trainer.retrieval import matrices
from remote_gpu_trainer.retrieval.matrices import MIDDLE, STEPS, Dense, Sparse

COLUMNS = 5
ROWS = st.lists(
    st.lists(st.integers(-127, 127), min_size=COLUMNS, max_size=COLUMNS), min_size=1, max_size=8
)


def both(rows: list[list[int]], scale: float = 0.25) -> tuple[Sparse, Dense]:
    starts, places, values = array("I", [0]), array("H"), array("b")
    for row in rows:
        for column, value in enumerate(row):
            if value:
                places.append(column)
                values.append(value)
        starts.append(len(places))
    return Sparse(starts, places, values, COLUMNS, scale), Dense(
        bytes(v + MIDDLE for row in rows for v in row), COLUMNS, scale
    )


@given(ROWS, st.lists(st.tuples(st.integers(0, 7), st.integers(0, 3000)), max_size=30))
@settings(max_examples=200, deadline=None)
def test_sums_and_single_coefficients_are_those_of_plain_loops(rows, weighted):
    weighted = [(row % len(rows), weight) for row, weight in weighted]
    rows_asked, weights = [row for row, _ in weighted], [weight for _, weight in weighted]
    expected = [
        sum(rows[row][column] * weight for row, weight in weighted) * 0.25 / STEPS
        for column in range(COLUMNS)
    ]
    for matrix in both(rows):
        assert matrix.sums(rows_asked, weights) == pytest.approx(expected)
        rows_of: dict[int, list[int]] = {}
        for row, weight in weighted:
            rows_of.setdefault(weight, []).append(row)
        assert matrix.sums_alike(rows_of.items()) == matrix.sums(rows_asked, weights)
        assert [matrix.at(0, column) for column in range(COLUMNS)] == [
            value * 0.25 for value in rows[0]
        ]


def test_five_thousand_rows_of_the_largest_weight_and_value_do_not_run_over():
    for matrix in both([[127, -127, 127, 0, -127]], scale=1.0):
        assert (
            matrix.sums([0] * 5000, [3000] * 5000)
            == matrix.sums_alike([(3000, [0] * 5000)])
            == [127 * 15000.0, -127 * 15000.0, 127 * 15000.0, 0.0, -127 * 15000.0]
        )


def test_a_row_after_the_last_one_of_a_dense_matrix_adds_nothing():
    _, dense = both([[1, 2, 3, 4, 5]])
    assert dense.sums([7], [1000]) == [0.0] * COLUMNS and dense.at(7, 2) == 0.0


def test_rows_are_forgotten_when_they_take_too_much_memory(monkeypatch):
    monkeypatch.setattr(matrices, "MOST_BYTES", 3 * COLUMNS * matrices.LANE)
    _, dense = both([[value] * COLUMNS for value in range(1, 9)])
    assert dense.sums(range(8), [STEPS] * 8) == pytest.approx([36 * 0.25] * COLUMNS)
    assert dense._row.cache_info().currsize <= 3
