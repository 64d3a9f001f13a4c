"""T10: which helpers leave the search for convolution algorithms off, and how many searches inputs of changing size ask for."""

import pytest
import torch
from torch.nn.functional import pad

LINES = """
import torch
torch.backends.cudnn.benchmark = True
{line}
print(torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)
"""
OPERATORS = """
import torch
names = torch.library.Library("torchvision", "DEF")
for name in ("nms", "qnms"):
    names.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def test_it_is_off_by_default():
    assert torch.backends.cudnn.benchmark is False


@pytest.mark.parametrize(
    "line, kept",
    [
        ("pass", True),
        ("import transformers; transformers.set_seed(1)", True),
        ("import transformers; transformers.enable_full_determinism(1)", False),
    ],
)
def test_a_helper_for_reproducible_runs_switches_it_off_again(run_apart, line, kept):
    done = run_apart(OPERATORS + LINES.format(line=line))
    assert done.stdout.split()[-2:] == [str(kept), str(not kept)], done.stderr


def shapes(sizes, step=None) -> int:
    """The distinct shapes that a convolution meets, each a search of its own."""
    met = set()
    layer = torch.nn.Conv2d(3, 4, 3)
    layer.register_forward_pre_hook(lambda module, inputs: met.add(inputs[0].shape))
    for height, width in sizes:
        x = torch.zeros(1, 3, height, width)
        layer(pad(x, (0, -width % step, 0, -height % step)) if step else x)
    return len(met)


def test_padding_to_a_multiple_leaves_few_shapes():
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(40, 104, (60, 2), generator=generator).tolist()
    assert shapes(sizes) > 50
    assert shapes(sizes, step=64) <= 4
