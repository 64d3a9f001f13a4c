"""O14: labels that cross entropy can't read."""

import pytest
import torch
from torch import nn
from torch.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    nll_loss,
    one_hot,
)

LOGITS = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
CLASSES = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    "logits, target",
    [
        pytest.param(LOGITS, CLASSES[:, None], id="an extra dimension"),
        pytest.param(LOGITS, CLASSES.float(), id="float class numbers"),
        pytest.param(LOGITS, CLASSES.int(), id="int32 class numbers"),
        pytest.param(LOGITS, one_hot(CLASSES, 3), id="integer one-hot rows"),
        pytest.param(LOGITS, CLASSES + 1, id="classes counted from 1"),
        pytest.param(LOGITS, CLASSES - 1, id="-1 for no label"),
        pytest.param(LOGITS, CLASSES[:3], id="fewer labels than rows"),
        pytest.param(
            torch.randn(2, 5, 7), torch.zeros(2, 5).long(), id="classes in the last dimension"
        ),
        pytest.param(
            torch.randn(2, 5, 4, 4), torch.zeros(2, 1, 4, 4).long(), id="mask with a channel"
        ),
        pytest.param(torch.randn(2, 5, 4, 4), torch.full((2, 4, 4), 255), id="void pixels"),
        pytest.param(
            torch.randn(2, 5, 4, 4), torch.zeros(2, 8, 8).long(), id="mask of another size"
        ),
        pytest.param(
            torch.randn(2 * 6, 5), torch.zeros(2 * 7).long(), id="logits shifted, labels not"
        ),
    ],
)
def test_labels_of_another_form_fail_with_a_signature(says, logits, target):
    with pytest.raises((RuntimeError, IndexError, ValueError)) as error:
        cross_entropy(logits, target)
    says("O14", f"{error.type.__name__}: {error.value}")


def test_one_hot_rows_of_integers_fail_in_nll_loss_too(says):
    with pytest.raises(RuntimeError) as error:
        nll_loss(LOGITS.log_softmax(1), one_hot(CLASSES, 3))
    says("O14", str(error.value))


def test_the_fixes_all_give_the_loss_of_the_right_labels():
    right = cross_entropy(LOGITS, CLASSES)
    torch.testing.assert_close(cross_entropy(LOGITS, CLASSES[:, None].squeeze(1)), right)
    torch.testing.assert_close(cross_entropy(LOGITS, CLASSES.float().long()), right)
    torch.testing.assert_close(cross_entropy(LOGITS, one_hot(CLASSES, 3).argmax(1)), right)
    torch.testing.assert_close(cross_entropy(LOGITS, one_hot(CLASSES, 3).float()), right)


def test_void_pixels_named_as_ignore_index_are_accepted():
    mask = torch.full((2, 4, 4), 255)
    mask[0] = 1
    assert cross_entropy(torch.zeros(2, 5, 4, 4), mask, ignore_index=255).isfinite()


def test_with_as_many_steps_as_classes_a_swapped_dimension_raises_nothing_and_is_wrong():
    logits = torch.randn(2, 7, 7, generator=torch.Generator().manual_seed(0))  # batch, time, class
    target = logits.argmax(-1)
    assert cross_entropy(logits, target) > 1.5 * cross_entropy(logits.transpose(1, 2), target)


def test_one_output_unit_and_float_labels_give_zero_loss_whatever_the_model_says():
    labels = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    assert cross_entropy(100 * LOGITS[:, :1], labels) == 0


def test_a_view_of_the_wrong_size_swallows_the_batch_and_flatten_names_the_layer(says):
    features, layer = torch.randn(4, 16, 45, 45), nn.Linear(400, 3)
    with pytest.raises(ValueError) as error:
        cross_entropy(layer(features.view(-1, 400)), CLASSES)
    says("O14", str(error.value))
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        layer(features.flatten(1))
    assert cross_entropy(nn.Linear(16 * 45 * 45, 3)(features.flatten(1)), CLASSES).isfinite()


def test_binary_scores_want_floats_in_their_own_shape(says):
    scores, target = LOGITS[:, :1], torch.tensor([0, 1, 1, 0])
    with pytest.raises(ValueError) as error:
        binary_cross_entropy_with_logits(scores, target.float())
    says("O14", str(error.value))
    with pytest.raises(ValueError) as error:
        binary_cross_entropy(scores.sigmoid(), target.float())
    says("O14", str(error.value))
    assert binary_cross_entropy_with_logits(scores, target.float().unsqueeze(1)).isfinite()


def test_the_text_about_casting_float_to_long_comes_from_any_operation_in_place_too():
    for call in (
        lambda: binary_cross_entropy_with_logits(LOGITS[:, 0], CLASSES.clamp(max=1)),
        lambda: torch.arange(3).mul_(0.5),
    ):
        with pytest.raises(RuntimeError, match="result type Float can't be cast"):
            call()


@pytest.mark.parametrize(
    "target, right",
    [(CLASSES, True), (CLASSES[:, None], False), (CLASSES.float(), False), (CLASSES + 1, False)],
)
def test_the_check_shows_what_is_off_and_agrees_with_the_loss(printed, target, right):
    text = printed("O14", logits=LOGITS, target=target)
    low, high = map(float, text.split()[-2:])
    healthy = (
        text.startswith("torch.Size([4, 3]) torch.Size([4]) torch.int64") and 0 <= low <= high < 3
    )
    assert healthy == right
    if right:
        cross_entropy(LOGITS, target)
    else:
        with pytest.raises((RuntimeError, IndexError)):
            cross_entropy(LOGITS, target)
