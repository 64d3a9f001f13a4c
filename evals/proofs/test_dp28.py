"""DP28: pieces of a column join up to 2 GiB. The pieces here are empty maps, so nothing of that size is ever filled."""

import mmap
import os

import numpy
import pytest

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
LIMIT = 2**31 - 1


def piece(rows, size, kind=None):
    """A column of this many rows of this many bytes."""
    offsets = numpy.arange(rows + 1, dtype=numpy.int64) * size
    room = pa.py_buffer(mmap.mmap(-1, rows * size))
    return pa.Array.from_buffers(
        kind or pa.binary(), rows, [None, pa.py_buffer(offsets.astype(numpy.int32)), room]
    )


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()], ids=str)
def test_pieces_beyond_two_gib_are_refused_with_the_signature(says, kind):
    rows, size = 500, LIMIT // 1000 + 1
    with pytest.raises(pa.ArrowInvalid) as error:
        pa.concat_arrays([piece(rows, size, kind), piece(rows, size, kind)])
    says("DP28", str(error.value))


def test_lists_of_numbers_count_elements(says):
    room = pa.Array.from_buffers(pa.uint8(), 2**30, [None, pa.py_buffer(mmap.mmap(-1, 2**30))])
    row = pa.ListArray.from_arrays(pa.array([0, 2**30], pa.int32()), room)
    with pytest.raises(pa.ArrowInvalid) as error:
        pa.concat_arrays([row, row])
    says("DP28", str(error.value))


def test_a_column_of_arrow_strings_in_pandas_stops_when_rows_are_taken_from_it(says):
    pandas = pytest.importorskip("pandas")
    half = piece(500, LIMIT // 1000 + 1, pa.string())
    column = pandas.Series(pandas.arrays.ArrowExtensionArray(pa.chunked_array([half, half])))
    with pytest.raises(pa.ArrowInvalid) as error:
        column.iloc[[0, 999]]
    says("DP28", str(error.value))


@pytest.mark.parametrize("size, too_much", [(2_200_000, True), (200_000, False)])
def test_the_line_of_the_check_is_at_two_gib_where_a_thousand_such_rows_are(
    printed, size, too_much
):
    image = datasets.Features(image=datasets.Image())
    one = datasets.Dataset.from_dict(
        {"image": [{"bytes": os.urandom(size), "path": None}]}, features=image
    )
    told, unit = printed("DP28", ds=one.select([0] * 1200), datasets=datasets).split()
    assert unit == "GiB" and float(told) == pytest.approx(1000 * size / 2**30, rel=0.01)
    assert (float(told) >= 2) == too_much == (1000 * size > LIMIT)


def test_the_line_of_the_check_runs_on_a_small_set_and_on_images_that_are_paths(printed):
    paths = datasets.Dataset.from_dict(
        {"image": ["1.jpg", "2.jpg"]}, features=datasets.Features(image=datasets.Image())
    )
    assert printed("DP28", ds=paths, datasets=datasets) == "0.0 GiB"
