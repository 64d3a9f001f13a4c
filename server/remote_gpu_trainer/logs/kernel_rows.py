"""Does a report hold lines of the kernel? Python 3.8.

Apart from `kernel_lines`, because few reports do, and the reader of kernel logs takes time to load.
"""

from __future__ import annotations

import re

from .lines import Line

# [  300.123456] NVRM: …      [Sat Mar  4 04:25:12 2026] NVRM: …      node7 kernel: NVRM: …
# 6,3973,227996636,-;NVRM: …      NVRM: …
ROW = re.compile(
    r"(?:<\d+>)?\[ *\d+\.\d{6}\] |\[[A-Z]\w\w [A-Z]\w\w +\d+ [\d:]{8} \d{4}\] "
    r"|\d+,\d+,\d+,[^;]{0,20};|NVRM: |.{0,80}\bkernel: "
)


def has_kernel_rows(lines: list[Line]) -> bool:
    """Return whether a line is one of the kernel."""
    return any(ROW.match(line.text) for line in lines)
