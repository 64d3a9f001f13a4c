"""T10: which helpers leave the search for convolution algorithms off, and how many searches inputs of changing size ask for."""

import time

import pytest
import torch
from check_code import block, shown
from torch.nn.functional import pad

LINES = """
import torch
torch.backends.cudnn.benchmark = True
{line}
print(torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic)
"""
OPERATORS = """
import torch
if torch.version.cuda is None:  # a CUDA build finds its own
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


@pytest.mark.parametrize("slow_for", ["a new shape", "every third batch"])
def test_the_lines_of_the_check_tell_a_search_from_steps_that_are_slow_for_other_reasons(
    monkeypatch, slow_for
):
    """A clock stands in for time: a slow step is 2.3 seconds, another 0.02."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", slow_for == "a new shape")
    clock, searched, calls = [0.0], set(), []
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3))

    def train_step(batch):
        x = batch["pixel_values"]
        new = x.shape not in searched if torch.backends.cudnn.benchmark else len(calls) % 3 == 2
        clock[0] += 2.3 if new else 0.02
        searched.add(x.shape)
        calls.append(x)
        model(x)

    sides = [32, 32, 64, 32, 64, 96, 96, 32]
    code = shown(
        block("T10"),
        model=model,
        loader=[{"pixel_values": torch.zeros(1, 3, side, side)} for side in sides],
        train_step=train_step,
    )
    assert not any(m._forward_pre_hooks for m in model)
    switched_on, *told = code.splitlines()
    assert switched_on == str(slow_for == "a new shape") and len(told) == len(sides)
    agree = all((line.split()[0] == "new") == (float(line.split()[1]) > 1) for line in told)
    assert agree == (slow_for == "a new shape")
