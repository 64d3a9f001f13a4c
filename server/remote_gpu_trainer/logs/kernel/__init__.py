"""The reader of kernel logs: lines to events, and how bad each is.

`rgt lookup` and `rgt health` read a kernel log by it. scripts/gpu_health.py holds these modules
too, so they need Python 3.8 and the standard library, and import nothing from outside this folder.

From bottom to top: places (of a card, and clean text), advice (levels, and what to do), tables;
xids and log_rules, with what is in data/; kernel_log.
"""

from pathlib import Path


def data_text(name):
    """The text of a file in data/. The one file has the text itself in place of this call."""
    return (Path(__file__).parent / "data" / name).read_text(encoding="utf-8")
