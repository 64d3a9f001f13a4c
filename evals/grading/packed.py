"""Sets whose cases are whole logs: a packed file of JSON lines, and the count of right answers."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_packed(path: Path) -> list[dict[str, Any]]:
    """Return the cases of a set."""
    lines = gzip.decompress(path.read_bytes()).decode("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def count_right(judged: Iterable[list[tuple[str, bool]]]) -> tuple[Counter[str], Counter[str]]:
    """Return how many are right, and how many there are, by what each case is counted as."""
    hits, sizes = Counter[str](), Counter[str]()
    for case in judged:
        for name, is_right in case:
            sizes[name] += 1
            hits[name] += is_right
    return hits, sizes
