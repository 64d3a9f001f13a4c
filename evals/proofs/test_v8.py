"""V8: an odd size on the way down doesn't come back; padding to a multiple does."""

import pytest
import torch
import torch.nn.functional as F
from check_code import shown, span

LEVELS = 3


def unet(x):
    skips = []
    for _ in range(LEVELS):
        skips.append(x)
        x = F.max_pool2d(x, 2)
    for skip in reversed(skips):
        x = torch.cat((skip, F.interpolate(x, scale_factor=2)), dim=1)
    return x


def told(x) -> str:
    """What the line of the check prints for these levels."""
    return shown(span("V8", "% 32").replace("32", str(2**LEVELS)), x=x)


def test_a_size_that_is_no_multiple_is_refused_with_the_signature(says):
    x = torch.zeros(1, 1, 37, 40)
    assert told(x) == "torch.Size([1, 1, 37, 40]) [5, 0]"
    with pytest.raises(RuntimeError) as error:
        unet(x)
    says("V8", str(error.value))


def test_padding_to_a_multiple_cures_it():
    x = torch.zeros(1, 1, 37, 40)
    h, w = x.shape[2:]
    m = 2**LEVELS
    padded = F.pad(x, (0, -w % m, 0, -h % m))
    assert unet(padded)[..., :h, :w].shape[2:] == (37, 40)
    assert told(padded) == "torch.Size([1, 1, 40, 40]) [0, 0]"
