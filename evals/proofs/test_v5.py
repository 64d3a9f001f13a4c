"""V5: void and shifted labels in segmentation."""

import pytest
import torch
from torch.nn.functional import cross_entropy

CLASSES = 3
MASK = torch.tensor(
    [[0, 0, 1, 1], [0, 2, 2, 1], [255, 255, 2, 1]]
)  # 255: the border, nobody labelled it
PERFECT = MASK.clone()
PERFECT[MASK == 255] = 1  # the model must say something there


def iou_of(predicted, labels, ignore=255):
    """IoU of each class; NaN for a class that neither the labels nor the prediction hold."""
    valid = labels != ignore
    predicted, labels = predicted[valid], labels[valid]
    same = [((predicted == c) & (labels == c)).sum() for c in range(CLASSES)]
    either = [((predicted == c) | (labels == c)).sum() for c in range(CLASSES)]
    return torch.stack(same) / torch.stack(either)


def test_a_perfect_prediction_scores_1_when_void_is_left_out_and_less_when_it_is_counted():
    assert iou_of(PERFECT, MASK).tolist() == [1, 1, 1]
    assert iou_of(PERFECT, MASK, ignore=-1)[1] == pytest.approx(4 / 6)


def test_void_in_the_loss_is_out_of_range_unless_it_is_named():
    logits = torch.zeros(1, CLASSES, 3, 4)
    with pytest.raises(IndexError, match="Target 255 is out of bounds"):
        cross_entropy(logits, MASK[None])
    assert cross_entropy(logits, MASK[None], ignore_index=255).isfinite()


def test_a_crop_of_nothing_but_void_makes_the_loss_nan():
    assert cross_entropy(
        torch.zeros(1, CLASSES, 3, 4), torch.full((1, 3, 4), 255), ignore_index=255
    ).isnan()


def test_an_object_painted_with_255_is_ignored_and_its_class_scores_nan():
    painted = torch.tensor([[0, 0, 255, 255], [0, 0, 255, 255]])
    everything_background = torch.zeros_like(painted)
    scores = iou_of(everything_background, painted)
    assert scores[0] == 1  # background looks perfect
    assert scores[1:].isnan().all()
    assert (
        iou_of(torch.where(painted == 255, 1, 0), torch.where(painted == 255, 1, 0))[1] == 1
    )  # repainted to 1


def test_labels_reduced_by_one_for_the_loss_but_not_for_the_metric_score_0():
    predicted = torch.where(MASK == 255, 0, MASK - 1).clamp(
        min=0
    )  # learned on labels 0…C-1 that were 1…C
    assert iou_of(predicted[1:], MASK[1:])[2] == 0
    reduced = torch.where(MASK == 255, 255, MASK - 1)
    reduced[MASK == 0] = 255
    assert iou_of(predicted, reduced)[:2].tolist() == [1, 1]


def test_in_8_bits_0_minus_1_is_255_so_reducing_twice_throws_a_class_away():
    mask = torch.tensor([0, 1, 2], dtype=torch.uint8)
    once = mask - 1
    assert once.tolist() == [255, 0, 1]
    assert (once - 1).tolist() == [254, 255, 0]


def test_smooth_resizing_invents_classes_and_nearest_does_not():
    mask = torch.tensor([[0.0, 2.0]])[None, None]
    smooth = torch.nn.functional.interpolate(mask, size=(1, 8), mode="bilinear").round().unique()
    nearest = torch.nn.functional.interpolate(mask, size=(1, 8), mode="nearest").unique()
    assert 1 in smooth.tolist() and nearest.tolist() == [0, 2]


def test_the_mean_over_images_differs_from_the_mean_over_the_pixels_of_all():
    empty = iou_of(torch.zeros(2, 2).long(), torch.zeros(2, 2).long())  # an image without objects
    assert empty[1:].isnan().all()
    assert empty.nan_to_num(0).mean() < 0.4 and empty.nanmean() == 1


def test_the_check_shows_every_class_with_pixels_or_an_object_that_is_void(printed):
    assert printed("V5", torch=torch, mask=MASK).startswith("(tensor([  0,   1,   2, 255])")
    painted = torch.where(MASK == 0, 0, 255)
    assert printed("V5", torch=torch, mask=painted).startswith("(tensor([  0, 255])")
