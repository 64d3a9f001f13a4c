"""Lines that state versions and nothing else: the head of nvidia-smi, nvcc --version, the driver.

Alone they are no symptom, even where entries contain the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Above each, one real line.
_BANNER = re.compile(
    r"""\s*(?:
        # Tue Nov 20 10:00:00 2026
        (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)
        \ (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)
        \ +\d+\ [\d:]+(?:\ [A-Z]+)?\ \d{4}
        # +-----------------------------+
        | [+|=\-\s]+
        # | NVIDIA-SMI 580.82    Driver Version: 580.82    CUDA Version: 13.0  |
        | \|?\s*(?:NVIDIA-SMI\s+[\d.]+\s+)?(?:(?:KMD|Driver)\ Version:\s*[\d.]+\s+)
          CUDA(?:\ UMD)?\ Version:\s*[\d.]+\s*\|?
        # nvcc: NVIDIA (R) Cuda compiler driver
        | nvcc:\ NVIDIA\ \(R\)\ Cuda\ compiler\ driver
        | Copyright\ \(c\)\ [\d-]+\ NVIDIA\ Corporation | Built\ on\ \w{3}_\w{3}_.*
        # Cuda compilation tools, release 12.4, V12.4.131
        | Cuda\ compilation\ tools,\ release\ [\d.]+,\ V[\d.]+ | Build\ cuda_[\w.]+/compiler\.[\w.]+
        # NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
        | NVRM\ version:\ NVIDIA\ UNIX\ .* | GCC\ version:\ .*
        # $ nvidia-smi
        | [\w@:~/.\#\-]*[$\#]\s*
          (?:nvidia-smi|nvcc\ (?:--version|-V)|cat\ /proc/driver/nvidia/version)
    )\s*""",
    re.X,
)


def only_versions(lines: Iterable[str]) -> bool:
    """Return whether every line that isn't blank states versions only; False without such lines."""
    found = False
    for line in lines:
        if line.strip():
            if len(line) >= 300 or not _BANNER.fullmatch(line):
                return False
            found = True
    return found
