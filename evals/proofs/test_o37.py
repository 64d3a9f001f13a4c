"""O37: a label that has no room in the frames has no alignment, so its loss is infinite."""

import re

import pytest
import torch
from check_code import shown, span
from remote_gpu_trainer.catalogue import bundle

FRAMES = 5


def batch(*labels):
    torch.manual_seed(0)
    width = max(map(len, labels))
    return {
        "log_probs": torch.randn(FRAMES, len(labels), 9).log_softmax(-1),
        "targets": torch.tensor([list(t) + [0] * (width - len(t)) for t in labels]),
        "input_lengths": torch.full((len(labels),), FRAMES),
        "target_lengths": torch.tensor([len(t) for t in labels]),
    }


def test_the_line_names_the_sample_that_is_too_long():
    told = shown(span("O37", "ctc_loss("), torch=torch, **batch([1, 2, 3, 4, 5, 6], [1, 2]))
    assert told == "[True, False] [5, 5] [6, 2]"


def test_the_gradient_is_nan_and_zero_infinity_leaves_the_sample_out():
    for zero, finite in ((False, False), (True, True)):
        given = batch([1, 2, 3, 4, 5, 6], [1, 2])
        given["log_probs"].requires_grad_()
        loss = torch.nn.functional.ctc_loss(**given, zero_infinity=zero)
        loss.backward()
        assert bool(loss.isfinite()) == finite
        assert bool(given["log_probs"].grad.isfinite().all()) == finite


@pytest.mark.parametrize(
    "label", [[1, 2, 3, 4, 5], [1, 1, 2, 3], [1, 1, 2, 2], [1, 1, 1, 2], [1, 1, 1]]
)
def test_a_label_needs_a_frame_each_and_one_between_equal_neighbours(label):
    [rule] = re.findall(r"needs `([^`]*)` frames", bundle.load().get("O37").fix)
    fits = eval(rule, {"t": label}) <= FRAMES
    loss = torch.nn.functional.ctc_loss(**batch(label))
    assert bool(loss.isfinite()) == fits
