"""DP26: a convolution names the channels that it takes and those that came."""

import pytest
import torch

CONV = torch.nn.Conv2d(3, 64, 7)


@pytest.mark.parametrize("shape", [(8, 1, 32, 32), (8, 4, 32, 32), (8, 32, 32, 3)])
def test_another_number_of_channels_is_refused_with_the_signature(says, shape):
    with pytest.raises(RuntimeError) as error:
        CONV(torch.zeros(shape))
    says("DP26", str(error.value))
    assert shape[1] != CONV.in_channels


def test_expanding_gray_and_moving_the_axis_cure_it():
    gray, last = torch.zeros(8, 1, 32, 32), torch.zeros(8, 32, 32, 3)
    for x in (gray.expand(-1, 3, -1, -1), last.permute(0, 3, 1, 2)):
        assert CONV(x).shape == (8, 64, 26, 26)
