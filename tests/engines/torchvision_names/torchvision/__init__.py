"""Lets torchvision load where its compiled operators don't fit the build of torch beside it.

Put the folder above on PYTHONPATH. transformers, Lightning and peft import torchvision when it is installed, and stop
if that fails. Their tests here use none of its operators, so it is enough that the names exist.
"""

import importlib
import sys
from pathlib import Path


def _real():
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return importlib.import_module("torchvision")


sys.path[:] = [part for part in sys.path if Path(part) != Path(__file__).parents[1]]
try:
    _real()
except RuntimeError as error:
    if "torchvision::" not in str(error):
        raise
    import torch

    torch._names_of_torchvision = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        torch._names_of_torchvision.define(
            f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    _real()
