"""V3: boxes and labels that the evaluation reads another way."""

import pytest
import torch
from check_code import shown, span
from torchvision.ops import box_iou

TRUTH = torch.tensor(
    [[10.0, 20, 110, 220], [200, 50, 300, 90], [40, 300, 120, 380]]
)  # xyxy, pixels of the full image
LABELS = torch.tensor([1, 2, 3])


def iou(a, b):
    """Overlap of boxes in xyxy, row by row."""
    top, bottom = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
    inside = (bottom - top).clamp(min=0).prod(1)
    size = lambda box: (box[:, 2:] - box[:, :2]).clamp(min=0).prod(1)
    return inside / (size(a) + size(b) - inside).clamp(min=1e-9)


def found(boxes, labels=LABELS, threshold=0.5):
    """Share of the true objects that a prediction of the same class overlaps enough: recall, which bounds mAP."""
    return ((iou(boxes, TRUTH) >= threshold) & (labels == LABELS)).float().mean().item()


def xywh(boxes):
    return torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], 1)


def cxcywh(boxes):
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


def test_perfect_boxes_in_the_format_that_is_expected_are_all_found():
    assert found(TRUTH) == 1


@pytest.mark.parametrize(
    "boxes",
    [xywh(TRUTH), cxcywh(TRUTH), TRUTH / 640, TRUTH * 0.5, TRUTH[:, [1, 0, 3, 2]]],
    ids=["xywh", "cxcywh", "normalised", "of the resized image", "y before x"],
)
def test_the_same_boxes_written_another_way_are_hardly_found(boxes):
    assert found(boxes) < 0.34


def test_labels_that_count_from_another_number_match_nothing():
    assert found(TRUTH, LABELS - 1) == 0
    assert found(TRUTH, LABELS + 1) == 0


def test_leaving_the_class_out_of_the_comparison_shows_that_the_boxes_are_sound():
    wrong = LABELS + 1
    assert found(TRUTH, wrong) == 0
    assert (iou(TRUTH, TRUTH) >= 0.5).all()


def test_a_predicted_box_read_in_each_format_shows_which_one_it_is():
    read = {
        "xyxy": lambda box: box,
        "xywh": lambda box: torch.cat([box[:, :2], box[:, :2] + box[:, 2:]], 1),
        "cxcywh": lambda box: torch.cat(
            [box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1
        ),
    }
    for name, written in {"xyxy": TRUTH, "xywh": xywh(TRUTH), "cxcywh": cxcywh(TRUTH)}.items():
        overlaps = {
            other: iou(convert(written), TRUTH).mean().item() for other, convert in read.items()
        }
        assert max(overlaps, key=overlaps.get) == name and overlaps[name] > 0.99


def test_boxes_in_xywh_make_negative_sizes_when_they_are_read_as_xyxy():
    sizes = xywh(TRUTH)[:, 2:] - xywh(TRUTH)[:, :2]
    assert (sizes <= 0).any()


def test_a_background_row_moves_every_class_by_one():
    logits = torch.zeros(1, 4)
    logits[0, 2] = 5.0  # background, then three classes: this is the second of them
    assert logits.argmax(1).item() == 2
    assert logits[:, 1:].argmax(1).item() == 1


def test_the_check_tells_an_unsound_evaluation_wrong_labels_and_wrong_boxes_apart():
    """The truth scored as prediction; the predictions with classes; those that the line finds without."""

    def told(predicted, labels, written=lambda box: box):
        code = span("V3", "box_iou(true_boxes")
        without = shown(code, true_boxes=TRUTH, boxes=predicted, box_iou=box_iou)
        return found(written(TRUTH)) == 1, found(predicted, labels), float(without)

    assert told(TRUTH, LABELS) == (True, 1, 1)
    assert told(TRUTH, LABELS - 1) == (True, 0, 1)  # labels
    assert told(TRUTH / 640, LABELS) == (True, 0, 0)  # boxes
    assert not told(TRUTH, LABELS, written=xywh)[0]  # the evaluation itself reads them wrongly
