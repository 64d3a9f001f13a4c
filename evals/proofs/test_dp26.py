"""DP26: a convolution names the channels that it takes and those that came."""

import re

import pytest
import torch

CONV = torch.nn.Conv2d(3, 64, 7)


@pytest.mark.parametrize("shape", [(8, 1, 32, 32), (8, 4, 32, 32), (8, 32, 32, 3)])
def test_another_number_of_channels_is_refused_with_the_signature(says, shape):
    with pytest.raises(RuntimeError) as error:
        CONV(torch.zeros(shape))
    says("DP26", str(error.value))


@pytest.mark.parametrize("shape", [(8, 1, 32, 32), (8, 4, 32, 32), (8, 32, 32, 3), (8, 3, 32, 32)])
def test_the_line_of_the_check_shows_two_numbers_that_agree_only_where_the_layer_runs(
    printed, shape
):
    told = printed(
        "DP26", torch=torch, model=torch.nn.Sequential(CONV), loader=[(torch.zeros(shape), None)]
    )
    came, taken = re.fullmatch(r"torch\.Size\(\[\d+, (\d+), \d+, \d+\]\) (\d+)", told).groups()
    assert (came == taken) == (shape[1] == 3)


def test_expanding_gray_and_moving_the_axis_cure_it():
    gray, last = torch.zeros(8, 1, 32, 32), torch.zeros(8, 32, 32, 3)
    for x in (gray.expand(-1, 3, -1, -1), last.permute(0, 3, 1, 2)):
        assert CONV(x).shape == (8, 64, 26, 26)
