"""The names of torchvision's compiled operators, so that what imports it goes on.

They want a CUDA build of torch, and beside one without CUDA the import stops at their names. Transforms use none of
them, so the names alone are enough, also for the libraries that import it. A CUDA build finds its own.
"""

CODE = """
import torch
if torch.version.cuda is None:
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""
