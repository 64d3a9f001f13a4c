"""U10: a search for a batch that fits ends at zero when it isn't the batch, and finds one when it is."""

import pytest
from check_code import span
from smi_capture import smi
from stub_box import Box

find = pytest.importorskip("accelerate.utils.memory").find_executable_batch_size
TEXT = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"


def search(fits: int) -> int:
    """The batch that the search ends with on a card for `fits` samples."""

    def train(batch_size):
        if batch_size > fits:
            raise RuntimeError(TEXT)
        return batch_size

    return find(train, starting_batch_size=4)()


def test_one_sample_that_fails_too_ends_at_zero_with_the_signature(says):
    with pytest.raises(RuntimeError) as error:
        search(0)
    says("U10", f"RuntimeError: {error.value}")


def test_a_batch_that_was_too_large_is_made_smaller_until_it_fits():
    assert 0 < search(2) <= 2


def test_another_error_is_raised_and_not_searched_around():
    def train(batch_size):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        find(train, starting_batch_size=64)()


@pytest.mark.parametrize(
    ("used", "other"), [("60211 MiB", True), ("4 MiB", False)], ids=["another process", "empty"]
)
def test_the_check_shows_memory_that_is_taken_before_the_start(tmp_path, used, other):
    """Rows of a capture from H100s; an idle card has a few MiB of the driver's."""
    box = Box(tmp_path)
    smi(box, "h100x8", memory_used={0: used})
    row = box.said(span("U10", "--query-gpu")).splitlines()[1].split(", ")
    assert row[0] == "0" and row[2] == "81559 MiB"
    assert (int(row[1].split()[0]) > 1024) is other
