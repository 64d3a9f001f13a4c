"""L5: rotary positions beyond the trained context."""

import math

import pytest
import torch

HEAD, THETA, TRAINED, LONGER = 64, 10_000.0, 2048, 8192
FACTOR = LONGER / TRAINED


def frequencies(theta=THETA):
    return 1.0 / theta ** (torch.arange(0, HEAD, 2) / HEAD)


def linear():
    return frequencies() / FACTOR


def yarn(fast=32, slow=1):
    """Fast-turning dimensions stay, slow ones are divided by the factor, those between are blended."""
    turns = TRAINED * frequencies() / (2 * math.pi)  # full rotations within the trained context
    keep = ((turns.log() - math.log(slow)) / math.log(fast / slow)).clamp(0, 1)
    return frequencies() * keep + linear() * (1 - keep)


def unseen(inv_freq):
    """Dimensions whose angle at the longer context is one that never occurred in training."""
    turned_fully = TRAINED * frequencies() >= 2 * math.pi  # saw every angle already
    return int(((LONGER - 1) * inv_freq > TRAINED * frequencies())[~turned_fully].sum())


def test_a_quarter_of_the_dimensions_meets_angles_that_never_occurred_in_training():
    slow = int((TRAINED * frequencies() < 2 * math.pi).sum())
    assert slow > HEAD // 2 / 4
    assert unseen(frequencies()) == slow


def test_with_linear_scaling_no_angle_is_new():
    assert unseen(linear()) == 0


def test_yarn_brings_the_slow_dimensions_back_and_leaves_the_fast_ones_alone():
    assert unseen(yarn()) == 0
    torch.testing.assert_close(yarn()[:4], frequencies()[:4])
    assert (linear()[:4] == frequencies()[:4] / FACTOR).all()  # linear blurs neighbouring tokens


def test_scaling_changes_short_texts_too_so_training_and_inference_must_agree():
    assert ((100 * frequencies()).cos() - (100 * linear()).cos()).abs().max() > 1


def test_another_theta_is_another_encoding():
    assert ((100 * frequencies()).cos() - (100 * frequencies(1e6)).cos()).abs().max() > 1


def test_a_config_whose_theta_got_lost_fails_with_the_signature(says):
    with pytest.raises(TypeError) as error:
        None ** torch.arange(0, HEAD, 2)
    says("L5", str(error.value))
