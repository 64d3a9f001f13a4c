"""Baselines as commands: `words.py bm25` or `words.py titles`, with the text on standard input.

`titles` prints the entries whose title quotes something that stands in the text, the longest quote first.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "evals"), str(ROOT / "server")]

from grading import systems
from grading.cases import Case
from remote_gpu_trainer.catalogue import bundle


def titles(text: str) -> list[str]:
    """Ids of the entries of which a quote in the title, of six letters or more, is in the text."""
    low, found = text.lower(), []
    for entry in bundle.load().entries:
        quotes = [part for q in re.findall(r"`([^`]+)`", entry.title) for part in q.split("…")]
        long = [len(q.strip()) for q in quotes if len(q.strip()) >= 6 and q.strip().lower() in low]
        if long:
            found.append((-max(long), entry.id))
    return [name for _, name in sorted(found)][:3]


def bm25(text: str) -> list[str]:
    """The first 18 ids by Okapi BM25; those after the third aren't claimed."""
    claims, further = systems.bm25([Case("1", "error", text, (), "")])["1"]
    return [*claims, *(f"also {name}" for name in further)]


if __name__ == "__main__":
    ways = {"bm25": bm25, "titles": titles}
    print("\n".join(ways[sys.argv[1]](sys.stdin.buffer.read().decode("utf-8", "replace"))) or "none")
