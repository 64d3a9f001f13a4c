"""Puts scripts/probe.py together from scripts/probe/, as make_gpu_health.py does its file."""

from __future__ import annotations

import runpy
from pathlib import Path

PARTS = Path("scripts/probe")
LAST = "program"  # its docstring is what --help shows


def generated(root: Path) -> str:
    """The text of scripts/probe.py that the parts in `root`, a checkout, make."""
    maker = runpy.run_path(str(Path(__file__).with_name("make_gpu_health.py")))
    return maker["one_file"](root, PARTS, LAST)
