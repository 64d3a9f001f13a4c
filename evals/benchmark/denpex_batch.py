"""Denpex's offline engine on many texts: what `denpex diagnose-local` prints first, for each.

Reads a JSON list of texts from standard input, or of paths after `--files`. The engine refuses what
is longer than 512 KiB, so it gets the end of such a text.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

os.environ["DENPEX_USE_CANONICAL_OFFLINE"] = "1"  # as the command sets it

import denpex
import denpex_local

MOST, AT_ONCE = 500_000, 8  # bytes, texts


def diagnosed(texts: list[str]) -> list[dict]:
    """What the engine says to each; where it gives up on a batch, its halves are asked."""
    try:
        return denpex_local.local_diagnose_batch(texts)
    except (RuntimeError, subprocess.TimeoutExpired):
        if len(texts) == 1:
            return [{"failureType": "OFFLINE_ENGINE_UNAVAILABLE"}]
        half = len(texts) // 2
        return diagnosed(texts[:half]) + diagnosed(texts[half:])


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if "--files" in sys.argv:
        given = [Path(path).read_text("utf-8", "replace") for path in given]
    ends = [text.encode("utf-8", "replace")[-MOST:].decode("utf-8", "ignore") for text in given]
    for at in range(0, len(ends), AT_ONCE):
        for found in diagnosed(ends[at : at + AT_ONCE]):
            print(
                f"FAILURE: {found['failureType']}{denpex._confidence_label(found)}", "\nEND", sep=""
            )
