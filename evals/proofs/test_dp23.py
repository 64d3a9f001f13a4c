"""DP23: lists of unequal length become no array; padded ones do, and an object array needs the long way."""

import check_code
import numpy as np
import pytest
import torch

RAGGED = [[1, 2], [1, 2, 3]]


def checked(rows):
    """What the entry's check prints for a list."""
    return check_code.shown(check_code.block("DP23"), x=rows)


@pytest.mark.parametrize("rows", [RAGGED, [np.zeros((3, 4)), np.zeros((3, 5))]])
def test_unequal_rows_are_refused_with_the_signature_and_counted_by_the_check(says, rows):
    with pytest.raises(ValueError) as error:
        np.array(rows)
    says("DP23", str(error.value))
    assert checked(rows).count(":") == 2


def test_an_object_array_is_no_tensor_and_padding_makes_one(says):
    held = np.empty(2, dtype=object)
    held[:] = RAGGED
    with pytest.raises(TypeError) as error:
        torch.from_numpy(held)
    says("DP23", str(error.value))
    rows = [torch.tensor(row) for row in RAGGED]
    assert torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).shape == (2, 3)


def test_dtype_object_alone_fails_where_only_the_last_axis_differs():
    with pytest.raises(ValueError, match="could not broadcast"):
        np.array([np.zeros((3, 4)), np.zeros((3, 5))], dtype=object)


@pytest.mark.parametrize("rows", [[[1, 2], [3, 4]], [np.zeros(2), [1, 2]], [1, 2]])
def test_equal_rows_pass_the_check(rows):
    assert checked(rows).count(":") == 1 and "ragged" not in checked(rows)
    assert np.array(rows).dtype != object


def test_a_row_that_is_ragged_inside_is_named_by_the_check():
    with pytest.raises(ValueError):
        np.array([[[1, 2], [3]]])
    assert "ragged inside" in checked([[[1, 2], [3]]])
