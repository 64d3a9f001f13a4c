"""A matrix as bytes, as matrices.Dense reads them.

127 steps of its largest number either way, with MIDDLE added.
"""

from __future__ import annotations

from array import array

import numpy
from remote_gpu_trainer.retrieval.matrices import MIDDLE


def in_steps(matrix: numpy.ndarray) -> tuple[float, array]:
    """(what one step is worth, the bytes row by row)."""
    scale = float(abs(matrix).max()) / 127
    return scale, array(
        "B", (numpy.rint(matrix / scale).astype(int) + MIDDLE).astype(numpy.uint8).tobytes()
    )
