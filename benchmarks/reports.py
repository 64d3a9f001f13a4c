"""Reports of ten kilobytes and logs of any size, made from the cases and the logs of evals/."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "evals"))

from reading.long import LongLog, failures, noise


def ten_kilobytes(count: int, seed: int = 1) -> list[str]:
    """A failing run as people paste it: a healthy run's log that ends in a real report or log."""
    texts = [
        json.loads(line)
        for line in (ROOT / "evals/cases.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    texts = [
        case["text"]
        if "text" in case
        else (ROOT / "evals" / case["file"]).read_text(encoding="utf-8")
        for case in texts
        if case["kind"] == "error"
    ]
    draw = random.Random(seed)
    found = []
    for at in range(count):
        end = "\n".join(draw.sample(texts, 2))[-6000:]
        found.append(noise(seed + at, 10_000 - len(end)).decode()[: 10_000 - len(end)] + "\n" + end)
    return found


def write_log(path: Path, megabytes: int, seed: int = 3) -> None:
    """A log of this size with one failure in its middle."""
    log = LongLog(failures()[0], megabytes * 1_000_000, 0.5, seed)
    with open(path, "wb") as out:
        while block := log.read(1 << 20):
            out.write(block)
