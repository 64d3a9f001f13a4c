"""L5: rotary positions beyond the trained context."""

import ast
import math
from types import SimpleNamespace

import pytest
import torch
from check_code import shown, span

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


def test_a_setting_without_its_theta_fails_with_the_signature_and_the_check_shows_it(
    small_llama, says
):
    from transformers import LlamaForCausalLM

    def told():
        return shown(span("L5", "rope_parameters"), model=SimpleNamespace(config=small_llama))

    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    small_llama.max_position_embeddings = 128
    before = told()
    small_llama.rope_parameters.update(yarn)
    trained = told()
    LlamaForCausalLM(small_llama)
    assert "'rope_theta': 10000.0" in trained and before != trained
    small_llama.rope_parameters = yarn
    with pytest.raises(TypeError) as error:
        LlamaForCausalLM(small_llama)
    says("L5", str(error.value))
    assert "'rope_theta': None" in told()


SLOW, LONG = 128, 512  # the one pair of dimensions turns once in the trained length
TEXT = torch.randint(0, 8, (LONG // 64,), generator=torch.Generator().manual_seed(3))
IDS = TEXT.repeat_interleave(64)[None]  # the next token is nearly always the last one again


def attends_to_the_nearest(angle):
    """Logits of one head whose score of a pair of tokens is the cosine of their distance times the angle."""
    place = torch.arange(LONG)
    scores = 40 * ((place[:, None] - place[None]) * angle).cos()
    weights = scores.masked_fill(place[None] > place[:, None], -torch.inf).softmax(1)
    return (weights @ torch.nn.functional.one_hot(IDS[0], 8).float() + 1e-4).log()[None]


def by_position(logits) -> list[float]:
    """What the line of the check prints, in parts of the trained length."""
    line = span("L5", ".split(1024)").replace("1024", str(SLOW))
    told = shown(line, cross_entropy=torch.nn.functional.cross_entropy, logits=logits, ids=IDS)
    return ast.literal_eval(told)


def test_the_check_jumps_at_the_trained_length_unless_the_angle_is_scaled():
    angle = 2 * math.pi / SLOW
    first, *later = by_position(attends_to_the_nearest(angle))
    assert min(later) > first + 0.3
    first, *later = by_position(attends_to_the_nearest(angle * SLOW / LONG))
    assert max(later) < first + 0.3
    shuffled = attends_to_the_nearest(angle * SLOW / LONG)[..., torch.randperm(8)]
    assert min(by_position(shuffled)) > first + 1  # bad from the start
