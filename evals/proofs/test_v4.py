"""V4: boxes that a threshold, the suppression or the anchors lose."""

import pytest
import torch
from check_code import shown, span


def iou(a, b):
    """Overlaps of every box of `a` with every box of `b`, in xyxy."""
    top, bottom = (
        torch.maximum(a[:, None, :2], b[None, :, :2]),
        torch.minimum(a[:, None, 2:], b[None, :, 2:]),
    )
    inside = (bottom - top).clamp(min=0).prod(2)
    size = lambda box: (box[:, 2:] - box[:, :2]).prod(1)
    return inside / (size(a)[:, None] + size(b)[None] - inside)


def nms(boxes, scores, threshold):
    """Indices that survive: best first, drop what overlaps a kept box more than `threshold`."""
    kept = []
    for i in scores.argsort(descending=True).tolist():
        if all(iou(boxes[i : i + 1], boxes[k : k + 1]).item() <= threshold for k in kept):
            kept.append(i)
    return kept


SCORES = torch.tensor([0.21, 0.18, 0.12, 0.07, 0.02])  # a detector early in its training


def test_a_threshold_for_pictures_leaves_nothing_of_an_early_detector():
    assert (SCORES > 0.25).sum() == 0
    assert (SCORES > 0.05).sum() == 4
    assert (SCORES > 0.001).sum() == 5


CROWD = torch.tensor(
    [[0.0, 0, 100, 100], [40, 0, 140, 100], [80, 0, 180, 100], [120, 0, 220, 100]]
)  # 40 px apart


def test_a_tight_suppression_merges_neighbours_and_a_loose_one_keeps_them():
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
    assert nms(CROWD, scores, 0.1) == [0, 3]
    assert len(nms(CROWD, scores, 0.5)) == 4


def test_suppression_over_all_classes_at_once_drops_a_class_that_lies_on_another():
    rider_on_horse = torch.tensor([[10.0, 10, 110, 110], [12, 8, 112, 108]])
    scores, classes = torch.tensor([0.9, 0.8]), torch.tensor([0, 1])
    assert nms(rider_on_horse, scores, 0.5) == [0]
    apart = rider_on_horse + classes[:, None] * 1000.0  # one offset a class, as batched NMS does
    assert nms(apart, scores, 0.5) == [0, 1]


def test_a_loose_suppression_keeps_copies():
    copies = torch.tensor([[0.0, 0, 100, 100], [3, 3, 103, 103], [6, 6, 106, 106]])
    assert len(nms(copies, torch.tensor([0.9, 0.8, 0.7]), 0.5)) == 1
    assert len(nms(copies, torch.tensor([0.9, 0.8, 0.7]), 0.95)) == 3


def best_possible_recall(sizes, anchors, ratio=4.0):
    """Share of objects with an anchor whose width and height are within the ratio."""
    r = sizes[:, None] / anchors[None]
    return (torch.minimum(r, 1 / r).amin(2).amax(1) > 1 / ratio).float().mean().item()


ANCHORS = torch.tensor([[32.0, 32], [64, 64], [128, 128], [256, 256]])
torch.manual_seed(0)
SMALL = torch.rand(500, 2) * 4 + 2  # 2 to 6 pixels
LONG = torch.stack(
    [torch.rand(500) * 200 + 300, torch.rand(500) * 6 + 6], 1
)  # cables: 300 to 500 by 6 to 12
ORDINARY = torch.rand(500, 2) * 150 + 30


def kmeans(sizes, n, steps=30):
    centres = sizes[torch.linspace(0, len(sizes) - 1, n).long()].clone()
    for _ in range(steps):
        nearest = torch.cdist(sizes.log(), centres.log()).argmin(1)
        for i in range(n):
            if (nearest == i).any():
                centres[i] = sizes[nearest == i].mean(0)
    return centres


def test_anchors_for_ordinary_objects_can_not_match_tiny_or_long_ones():
    assert best_possible_recall(ORDINARY, ANCHORS) > 0.98
    assert best_possible_recall(SMALL, ANCHORS) == 0
    assert best_possible_recall(LONG, ANCHORS) == 0


def test_anchors_clustered_from_the_labels_can():
    assert best_possible_recall(SMALL, kmeans(SMALL, 4)) > 0.98
    assert best_possible_recall(LONG, kmeans(LONG, 4)) > 0.98


def test_labels_in_the_pixels_of_the_full_image_do_not_fit_anchors_of_the_network_input():
    full = ORDINARY * 6  # a 4K picture, shown to the network at 640
    assert best_possible_recall(full, ANCHORS) < best_possible_recall(full / 6, ANCHORS)


def told(scores, boxes, threshold, overlap=0.5, objects=CROWD):
    """What the line of the check prints: the highest score, and the shares found among all boxes and the kept."""
    above = scores > threshold
    kept = boxes[above][nms(boxes[above], scores[above], overlap)]
    names = {"box_iou": iou, "true_boxes": objects, "scores": scores, "every": boxes, "kept": kept}
    exec(span("V4", "lambda"), names)
    return tuple(map(float, shown(span("V4", "scores.max"), **names).split()))


def test_the_check_shows_where_the_boxes_are_lost_and_whether_there_were_any():
    sure = torch.tensor([0.9, 0.8, 0.7, 0.6])
    assert told(sure, CROWD, 0.05) == (pytest.approx(0.9), 1, 1)
    assert told(sure, CROWD, 0.95)[1:] == (1, 0)  # the threshold
    assert told(sure, CROWD, 0.05, overlap=0.1)[1:] == (1, 0.5)  # the suppression
    early = told(SCORES[1:] / 10, CROWD, 0.05)
    assert early[0] < 0.05 and early[1:] == (1, 0)  # nothing was learned
    cables = torch.tensor([[0.0, 0, 400, 8]])
    assert told(sure, CROWD, 0.05, objects=cables)[1:] == (0, 0)  # no anchor has their shape


def test_the_check_takes_copies_that_the_suppression_removes_for_sound():
    copies, scores = CROWD.repeat(3, 1) + 1, torch.linspace(0.9, 0.6, 12)
    assert told(scores, copies, 0.05)[1:] == (1, 1)
