"""Whether an attempt came further than all before it."""

import pytest
from remote_gpu_trainer.runner import attempts


@pytest.mark.parametrize(
    ("best", "reach", "begins_anew", "is_further"),
    [
        (None, None, True, True),
        (None, 5, True, True),
        (100, 101, True, True),
        (100, 100, False, False),
        (100, 90, False, False),
        (100, None, False, True),
        (100, None, True, False),
        (0, 5, True, False),
        (0, 5, False, True),
    ],
)
def test_only_what_passes_the_old_best_is_further(best, reach, begins_anew, is_further):
    assert attempts.is_further(best, reach, begins_anew) is is_further
